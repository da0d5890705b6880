package bgp

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

const (
	// mostNew hosts of a port are taken in at a look.
	mostNew = 1024
	// mostAsked bounds how many hosts are asked at a time whether they are there.
	mostAsked = 512
	// neighbourLives is how many times longer than its MAC address an IP address is known
	// without a word of it.
	neighbourLives = 4
)

// localHosts are the hosts at ports of which neighbours were told, without their flags.
type localHosts map[evpn.Host]localHost

// localHost is since when a host is at a port, and what is known of its address.
type localHost struct {
	came time.Time
	nd   rib.NDFlags
}

// add takes a host in that came, and appends it to the list unless it is there.
func (l localHosts) add(list []evpn.Host, h evpn.Host, nd rib.NDFlags, now time.Time) []evpn.Host {
	l[h] = localHost{now, nd}
	if h.ND = nd; !slices.Contains(list, h) {
		list = append(list, h)
	}
	return list
}

// compare takes over which hosts there were at a time, and says which are others.
func (l localHosts) compare(list []Host, instances map[string]bool, at time.Time) (appeared, vanished []evpn.Host) {
	seen := make(map[evpn.Host]bool, len(list))
	fresh := make(map[string]int) // by port
	for _, h := range list {
		if !instances[h.Segment] || h.ByBGP {
			continue
		}
		host := h.Host
		host.ND = 0
		seen[host] = true
		if was, known := l[host]; !known && fresh[h.Port] < mostNew || known && was.nd != h.ND && was.came.Before(at) {
			if !known { // more of one port at the next look
				fresh[h.Port]++
			}
			l[host] = localHost{at, h.ND}
			appeared = append(appeared, h.Host)
		}
	}
	for host, was := range l {
		if !seen[host] && was.came.Before(at) {
			delete(l, host)
			vanished = append(vanished, host)
		}
	}
	return appeared, vanished
}

// forget takes out hosts with their addresses.
func (l localHosts) forget(hosts []evpn.Host) {
	gone := make(map[macKey]bool, len(hosts))
	for _, h := range hosts {
		gone[macKey{h.Segment, h.MAC}] = true
	}
	for host := range l {
		if gone[macKey{host.Segment, host.MAC}] {
			delete(l, host)
		}
	}
}

// HostsCame tells of hosts that came to ports. It waits for nobody.
func (p *Process) HostsCame(list []Host) {
	now := p.o.Now()
	if !p.inbox.postHosts(len(list), func() { p.appear(list, now) }) {
		p.o.Events.HostsMissed()
	}
}

// appear tells neighbours of hosts that came to ports at a time.
func (p *Process) appear(list []Host, now time.Time) {
	instances := p.state.instances()
	var hosts []evpn.Host
	var silent []Solicitation // that came without a word of their addresses
	for _, a := range list {
		if !instances[a.Segment] {
			continue
		}
		host := evpn.Host{Segment: a.Segment, MAC: a.MAC}
		if _, known := p.local[host]; !known || !a.Addr.IsValid() {
			hosts = p.local.add(hosts, host, 0, now)
		}
		if host.Addr = a.Addr; a.Addr.IsValid() {
			hosts = p.local.add(hosts, host, a.ND, now)
			continue
		}
		if addrs := p.state.addresses(a.Segment, a.MAC); len(addrs) > 0 {
			silent = append(silent, Solicitation{a.Segment, a.Port, a.MAC, addrs})
		}
	}
	if len(hosts) > 0 {
		p.act(p.state.change(func(t *evpn.Table) evpn.Changes { return t.Hosts(hosts, nil, now) }), time.Time{})
	}
	p.claims.came(list)
	if len(silent) > 0 {
		p.problems.report(problemSolicit, p.o.Hosts.Solicit(silent))
	}
}

// Look compares the hosts at ports with those that neighbours were told of, and asks those that
// are about to be forgotten whether they are there.
func (p *Process) Look(ageing time.Duration) error {
	at := p.o.Now()
	list, err := p.o.Hosts.AtPorts()
	if err != nil {
		return err
	}
	p.inbox.postLast("look", func() {
		appeared, vanished := p.local.compare(list, p.state.instances(), at)
		if len(appeared)+len(vanished) > 0 {
			now := p.o.Now()
			p.act(p.state.change(func(t *evpn.Table) evpn.Changes { return t.Hosts(appeared, vanished, now) }), time.Time{})
		}
		p.claims.look(list)
	})
	var asked error
	if late := idle(list, p.state.instances(), ageing); len(late) > 0 {
		asked = p.o.Hosts.Solicit(late)
	}
	p.o.Events.Problem(problemProbe, asked)
	return nil
}

