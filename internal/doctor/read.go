package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/cilium"
	"github.com/selvage/selvage/internal/host"
)

// Network is what the kernel says of interfaces and routes; *host.Survey is one.
type Network interface {
	Devices() ([]host.Device, error)
	Paths(remote, local netip.Addr) ([]host.Path, error)
	RoutingProtocols() (map[string][]string, error)
	Shapers() (map[string][]host.Shaper, error)
	IPsec() (int, error)
}

// Adapters reads an interface with ethtool.
type Adapters interface {
	NIC(name string) NIC
}

// Vswitch is Open vSwitch's database.
type Vswitch interface {
	// List returns the given columns of a table, one map for each row. It is nil
	// without an error when there is no Open vSwitch.
	List(ctx context.Context, table string, columns ...string) ([]Row, error)
}

// Edges are the Selvage edges that answer, of whatever network namespace.
type Edges interface {
	Edges(ctx context.Context) ([]EdgeAnswer, error)
}

// Sources are where an inventory comes from.
type Sources struct {
	Sys, Proc string // roots of sysfs and procfs
	Etc       string // of os-release
	Network   Network
	Adapters  Adapters
	Vswitch   Vswitch
	Edges     Edges
	Cilium    string // socket of its agent
}

// Read takes an inventory. If name is not empty, only that interface and the
// tunnels over it are looked at. What cannot be read is in the inventory's
// Unknown; the error is for what nothing can be said without.
func Read(ctx context.Context, s Sources, name string) (Inventory, error) {
	inv := Inventory{Interface: name, Tunnels: []Tunnel{}, Bridges: []Bridge{}, Edges: []Edge{}, Softnet: []Softnet{}}
	devices, err := s.Network.Devices()
	if err != nil {
		return inv, fmt.Errorf("read the network: %w", err)
	}
	for _, d := range devices {
		inv.Links = append(inv.Links, Link{Device: d})
	}
	if l, ok := inv.named(name); ok {
		inv.Interface = l.Name
	} else if name != "" {
		e := &UnknownInterfaceError{Name: name}
		for _, l := range inv.Links {
			e.Have = append(e.Have, l.Name)
		}
		return inv, e
	}
	inv.addKernel()
	inv.addVswitch(ctx, s.Vswitch)
	inv.addEdges(ctx, s.Edges, s.Proc)
	if inv.HostRouting, err = cilium.HostRouting(ctx, s.Cilium); err != nil {
		inv.unknown("how Cilium routes packets of pods", "%v", err)
	}
	if err := inv.addPaths(s.Network); err != nil {
		return inv, err
	}
	addRouting(&inv, s.Network)
	addWay(&inv, s.Network)
	inv.restrict()
	inv.assignRoles()
	machine{s.Sys, s.Proc}.read(&inv)
	inv.readAdapters(s)
	return inv, ctx.Err()
}

// readAdapters asks every link with a role.
func (inv *Inventory) readAdapters(s Sources) {
	interrupts, err := readInterrupts(s.Proc)
	if err != nil {
		inv.unknown("interrupts", "%v", err)
	}
	classes := classesOf(s.Sys, inv.Links)
	for _, l := range inv.of(Underlay, Device, Port, Spare) {
		nic := s.Adapters.NIC(l.Name)
		l.NIC = &nic
		if !l.Physical() { // a software device lacks most of what an adapter has
			continue
		}
		for _, m := range nic.Missing {
			inv.unknown(m.What+" of "+l.Name, "%s", m.Why)
		}
		slot := slotOf(s.Sys, l)
		l.PCI = slot.read()
		l.IRQs = slot.interrupts(s.Proc, interrupts)
		if rps, err := classes.steering(l.Name); err != nil {
			inv.unknown("receive packet steering of "+l.Name, "%v", err)
		} else {
			l.RPS = rps
		}
	}
}

// restrict leaves out the tunnels that have nothing to do with the interface.
func (inv *Inventory) restrict() {
	if inv.Interface == "" {
		return
	}
	inv.Tunnels = slices.DeleteFunc(inv.Tunnels, func(t Tunnel) bool {
		return t.Device != inv.Interface && t.Lower != inv.Interface && !slices.Contains(t.underlays(), inv.Interface)
	})
}

// underlays are the interfaces that a tunnel's packets pass.
func (t Tunnel) underlays() []string {
	var names []string
	for _, p := range t.Paths {
		names = append(names, p.Hops...)
	}
	return names
}

// assignRoles says which links matter, and as what. A restricted inventory has
// the interface, the tunnels over it and what those need.
func (inv *Inventory) assignRoles() {
	set := func(name string, r Role) {
		if l, ok := inv.link(name); ok && l.Role == "" && (inv.Interface == "" || inv.concerns(name)) {
			l.Role = r
		}
	}
	for _, t := range inv.Tunnels {
		set(t.Device, Device)
		for _, name := range t.underlays() {
			set(name, Underlay)
		}
		set(t.Lower, Underlay)
	}
	for _, t := range inv.Tunnels {
		for _, name := range t.Ports {
			set(name, Port)
		}
	}
	for _, l := range inv.Links {
		if l.Physical() && l.Up || l.Name == inv.Interface {
			set(l.Name, Spare)
		}
	}
}

// concerns reports whether a restricted examination looks at a link: the
// interface, what is below it, and the tunnels over it.
func (inv *Inventory) concerns(name string) bool {
	if slices.Contains(inv.hops(inv.Interface), name) {
		return true
	}
	return slices.ContainsFunc(inv.Tunnels, func(t Tunnel) bool { return t.Device == name })
}
