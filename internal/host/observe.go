package host

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/overlay"
)

// resolved are the neighbour states in which the MAC address may be used.
const resolved = unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE |
	unix.NUD_PERMANENT | unix.NUD_NOARP

// Observe reports what the host is like now.
func (h *Host) Observe(want Want) (State, error) {
	links, err := gather(h.handle.LinkList)
	if err != nil {
		return State{}, fmt.Errorf("list links: %w", err)
	}
	v := State{Links: make(map[string]Link), ChecksumDevices: h.devices.checksumDevices(links), GRODevice: h.devices.groDevice(links)}
	byIndex := make(map[int]Link, len(links))
	byName := make(map[string]Link, len(links))
	for _, l := range links {
		link := linkOf(l)
		byIndex[link.Index], byName[link.Name] = link, link
		if want.matches(link.Name) {
			if v.Aliases == nil {
				v.Aliases = map[string]string{}
			}
			v.Aliases[link.Name] = l.Attrs().Alias
		}
		for _, name := range l.Attrs().AltNames {
			byName[name] = link
		}
	}
	again := factsMost
	for _, name := range want.Interfaces {
		if link, ok := byName[name]; ok {
			v.Links[name] = h.complete(link, &again)
		}
	}
	if v.TEPs, err = h.present(want.TEPs); err != nil {
		return State{}, err
	}
	if v.Routes, v.Vias, err = h.routes(want.Pairs, v.TEPs, byIndex); err != nil {
		return State{}, err
	}
	return v, h.resolve(v.Routes)
}

func (w Want) matches(name string) bool {
	return slices.ContainsFunc(w.Patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	})
}

// resolve fills in the MAC addresses of the next hops and tells the watcher
// which neighbours matter.
func (h *Host) resolve(routes map[overlay.Pair]Path) error {
	hops := make(map[NextHop]overlay.MAC)
	indexes := make(map[int]bool)
	for _, p := range routes {
		if !p.Local {
			hops[p.NextHop] = overlay.MAC{}
			indexes[p.Ifindex] = true
		}
	}
	h.known.observe(hops)
	for ifindex := range indexes {
		neighs, err := h.neighbours(ifindex)
		if err != nil {
			return err
		}
		for hop, n := range neighs {
			if _, ok := hops[hop]; ok {
				hops[hop] = usableMAC(n)
			}
		}
	}
	h.known.observed(hops)
	for pair, p := range routes {
		p.NextMAC = hops[p.NextHop]
		routes[pair] = p
	}
	return nil
}

// present are those of addrs that are configured on any link.
func (h *Host) present(addrs []netip.Addr) (map[netip.Addr]bool, error) {
	found := make(map[netip.Addr]bool, len(addrs))
	if len(addrs) == 0 {
		return found, nil
	}
	list, err := gather(func() ([]netlink.Addr, error) { return h.handle.AddrList(nil, family(addrs[0])) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range list {
		if have, ok := netip.AddrFromSlice(a.IP); ok && slices.Contains(addrs, have.Unmap()) {
			found[have.Unmap()] = true
		}
	}
	return found, nil
}

// neighbours lists the neighbour table of one link.
func (h *Host) neighbours(ifindex int) (map[NextHop]netlink.Neigh, error) {
	list, err := dump(func() ([]netlink.Neigh, error) { return h.handle.NeighList(ifindex, unix.AF_UNSPEC) })
	if err != nil {
		return nil, fmt.Errorf("list neighbours of interface %d: %w", ifindex, err)
	}
	neighs := make(map[NextHop]netlink.Neigh, len(list))
	for _, n := range list {
		if addr, ok := netip.AddrFromSlice(n.IP); ok && n.Family != unix.AF_BRIDGE {
			neighs[NextHop{ifindex, addr.Unmap()}] = n
		}
	}
	return neighs, nil
}

// usableMAC is the neighbour's address, zero while it is not to be used.
func usableMAC(n netlink.Neigh) overlay.MAC {
	if n.State&resolved == 0 || len(n.HardwareAddr) != 6 {
		return overlay.MAC{}
	}
	return overlay.MAC(n.HardwareAddr)
}

func linkOf(l netlink.Link) Link {
	a := l.Attrs()
	link := Link{
		Name:     a.Name,
		Index:    a.Index,
		Kind:     l.Type(),
		MTU:      a.MTU,
		Loopback: a.RawFlags&unix.IFF_LOOPBACK != 0,
		// Drivers without link detection (some taps) leave the state unknown.
		Up: a.RawFlags&unix.IFF_UP != 0 &&
			(a.OperState == netlink.OperUp || a.OperState == netlink.OperUnknown),
	}
	if link.Kind == "device" { // the library's word for a link without a kind
		link.Kind = ""
	}
	if a.EncapType != "ether" && !link.Loopback {
		link.NotEthernet = a.EncapType
	}
	if len(a.HardwareAddr) == 6 {
		link.MAC = overlay.MAC(a.HardwareAddr)
	}
	link.PeerElsewhere = link.Kind == "veth" && a.NetNsID >= 0
	return link
}

// takesSegments reports whether TSO is on. A link whose driver does not tell, or
// that went meanwhile, counts as one that does.
func (h *Host) takesSegments(name string) bool {
	const feature = "tx-tcp-segmentation"
	features, err := h.tool.Features(name)
	on, known := features[feature]
	return err != nil || !known || on
}

func family(addr netip.Addr) int {
	if addr.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// dump repeats a listing that a concurrent change interrupted.
func dump[T any](list func() ([]T, error)) ([]T, error) {
	all, _, err := attempts(list)
	return all[len(all)-1], err // complete but for what changes right now, and that raises an event
}

// gather does so for who takes what is not listed for gone: where no listing was complete it returns what any of them had,
// the last one's word last. Some kernels leave out what did not change at all.
func gather[T any](list func() ([]T, error)) ([]T, error) {
	all, complete, err := attempts(list)
	if complete {
		return all[len(all)-1], err
	}
	return slices.Concat(all...), nil
}

// attempts lists until a listing is complete, a few times.
func attempts[T any](list func() ([]T, error)) (all [][]T, complete bool, err error) {
	const tries = 5
	for range tries {
		some, err := list()
		all = append(all, some)
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return all, true, err
		}
	}
	return all, false, nil
}

// neighbours are the next hops that matter, shared between Observe and the
// watcher, which drops the events of all others.
type neighbours struct {
	mu        sync.Mutex
	macs      map[NextHop]overlay.MAC
	observing bool
}

// observe begins a look at hops: until observed, every event of them counts.
func (n *neighbours) observe(hops map[NextHop]overlay.MAC) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.macs = make(map[NextHop]overlay.MAC, len(hops))
	for hop := range hops {
		n.macs[hop] = overlay.MAC{}
	}
	n.observing = true
}

func (n *neighbours) observed(hops map[NextHop]overlay.MAC) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for hop, mac := range hops {
		n.macs[hop] = mac
	}
	n.observing = false
}

// changed reports whether mac differs from what was observed of hop.
func (n *neighbours) changed(hop NextHop, mac overlay.MAC) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	was, ok := n.macs[hop]
	return ok && (n.observing || was != mac)
}
