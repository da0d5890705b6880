package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
)

// CheckNames says what is wrong with a list of targets.
func CheckNames(names, known []string) error {
	if len(names) == 0 {
		return fmt.Errorf("--targets: name at least one of %s", strings.Join(known, ", "))
	}
	for i, name := range names {
		switch {
		case !slices.Contains(known, name):
			return fmt.Errorf("--targets: unknown target %q; choose from %s", name, strings.Join(known, ", "))
		case slices.Contains(names[:i], name):
			return fmt.Errorf("--targets: %s is named twice", name)
		}
	}
	return nil
}

// PathOf is the data path of a target: "selvage" of "selvage-geneve".
func PathOf(target string) string {
	path, _, _ := strings.Cut(target, "-")
	return path
}

// Paths are targets and what is common to their tunnels.
type Paths struct {
	Targets  []string
	Family   int                   // IP version of the underlay
	Encap    overlay.Encapsulation // of targets without one of their own
	Programs Builds                // of targets that are edges of another build
}

// Check says what is wrong with the targets, of which known are those that there are besides builds.
func (p Paths) Check(known []string) error {
	if err := CheckNames(p.Targets, p.Programs.And(known)); err != nil {
		return err
	}
	for i, name := range p.Targets {
		for _, other := range p.Targets[:i] {
			if p.Programs[name] == "" && p.Programs[other] == "" && p.Path(name) == p.Path(other) && p.Encapsulation(name) == p.Encapsulation(other) {
				return fmt.Errorf("--targets: %s and %s are the same with --encap %s", other, name, p.Encap)
			}
		}
	}
	return nil
}

// Path is pathOf a target, of which builds are Selvage's too.
func (p Paths) Path(target string) string { return p.Programs.Path(target, PathOf(target)) }

// Tunnelled says whether a target has a tunnel.
func (p Paths) Tunnelled(target string) bool {
	return p.Programs[target] != "" || !slices.Contains([]string{"wire", "plain", "limit"}, target)
}

// Encapsulation is a target's, "" where there is no tunnel.
func (p Paths) Encapsulation(target string) overlay.Encapsulation {
	_, own, ok := strings.Cut(target, "-")
	switch {
	case !p.Tunnelled(target):
		return ""
	case ok:
		return overlay.Encapsulation(own)
	case target == "kernel": // whose other devices few kernels have, this one not
		return overlay.VXLAN
	}
	return p.Encap
}

// Overhead is what a target's tunnel takes of the underlay's MTU, in bytes.
func (p Paths) Overhead(target string) int {
	if !p.Tunnelled(target) {
		return 0
	}
	tep := topo.ClientV4
	if p.Family == 6 {
		tep = topo.ClientV6
	}
	return p.Encapsulation(target).Overhead(tep)
}

// MostOverhead is the largest of all targets, or VXLAN's without a tunnel: all
// end systems have one MTU, so that the data path is all that differs.
func (p Paths) MostOverhead() int {
	most := 0
	for _, name := range p.Targets {
		most = max(most, p.Overhead(name))
	}
	if most == 0 {
		return p.Overhead("kernel")
	}
	return most
}

// Limits of an MTU: IPv6's minimum (RFC 8200 section 5), as both families cross every path, and the
// largest that a length field has.
const (
	LeastMTU = 1280
	MostMTU  = 65535
)
