package cli

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/proxmox"
)

type importCmd struct {
	Proxmox importProxmoxCmd `cmd:"" help:"Write the configuration of an edge in EVPN and VXLAN zones of a Proxmox VE cluster."`
}

type importProxmoxCmd struct {
	Dir           string         `arg:"" default:"/etc/pve/sdn" help:"Directory of zones.cfg, vnets.cfg, subnets.cfg and controllers.cfg, /etc/pve/sdn on a node."`
	Name          string         `required:"" placeholder:"NAME" help:"Name of the edge."`
	TEP           netip.Addr     `name:"tep" required:"" placeholder:"ADDR" help:"Address of the edge in the underlay, one of the controller's peers."`
	Interface     string         `default:"eth0" placeholder:"IF" help:"Interface of the underlay."`
	Zone          []string       `placeholder:"ZONE" help:"Zones to take part in; all when left out."`
	Peer          []netip.Addr   `placeholder:"ADDR" help:"Addresses of the nodes, where a fabric has them; those of the controller when left out."`
	Uplink        string         `placeholder:"IF" help:"Be an exit node, by this interface."`
	UplinkAddress []netip.Prefix `placeholder:"ADDR/LEN" help:"Addresses of the zone's router at the uplink."`
	UplinkGateway []netip.Addr   `placeholder:"ADDR" help:"Routers behind the uplink: the way out."`
}

// Run writes a configuration, and says what it lacks.
func (c *importProxmoxCmd) Run(s *streams) error {
	o := proxmox.Options{Name: c.Name, TEP: c.TEP, Interface: c.Interface, Zones: c.Zone, Peers: c.Peer}
	switch {
	case c.Uplink != "" && len(c.UplinkAddress) > 0 && len(c.UplinkGateway) > 0:
		o.Exit = &proxmox.Exit{Interface: c.Uplink, Addresses: c.UplinkAddress, Gateways: c.UplinkGateway}
	case c.Uplink != "" || len(c.UplinkAddress) > 0 || len(c.UplinkGateway) > 0:
		return usageError{errors.New("an exit node needs all of --uplink, --uplink-address and --uplink-gateway")}
	}
	imported, err := proxmox.Import(c.Dir, o)
	if err != nil {
		return usageError{err}
	}
	if _, err := config.Parse("import", []byte(imported.YAML)); err != nil {
		return usageError{err}
	}
	for _, note := range imported.Notes {
		fmt.Fprintln(s.err, note)
	}
	_, err = fmt.Fprint(s.out, imported.YAML)
	return err
}

// Help says what kong's flags do not.
func (*importProxmoxCmd) Help() string {
	return "The configuration goes to standard output; what it does not carry over, and why, to standard error. A property that is unknown is an error."
}
