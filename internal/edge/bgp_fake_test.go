package edge

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/evpn/speaker"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
)

// fabric is what the fake data path has of BGP, and the fake speaker said and heard.
type fabric struct {
	stations  map[residence]overlay.Station
	residents map[station]overlay.MAC
	routes    map[string]map[netip.Prefix]datapath.Route // that were put, without a kind gone
	order     []string                                   // of what was put and told
	hosts     []datapath.LocalHost
	forgotten []residence
	asked     []netip.Addr
	former    map[string][]netip.Addr
	entries   []datapath.FDBEntry
	arrive    chan []datapath.Arrival

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

// newFabricWorld has blue and the router tenant be EVPN instances; red is none.
func newFabricWorld(w *world) *world {
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
		w.view.Ways[overlay.Pair{Local: tep, Remote: to}] = host.Path{
			NextHop: host.NextHop{Ifindex: 2, Addr: to}, Interface: "eth0", MTU: 1550, NextMAC: mac,
		}
	}
	w.fabric = fabric{
		stations: map[residence]overlay.Station{}, residents: map[station]overlay.MAC{},
		announced: map[string]evpn.Route{}, arrive: make(chan []datapath.Arrival),
	}
	w.opts.OpenSpeaker = w.openSpeaker
	return w
}

func (d fakeDataPath) Beat() error { return nil }

func (d fakeDataPath) Announce(m datapath.Move) error {
	return d.change("announce " + m.MAC.String())
}

func (d fakeDataPath) Former([]overlay.Segment) (map[string][]netip.Addr, error) {
	return d.w.fabric.former, d.w.call("former")
}

// put fails the test when the tables change meanwhile, or flows are steered.
func (d fakeDataPath) put(name string, do func(*fabric)) error {
	if !d.w.steering.TryLock() {
		d.w.t.Errorf("%s while the paths change", name)
	} else {
		defer d.w.steering.Unlock()
	}
	err := d.w.call(name)
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if err == nil {
		do(&d.w.fabric)
		d.w.fabric.order = append(d.w.fabric.order, name)
	}
	return err
}

func (d fakeDataPath) PutStations(list []overlay.Station) error {
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
	return d.put("put stations", func(f *fabric) {
		for _, s := range list {
			if at := (residence{s.Segment, s.MAC}); s.Remote.IsValid() {
				f.stations[at] = s
			} else {
				delete(f.stations, at)
			}
		}
	})
}

func (d fakeDataPath) PutResidents(list []overlay.Resident) error {
	return d.put("put residents", func(f *fabric) {
		for _, r := range list {
			if at := (station{r.Segment, r.Addr}); r.MAC != (overlay.MAC{}) {
				f.residents[at] = r.MAC
			} else {
				delete(f.residents, at)
			}
		}
	})
}

func (d fakeDataPath) PutRoutes(list []datapath.Router) error {
	return d.put("put routes", func(f *fabric) {
		for _, r := range list {
			if f.routes[r.Name] == nil {
				f.routes[r.Name] = make(map[netip.Prefix]datapath.Route)
			}
			for _, route := range r.Routes {
				f.routes[r.Name][route.Prefix] = route
			}
		}
	})
}

func (d fakeDataPath) Forget(segment string, mac overlay.MAC) error {
	return d.put("forget", func(f *fabric) { f.forgotten = append(f.forgotten, residence{segment, mac}) })
}

func (d fakeDataPath) Ask(_, _ string, _ overlay.MAC, addrs []netip.Addr) error {
	return d.put("ask", func(f *fabric) { f.asked = append(f.asked, addrs...) })
}

func (d fakeDataPath) Hosts() ([]datapath.LocalHost, error) {
	err := d.read("hosts")
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	return slices.Clone(d.w.fabric.hosts), err
}

func (d fakeDataPath) FollowArrivals(ctx context.Context, do func([]datapath.Arrival)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case list := <-d.w.fabric.arrive:
			do(list)
		}
	}
}

type fakeSpeaker struct{ w *world }

func (w *world) openSpeaker(_ context.Context, o speaker.Options) (Speaker, error) {
	err := w.call("speak")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fabric.options, w.fabric.config = o, o.Config
	w.fabric.opened++
	return fakeSpeaker{w}, err
}

func (s fakeSpeaker) locked(do func(*fabric)) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	do(&s.w.fabric)
	return nil
}

func (s fakeSpeaker) Configure(c overlay.BGP) error {
	return s.locked(func(f *fabric) { f.config = c })
}

func (s fakeSpeaker) Announce(routes []evpn.Route) error {
	return s.locked(func(f *fabric) {
		for _, r := range routes {
			f.announced[routeKey(r.Key)] = r
		}
		f.order = append(f.order, "tell")
	})
}

func (s fakeSpeaker) Withdraw(keys []evpn.Key) error {
	return s.locked(func(f *fabric) {
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

func (s fakeSpeaker) Neighbours() (list []speaker.Neighbour) {
	_ = s.locked(func(f *fabric) { list = slices.Clone(f.sessions) })
	return list
}

func (s fakeSpeaker) Refresh(neighbour netip.Addr, soft bool) error {
	if soft {
		return s.w.call("refresh " + neighbour.String())
	}
	return s.w.call("reset " + neighbour.String())
}

func (s fakeSpeaker) Fail(neighbour netip.Addr, why string) {
	_ = s.locked(func(f *fabric) { f.failed = append(f.failed, neighbour.String()+" "+why) })
}

func (s fakeSpeaker) Close(keep bool) error {
	return s.locked(func(f *fabric) { f.kept = append(f.kept, keep) })
}
