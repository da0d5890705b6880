package edge

import (
	"net"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/duplicate"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/logging"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
)

func newDuplicates(e *edge) *duplicate.Watch {
	a := addressed{e}
	return duplicate.New(duplicate.Options{
		Addresses: a.list, Refused: a.refused, Ask: e.opts.AskForAddresses, Defend: duplicate.Defend, Withhold: e.role.Claims.Withhold, Enter: e.ns.Enter,
		Log: logging.For(e.log, "addresses"), Report: e.faults.Report,
	})
}

// addressed lends the addresses of an edge.
type addressed struct{ e *edge }

// list is called in the network namespace.
func (a addressed) list() (list []duplicate.Address, own []overlay.MAC) {
	a.e.state.mu.RLock()
	config, links := a.e.state.config, a.e.state.hostState.Links
	a.e.state.mu.RUnlock()
	claims := a.e.role.Claims.All()
	for _, r := range config.Routers {
		for _, u := range r.Uplinks {
			more := atUplink(u, links[u.Interface], claims)
			list = append(list, more...)
			for _, one := range more {
				own = append(own, one.MAC)
			}
		}
	}
	teps, macs := tepsOf(config.Underlay)
	return append(list, teps...), append(own, macs...)
}

// atUplink are the addresses of an uplink, and those of pools that the edge answers for there.
func atUplink(u overlay.Uplink, l host.Link, claims map[gateway.Place]bool) (list []duplicate.Address) {
	if !l.Up {
		return nil
	}
	at := duplicate.Link{Interface: u.Interface, Ifindex: l.Index, VLAN: u.VLAN, MAC: plan.UplinkMAC(u, l)}
	for _, p := range u.Addresses {
		list = append(list, duplicate.Address{Place: gateway.Place{Uplink: u.Name, Addr: p.Addr()}, Link: at})
	}
	for p := range claims {
		if p.Uplink == u.Name && !slices.ContainsFunc(u.Addresses, func(own netip.Prefix) bool { return own.Addr() == p.Addr }) {
			list = append(list, duplicate.Address{Place: p, Link: at, Shared: true})
		}
	}
	return list
}

// tepsOf are the tunnel endpoints that are addresses of Ethernet interfaces, and the MAC addresses of this host: by one of its interfaces it may
// answer for the address of another. One at a loopback is in no network whose hosts could be asked.
func tepsOf(u overlay.Underlay) (list []duplicate.Address, own []overlay.MAC) {
	all, err := net.Interfaces()
	if err != nil { // tried again at the next look
		return nil, nil
	}
	for _, i := range all {
		if len(i.HardwareAddr) != len(overlay.MAC{}) {
			continue
		}
		mac := overlay.MAC(i.HardwareAddr)
		own = append(own, mac)
		addrs, err := i.Addrs()
		if err != nil || i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err == nil && slices.ContainsFunc(u.Local(), func(t overlay.TEP) bool { return t.Addr == p.Addr() }) {
				list = append(list, duplicate.Address{Place: gateway.Place{Addr: p.Addr()}, Link: duplicate.Link{Interface: i.Name, Ifindex: i.Index, MAC: mac}})
			}
		}
	}
	return list, own
}

// refused is how many messages from addresses of the edge came by uplinks.
func (a addressed) refused() (n uint64, err error) {
	a.e.state.mu.RLock()
	defer a.e.state.mu.RUnlock()
	if a.e.state.dp == nil {
		return 0, nil
	}
	all, err := a.e.state.dp.Drops.OwnerDrops(datapath.OwnerPort)
	for _, d := range all {
		uplink := slices.ContainsFunc(a.e.state.config.Routers, func(r overlay.Router) bool {
			return slices.ContainsFunc(r.Uplinks, func(u overlay.Uplink) bool { return u.Name == d.Owner })
		})
		if uplink && d.Reason == "spoofed-address" {
			n += d.Packets
		}
	}
	return n, err
}
