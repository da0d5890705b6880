package experiments

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
)

// contenderNames lists the data paths that can be measured. A name with a suffix has an
// encapsulation of its own; the others have that of --encap.
func contenderNames() []string {
	return []string{"wire", "limit", "plain", "kernel", "ovs", "ovs-geneve", "selvage", "selvage-geneve", "selvage-nvgre"}
}

// checkNames says what is wrong with a list of contenders.
func checkNames(names, known []string) error {
	if len(names) == 0 {
		return fmt.Errorf("--contenders: name at least one of %s", strings.Join(known, ", "))
	}
	for i, name := range names {
		switch {
		case !slices.Contains(known, name):
			return fmt.Errorf("--contenders: unknown contender %q; choose from %s", name, strings.Join(known, ", "))
		case slices.Contains(names[:i], name):
			return fmt.Errorf("--contenders: %s is named twice", name)
		}
	}
	return nil
}

func (c *Ab) checkContenders() error {
	if err := checkNames(c.Contenders, c.programs.and(contenderNames())); err != nil {
		return err
	}
	for i, name := range c.Contenders {
		for _, other := range c.Contenders[:i] {
			if c.programs[name] == "" && c.programs[other] == "" && c.path(name) == c.path(other) && c.encapsulation(name) == c.encapsulation(other) {
				return fmt.Errorf("--contenders: %s and %s are the same with --encap %s", other, name, c.Encap)
			}
		}
		if c.Routed && (c.path(name) == "ovs" || name == "limit") {
			return fmt.Errorf("--contenders: %s bridges only; leave it out, or leave out --routed", name)
		}
		if c.path(name) == "ovs" && slices.Contains(c.Cases, transit) {
			return fmt.Errorf("--contenders: %s forwards in a process of its own, whose rate without loss has to be searched for; leave it out, or --cases transit, and run lab rfc2544", name)
		}
	}
	return nil
}

// pathOf is the data path of a contender: "selvage" of "selvage-geneve".
func pathOf(contender string) string {
	path, _, _ := strings.Cut(contender, "-")
	return path
}

// path is pathOf a contender, of which builds are Selvage's too.
func (c *Ab) path(contender string) string { return c.programs.path(contender, pathOf(contender)) }

func (c *Ab) tunnelled(contender string) bool {
	return c.programs[contender] != "" || !slices.Contains([]string{"wire", "plain", "limit"}, contender)
}

// encapsulation is a contender's, "" where there is no tunnel.
func (c *Ab) encapsulation(contender string) overlay.Encapsulation {
	_, own, ok := strings.Cut(contender, "-")
	switch {
	case !c.tunnelled(contender):
		return ""
	case ok:
		return overlay.Encapsulation(own)
	case contender == "kernel": // whose other devices few kernels have, this one not
		return overlay.VXLAN
	}
	return c.Encap
}

// overhead is what a contender's tunnel takes of the underlay's MTU, in bytes.
func (c *Ab) overhead(contender string) int {
	if !c.tunnelled(contender) {
		return 0
	}
	tep := topo.ClientV4
	if c.Family == 6 {
		tep = topo.ClientV6
	}
	return c.encapsulation(contender).Overhead(tep)
}

// mostOverhead is the largest of all contenders, or VXLAN's without a tunnel: all
// end systems have one MTU, so that the data path is all that differs.
func (c *Ab) mostOverhead() int {
	most := 0
	for _, name := range c.Contenders {
		most = max(most, c.overhead(name))
	}
	if most == 0 {
		return c.overhead("kernel")
	}
	return most
}
