package edge

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/bgp"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/evpn/speaker"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// hostLocation is a MAC address in a segment.
type hostLocation struct {
	segment string
	mac     overlay.MAC
}

// addrIn is an IP address in a segment.
type addrIn struct {
	segment string
	addr    netip.Addr
}

// fakeFabric is what the fake data path has of BGP, and the fake speaker said and heard.
type fakeFabric struct {
	bgpMACs    map[hostLocation]rib.BGPMAC
	arpEntries map[addrIn]overlay.MAC
	routes     map[string]map[netip.Prefix]fib.Route // that were put, without a kind gone
	order      []string                              // of what was put and told
	hosts      []datapath.LocalHost
	forgotten  []hostLocation
	asked      []netip.Addr
	previous   map[string][]netip.Addr
	entries    []datapath.FDBEntry
	hostEvents chan []datapath.HostEvent

	options   speaker.Options
	opened    int
	announced map[string]evpn.Route
	withdrawn []evpn.Key
	failed    []string
	kept      []bool // at each end
	config    overlay.BGP
	sessions  []speaker.Neighbour
}

var (
	rr     = addr("192.0.2.100")
	far    = addr("192.0.2.3") // an edge that only BGP knows
	farMAC = overlay.MAC{2, 0, 0, 0, 3, 1}
	hostA  = overlay.MAC{2, 0, 0, 0, 0, 0xa}
	hostB  = overlay.MAC{2, 0, 0, 0, 0, 0xb}
)

// newBGPWorld has blue and the router tenant be EVPN instances; red is none.
func newBGPWorld(w *world) *world {
	w.config.Underlay.Liveness = &overlay.Liveness{Interval: 50 * time.Millisecond, Multiplier: 3}
	w.config.BGP = &overlay.BGP{
		AS: 65000, RouterID: tep, Restart: overlay.BGPRestart{Time: time.Minute, Stale: time.Hour}, Targets: overlay.TargetsVNI,
		Duplicates: overlay.Duplicates{Moves: 5, Within: 3 * time.Minute},
		Neighbours: []overlay.BGPNeighbour{{
			Name: "rr1", Addr: rr, AS: 65000, Local: tep, Families: []overlay.BGPFamily{overlay.FamilyEVPN}, Liveness: true,
		}},
	}
	w.config.Segments[0].EVPN, w.config.Segments[0].Remotes = &overlay.EVPNInstance{}, nil
	w.config.Segments[0].Gateway = &overlay.Gateway{Router: "tenant", MAC: overlay.AnycastMAC, Addresses: []netip.Prefix{prefix("10.0.0.254/24")}}
	w.config.Routers = []overlay.Router{{
		Name: "tenant", Loopbacks: []netip.Addr{addr("10.255.0.1")},
		L3: &overlay.L3{VNI: 5000, Tunnel: vxlan, MAC: l3MAC, EVPN: &overlay.EVPNInstance{
			Announce: []overlay.RouteSource{overlay.SourceConnected, overlay.SourceLoopback},
		}},
	}}
	for _, to := range []netip.Addr{remote, far} {
		w.hostState.Routes[overlay.Pair{Local: tep, Remote: to}] = host.Path{
			NextHop: host.NextHop{Ifindex: 2, Addr: to}, Interface: "eth0", MTU: 1550, NextMAC: mac,
		}
	}
	w.learned = fakeFabric{
		bgpMACs: map[hostLocation]rib.BGPMAC{}, arpEntries: map[addrIn]overlay.MAC{},
		announced: map[string]evpn.Route{}, hostEvents: make(chan []datapath.HostEvent),
	}
	w.opts.OpenSpeaker = w.openSpeaker
	return w
}

func (d fakeDataPath) Tick() error              { return nil }
func (d fakeDataPath) TickEvery() time.Duration { return 0 }

// ProbeLoops is no call: it comes with time.
func (d fakeDataPath) ProbeLoops() error { return nil }

func (d fakeDataPath) CutPorts(names map[string]bool) error {
	return d.change("cut " + strings.Join(slices.Sorted(maps.Keys(names)), " "))
}

func (d fakeDataPath) Announce(list []datapath.Move) error {
	var errs []error
	for _, m := range list {
		errs = append(errs, d.change("announce "+m.MAC.String()))
	}
	return errors.Join(errs...)
}

func (d fakeDataPath) PreviousRemotes([]overlay.Segment) (map[string][]netip.Addr, error) {
	return d.w.learned.previous, d.w.call("former")
}

// put fails the test when the tables change meanwhile, or flows are steered.
func (d fakeDataPath) put(name string, do func(*fakeFabric)) error {
	if !d.paths.TryLock() {
		d.w.t.Errorf("%s while the paths change", name)
	} else {
		defer d.paths.Unlock()
	}
	err := d.w.call(name)
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if err == nil {
		do(&d.w.learned)
		d.w.learned.order = append(d.w.learned.order, name)
	}
	return err
}

