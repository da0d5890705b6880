package experiments

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
)

// targetNames lists the data paths that can be measured. A name with a suffix has an
// encapsulation of its own; the others have that of --encap.
func targetNames() []string {
	return []string{"wire", "limit", "plain", "kernel", "ovs", "ovs-geneve", "selvage", "selvage-geneve", "selvage-nvgre"}
}

// checkNames says what is wrong with a list of targets.
func checkNames(names, known []string) error {
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

func (c *Ab) checkTargets() error {
	if err := checkNames(c.Targets, c.programs.and(targetNames())); err != nil {
		return err
	}
	for i, name := range c.Targets {
		for _, other := range c.Targets[:i] {
			if c.programs[name] == "" && c.programs[other] == "" && c.path(name) == c.path(other) && c.encapsulation(name) == c.encapsulation(other) {
				return fmt.Errorf("--targets: %s and %s are the same with --encap %s", other, name, c.Encap)
			}
		}
		if c.Routed && (c.path(name) == "ovs" || name == "limit") {
			return fmt.Errorf("--targets: %s bridges only; leave it out, or leave out --routed", name)
		}
		if c.path(name) == "ovs" && slices.Contains(c.Cases, transit) {
			return fmt.Errorf("--targets: %s forwards in a process of its own, whose rate without loss has to be searched for; leave it out, or --cases transit, and run lab rfc2544", name)
		}
	}
	return nil
}

// pathOf is the data path of a target: "selvage" of "selvage-geneve".
func pathOf(target string) string {
	path, _, _ := strings.Cut(target, "-")
	return path
}

// path is pathOf a target, of which builds are Selvage's too.
func (c *Ab) path(target string) string { return c.programs.path(target, pathOf(target)) }

func (c *Ab) tunnelled(target string) bool {
	return c.programs[target] != "" || !slices.Contains([]string{"wire", "plain", "limit"}, target)
}

// encapsulation is a target's, "" where there is no tunnel.
func (c *Ab) encapsulation(target string) overlay.Encapsulation {
	_, own, ok := strings.Cut(target, "-")
	switch {
	case !c.tunnelled(target):
		return ""
	case ok:
		return overlay.Encapsulation(own)
	case target == "kernel": // whose other devices few kernels have, this one not
		return overlay.VXLAN
	}
	return c.Encap
}

// overhead is what a target's tunnel takes of the underlay's MTU, in bytes.
func (c *Ab) overhead(target string) int {
	if !c.tunnelled(target) {
		return 0
	}
	tep := topo.ClientV4
	if c.Family == 6 {
		tep = topo.ClientV6
	}
	return c.encapsulation(target).Overhead(tep)
}

// mostOverhead is the largest of all targets, or VXLAN's without a tunnel: all
// end systems have one MTU, so that the data path is all that differs.
func (c *Ab) mostOverhead() int {
	most := 0
	for _, name := range c.Targets {
		most = max(most, c.overhead(name))
	}
	if most == 0 {
		return c.overhead("kernel")
	}
	return most
}
