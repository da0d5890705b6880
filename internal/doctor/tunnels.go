package doctor

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
)

// addKernel adds the kernel's bridges and tunnel devices.
func (inv *Inventory) addKernel() {
	for _, l := range inv.Links {
		if l.Kind == "bridge" {
			inv.Bridges = append(inv.Bridges, Bridge{Name: l.Name, Source: fromKernel, Members: inv.members(l.Name)})
		}
	}
	for _, l := range inv.Links {
		if l.Tunnel == nil || fallback(l) || ours(l) {
			continue
		}
		t := Tunnel{Name: l.Name, Source: fromKernel, Tunnel: *l.Tunnel, Device: l.Name, Bridge: l.Master, MTU: l.MTU, Up: l.Up, Ports: []string{}}
		for _, name := range inv.members(l.Master) {
			if port, ok := inv.link(name); ok && port.Tunnel == nil {
				t.Ports = append(t.Ports, name)
			}
		}
		inv.Tunnels = append(inv.Tunnels, t)
	}
}

// fallback reports whether l is a device that the kernel's modules of GRE and of IP in IP make
// for themselves: no remote, and nobody has enabled it.
func fallback(l Link) bool {
	return l.Tunnel.Port == 0 && len(l.Tunnel.Remotes) == 0 && !l.Tunnel.External && !l.Up
}

// ours reports whether l is a device that an edge made to send or gather through: it
// receives nothing, and the edge's own tunnels are listed as such.
func ours(l Link) bool {
	return l.Tunnel.External && l.Name == host.ChecksumDeviceName(l.Tunnel.Port)
}

// members are the links that have this master.
func (inv *Inventory) members(master string) []string {
	names := []string{}
	for _, l := range inv.Links {
		if master != "" && l.Master == master {
			names = append(names, l.Name)
		}
	}
	return names
}

// addPaths asks for the ways to every remote: of a route with several next hops, one by each.
func (inv *Inventory) addPaths(network Network) error {
	type pair struct{ remote, local netip.Addr }
	known := map[pair][]Path{}
	for i := range inv.Tunnels {
		t := &inv.Tunnels[i]
		t.Paths = []Path{}
		for _, remote := range t.Remotes {
			key := pair{remote, t.Local}
			if _, ok := known[key]; !ok {
				found, err := network.Paths(remote, t.Local)
				if err != nil {
					return fmt.Errorf("read the network: %w", err)
				}
				if len(found) == 0 {
					known[key] = []Path{{Remote: remote}}
				}
				for _, p := range found {
					known[key] = append(known[key], Path{
						Remote: remote, Reachable: true, Local: p.Local, Interface: p.Interface, MTU: p.MTU, Hops: inv.hops(p.Interface),
					})
				}
			}
			t.Paths = append(t.Paths, known[key]...)
		}
	}
	return nil
}

// hops are the interfaces that a packet to name passes, name first: below a
// VLAN its link, below a bond its members, below a bridge those that lead out
// of the host.
func (inv *Inventory) hops(name string) []string {
	hops := []string{name}
	for i := 0; i < len(hops); i++ {
		for _, below := range inv.below(hops[i]) {
			if !slices.Contains(hops, below) {
				hops = append(hops, below)
			}
		}
	}
	return hops
}

func (inv *Inventory) below(name string) []string {
	l, ok := inv.link(name)
	if !ok {
		return nil
	}
	if l.Lower != "" {
		return []string{l.Lower}
	}
	members := inv.members(name)
	if l.Kind == "bond" || l.Kind == "team" {
		return members
	}
	if i := slices.IndexFunc(inv.Bridges, func(b Bridge) bool { return b.Name == name }); i >= 0 {
		members = slices.Clone(inv.Bridges[i].Members)
	}
	members = slices.DeleteFunc(members, func(m string) bool {
		port, ok := inv.link(m)
		return !ok || port.Tunnel != nil || m == name
	})
	out := slices.DeleteFunc(slices.Clone(members), func(m string) bool {
		port, _ := inv.link(m)
		return !port.Physical()
	})
	if len(out) == 0 && len(members) == 1 { // the only way there is
		return members
	}
	return out
}

// overhead is what the tunnel adds to an inner IP packet on the way to remote,
// in bytes, Geneve without options.
func (t Tunnel) overhead(remote netip.Addr) int {
	const udp, vxlan, greKey, ethernet = 8, 8, 4, 14
	full := overlay.VXLAN.Overhead(remote) // Geneve's fixed header is as long
	switch t.Encapsulation {
	case "nvgre":
		return full - udp
	case "gretap", "gre":
		full -= udp
		if t.VNI == 0 { // RFC 2890: no key, no field
			full -= greKey
		}
		if t.Encapsulation == "gre" { // carries IP
			full -= ethernet
		}
	case "ipip", "sit":
		full -= udp + vxlan + ethernet
	}
	return full
}

// carries is the largest inner IP packet that enters the tunnel: of its device,
// else of its ports; 0 when neither is known.
func (inv *Inventory) carries(t Tunnel) int {
	if t.MTU > 0 {
		return t.MTU
	}
	return inv.fills(t)
}