func (d fakeDataPath) PutBGPMACs(list []rib.BGPMAC) error {
	d.w.mu.Lock()
	for _, s := range list {
		known := slices.ContainsFunc(d.w.tables.Segments, func(o overlay.Segment) bool {
			return o.Name == s.Segment && (!s.Remote.IsValid() || slices.Contains(o.Remotes, s.Remote))
		})
		if !known {
			d.w.t.Errorf("station %v has no place in the tables", s)
		}
	}
	d.w.mu.Unlock()
	return d.put("put stations", func(f *fakeFabric) {
		for _, s := range list {
			if at := (hostLocation{s.Segment, s.MAC}); s.Remote.IsValid() {
				f.bgpMACs[at] = s
			} else {
				delete(f.bgpMACs, at)
			}
		}
	})
}

func (d fakeDataPath) PutARPEntries(list []rib.ARPEntry) error {
	return d.put("put residents", func(f *fakeFabric) {
		for _, r := range list {
			if at := (addrIn{r.Segment, r.Addr}); r.MAC != (overlay.MAC{}) {
				f.arpEntries[at] = r.MAC
			} else {
				delete(f.arpEntries, at)
			}
		}
	})
}

func (d fakeDataPath) PutRoutes(list []fib.Router) error {
	return d.put("put routes", func(f *fakeFabric) {
		for _, r := range list {
			if f.routes[r.Name] == nil {
				f.routes[r.Name] = make(map[netip.Prefix]fib.Route)
			}
			for _, route := range r.Routes {
				f.routes[r.Name][route.Prefix] = route
			}
		}
	})
}

func (d fakeDataPath) Forget(segment string, mac overlay.MAC) error {
	return d.put("forget", func(f *fakeFabric) { f.forgotten = append(f.forgotten, hostLocation{segment, mac}) })
}

func (d fakeDataPath) SolicitHost(_, _ string, _ overlay.MAC, addrs []netip.Addr) error {
	return d.put("ask", func(f *fakeFabric) { f.asked = append(f.asked, addrs...) })
}

func (d fakeDataPath) Hosts() ([]datapath.LocalHost, error) {
	err := d.read("hosts")
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	return slices.Clone(d.w.learned.hosts), err
}

func (d fakeDataPath) FollowHostEvents(ctx context.Context, do func([]datapath.HostEvent)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case list := <-d.w.learned.hostEvents:
			do(list)
		}
	}
}

type fakeSpeaker struct{ w *world }

func (w *world) openSpeaker(_ context.Context, o speaker.Options) (bgp.Speaker, error) {
	err := w.call("speak")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.learned.options, w.learned.config = o, o.Config
	w.learned.opened++
	return fakeSpeaker{w}, err
}

func (s fakeSpeaker) locked(do func(*fakeFabric)) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	do(&s.w.learned)
	return nil
}

func (s fakeSpeaker) Configure(c overlay.BGP) error {
	return s.locked(func(f *fakeFabric) { f.config = c })
}

func (s fakeSpeaker) Announce(routes []evpn.Route) error {
	return s.locked(func(f *fakeFabric) {
		for _, r := range routes {
			f.announced[routeKey(r.Key)] = r
		}
		f.order = append(f.order, "tell")
	})
}

func (s fakeSpeaker) Withdraw(keys []evpn.Key) error {
	return s.locked(func(f *fakeFabric) {
		for _, k := range keys {
			delete(f.announced, routeKey(k))
		}
		f.withdrawn = append(f.withdrawn, keys...)
	})
}

// routeKey is in words, without its RD.
func routeKey(k evpn.Key) string {
	switch k.Type {
	case evpn.MACIP:
		if k.Addr.IsValid() {
			return k.MAC.String() + " " + k.Addr.String()
		}
		return k.MAC.String()
	case evpn.Multicast:
		return "from " + k.Addr.String()
	}
	return k.Prefix.String()
}

func (s fakeSpeaker) Sessions() []speaker.Neighbour { return s.Neighbours() }

func (s fakeSpeaker) Established() (sessions, complete int) {
	for _, n := range s.Neighbours() {
		if n.Established {
			sessions++
		}
		if n.Established && n.Complete {
			complete++
		}
	}
	return sessions, complete
}

func (s fakeSpeaker) Neighbours() (list []speaker.Neighbour) {
	_ = s.locked(func(f *fakeFabric) { list = slices.Clone(f.sessions) })
	return list
}

func (s fakeSpeaker) Refresh(neighbour netip.Addr, soft bool) error {
	if soft {
		return s.w.call("refresh " + neighbour.String())
	}
	return s.w.call("reset " + neighbour.String())
}

func (s fakeSpeaker) Fail(neighbour netip.Addr, why string) {
	_ = s.locked(func(f *fakeFabric) { f.failed = append(f.failed, neighbour.String()+" "+why) })
}

func (s fakeSpeaker) Close(keep bool) error {
	return s.locked(func(f *fakeFabric) { f.kept = append(f.kept, keep) })
}
