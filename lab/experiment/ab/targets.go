package ab

import (
	"fmt"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/experiment"
)

// targetNames lists the data paths that can be measured. A name with a suffix has an
// encapsulation of its own; the others have that of --encap.
func targetNames() []string {
	return []string{"wire", "limit", "limit-vxlan", "plain", "kernel", "ovs", "ovs-geneve", "selvage", "selvage-geneve", "selvage-nvgre"}
}

// paths are the targets and their tunnels.
func (c *Command) paths() experiment.Paths {
	return experiment.Paths{Targets: c.Targets, Family: c.Family, Encap: c.Encap, Programs: c.programs}
}

func (c *Command) checkTargets() error {
	if err := c.paths().Check(targetNames()); err != nil {
		return err
	}
	for _, name := range c.Targets {
		if c.Routed && (c.path(name) == "ovs" || c.path(name) == "limit") {
			return fmt.Errorf("--targets: %s bridges only; leave it out, or leave out --routed", name)
		}
		if c.path(name) == "limit" && c.Family == 6 && c.encapsulation(name) != "" {
			return fmt.Errorf("--targets: %s is a tunnel over IPv4; leave it out, or leave out --family", name)
		}
		if c.path(name) == "ovs" && slices.Contains(c.Cases, transitCase) {
			return fmt.Errorf("--targets: %s forwards in a process of its own, whose rate without loss has to be searched for; leave it out, or --cases transit, and run lab rfc2544", name)
		}
	}
	if len(c.Targets) == 1 {
		return fmt.Errorf("--targets: %s alone is compared with nothing; name another, such as plain", c.Targets[0])
	}
	return nil
}

func (c *Command) path(target string) string { return c.paths().Path(target) }
func (c *Command) encapsulation(target string) overlay.Encapsulation {
	return c.paths().Encapsulation(target)
}