// PortsLost forgets who was learned at ports whose links are down: for BGP a host is not there, as
// for the kernel's bridge.
func (p *Process) PortsLost(ports map[string]bool) error {
	list, err := p.o.Hosts.AtPorts()
	var gone []evpn.Host
	instances := p.state.instances()
	for _, h := range list {
		if ports[h.Port] && instances[h.Segment] && !h.Addr.IsValid() {
			gone = append(gone, h.Host)
		}
	}
	if len(gone) == 0 {
		return err
	}
	return errors.Join(err, p.o.Writer.Forget(gone))
}

// idle are the hosts of segments that nothing was heard of for three quarters of the time
// after which they are forgotten, and those whose addresses only BGP tells.
func idle(hosts []Host, instances map[string]bool, ageing time.Duration) (list []Solicitation) {
	type place struct {
		macKey
		port string
	}
	addrs, due := make(map[place][]netip.Addr), make(map[place]bool)
	var order []place
	for _, h := range hosts {
		if !instances[h.Segment] || h.Static {
			continue
		}
		at, life := place{macKey{h.Segment, h.MAC}, h.Port}, ageing
		if h.Addr.IsValid() {
			addrs[at], life = append(addrs[at], h.Addr), neighbourLives*ageing
		}
		late := ageing > 0 && h.Idle >= life/4*3
		if (late || h.ByBGP) && !due[at] {
			due[at], order = true, append(order, at)
		}
	}
	for _, at := range order {
		if len(addrs[at]) > 0 && len(list) < mostAsked {
			list = append(list, Solicitation{at.segment, at.port, at.mac, addrs[at]})
		}
	}
	return list
}

// forget ends what the packets of hosts told that are elsewhere now.
func (p *Process) forget(hosts []evpn.Host) {
	if len(hosts) > 0 {
		p.local.forget(hosts)
		p.problems.report(problemForget, p.o.Writer.Forget(hosts))
	}
}

// Offer says which prefixes the routers may tell others, by router and source.
func (p *Process) Offer(all map[string]map[overlay.RouteSource][]netip.Prefix) {
	p.inbox.postLast("offer", func() { p.offer(all) })
}

// offer tells the table of prefixes that are others than before.
func (p *Process) offer(all map[string]map[overlay.RouteSource][]netip.Prefix) {
	for router, now := range all {
		was := p.reported[router]
		sources := slices.AppendSeq(slices.Collect(maps.Keys(was)), maps.Keys(now))
		slices.Sort(sources)
		for _, source := range slices.Compact(sources) {
			if !slices.Equal(was[source], now[source]) {
				p.act(p.state.change(func(t *evpn.Table) evpn.Changes { return t.Prefixes(router, source, now[source]) }), time.Time{})
			}
		}
		p.reported[router] = now
	}
	for router := range p.reported {
		if _, there := all[router]; !there {
			delete(p.reported, router)
		}
	}
}

// Sweep has go what a former process learned and no neighbour said again.
func (p *Process) Sweep() error {
	macs, arpEntries, err := p.o.Hosts.ByBGP()
	if err != nil {
		return fmt.Errorf("read what a previous process learned: %w", err)
	}
	p.inbox.post(func() {
		gone := p.state.unknown(macs, arpEntries)
		p.o.Log.Info("BGP: removed what neighbours did not advertise again after the restart", "macs", len(gone.MACs), "addresses", len(gone.Neighbours))
		p.installer.put(gone, time.Time{})
	})
	return nil
}

// Reset opens the session with a neighbour anew; with soft it stays, and both ends say all again.
func (p *Process) Reset(name string, soft bool) error {
	addr, err := p.state.neighbourCalled(name)
	if err != nil {
		return err
	}
	s := p.state.speaks()
	if s == nil {
		return errors.New("BGP is not running yet: see `selvage status`")
	}
	return s.Refresh(addr, soft)
}
