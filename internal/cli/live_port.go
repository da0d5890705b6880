package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/selvage/selvage/internal/config"
)

type portCmd struct {
	Show   portShowCmd   `cmd:"" default:"withargs" help:"List live ports: those that are not in the configuration file. selvage ports lists all."`
	Add    portAddCmd    `cmd:"" help:"Add a port."`
	Set    portSetCmd    `cmd:"" help:"Change a live port: what is given replaces what there was."`
	Remove portRemoveCmd `cmd:"" aliases:"del,delete" help:"Remove live ports."`
}

type portShowCmd struct{ showing }

// Run lists live ports.
func (c *portShowCmd) Run(ctx context.Context, s *streams) error {
	return c.show(ctx, s, config.KindPort)
}

// portFields are flags for the fields of a port.
type portFields struct {
	Interface    string            `placeholder:"NAME" help:"Local interface; the name of the port when left out. It may appear later."`
	Segment      string            `placeholder:"NAME" help:"Segment of untagged frames."`
	VLAN         map[string]string `name:"vlan" placeholder:"VLAN=SEGMENT" help:"VLANs of a trunk, and their segments."`
	AllowMAC     []string          `name:"allow-mac" placeholder:"MAC" help:"MAC addresses that may send; anybody when left out. none takes the restriction away."`
	AllowAddress []string          `name:"allow-address" placeholder:"ADDRESS" help:"IP addresses and networks that may send; any when left out. none takes the restriction away."`
	Label        map[string]string `placeholder:"NAME=VALUE" help:"Labels that groups of the firewall select the port by."`
	RA           string            `name:"ra" enum:",drop,allow" default:"" help:"What becomes of IPv6 router advertisements from the port: drop or allow."`
	DHCP         string            `name:"dhcp" enum:",client,server" default:"" help:"Who speaks DHCP at the port: client or server."`
}

// object has the fields that were given.
func (f portFields) object() (map[string]any, error) {
	o := map[string]any{}
	for name, value := range map[string]string{"interface": f.Interface, "segment": f.Segment, "ra": f.RA, "dhcp": f.DHCP} {
		if value != "" {
			o[name] = value
		}
	}
	if len(f.VLAN) > 0 {
		list := []map[string]any{}
		for vlan, segment := range f.VLAN {
			n, err := strconv.ParseUint(vlan, 10, 16)
			if err != nil {
				return nil, usageError{fmt.Errorf("--vlan: %q is not a VLAN, as in --vlan 10=blue", vlan)}
			}
			list = append(list, map[string]any{"vlan": n, "segment": segment})
		}
		o["vlans"] = list
	}
	if len(f.Label) > 0 {
		o["labels"] = f.Label
	}
	return o, nil
}

// allowed is who may send, as far as it was given.
func (f portFields) allowed() map[string]any {
	o := map[string]any{}
	for name, list := range map[string][]string{"macs": f.AllowMAC, "addresses": f.AllowAddress} {
		switch {
		case len(list) == 1 && list[0] == "none":
			o[name] = nil
		case name == "addresses" && len(list) > 0:
			o[name] = config.Networks(list)
		case len(list) > 0:
			o[name] = list
		}
	}
	return o
}

type portAddCmd struct {
	adding
	portFields
	Wait time.Duration `placeholder:"TIME" help:"Also wait until its interface is there and up, this long at most."`
	Name string        `arg:"" help:"Name of the port."`
}

// Run adds a port.
func (c *portAddCmd) Run(ctx context.Context, s *streams) error {
	o, err := c.object()
	if err != nil {
		return err
	}
	if o["name"] = c.Name; c.Interface == "" {
		o["interface"] = c.Name
	}
	if allowed := c.allowed(); len(allowed) > 0 {
		for name, list := range allowed {
			if list == nil {
				delete(allowed, name)
			}
		}
		if len(allowed) > 0 {
			o["allowed"] = allowed
		}
	}
	if err := c.add(ctx, s, config.KindPort, c.Name, o); err != nil || c.Wait == 0 || c.DryRun {
		return err
	}
	return c.awaitUp(ctx, c.Name, c.Wait)
}

// Help says what kong's flags do not.
func (*portAddCmd) Help() string {
	return "The command ends when the port is in the maps. A port whose interface does not exist yet is attached when that appears; --wait waits for it."
}

type portSetCmd struct {
	setting
	portFields
	Name string `arg:"" help:"Name of the port."`
}

// Run changes a port.
func (c *portSetCmd) Run(ctx context.Context, s *streams) error {
	o, err := c.object()
	if err != nil {
		return err
	}
	allowed := c.allowed()
	switch macs, addresses := allowed["macs"], allowed["addresses"]; {
	case len(allowed) == 2 && macs == nil && addresses == nil:
		o["allowed"] = nil
	case len(allowed) > 0:
		o["allowed"] = allowed
	}
	return c.set(ctx, s, config.KindPort, c.Name, o)
}

type portRemoveCmd struct{ namedRemoval }

// Run removes ports.
func (c *portRemoveCmd) Run(ctx context.Context, s *streams) error {
	return c.remove(ctx, s, config.KindPort, c.Names...)
}
