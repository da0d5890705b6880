package bgp

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/evpn/speaker"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

var (
	tep   = addr("192.0.2.1")
	far   = addr("192.0.2.3")
	rr    = addr("192.0.2.100")
	hostA = overlay.MAC{2, 0, 0, 0, 0, 0xa}
	hostB = overlay.MAC{2, 0, 0, 0, 0, 0xb}
)

// edge has an instance blue, a router, and one neighbour.
func edge() overlay.Edge {
	vxlan := overlay.Tunnel{Encapsulation: overlay.VXLAN, UDPPort: 4789}
	return overlay.Edge{
		Name: "e1", Underlay: overlay.Underlay{TEP: tep},
		Segments: []overlay.Segment{{Name: "blue", VNI: 100, Tunnel: vxlan, EVPN: &overlay.EVPNInstance{}}},
		Routers:  []overlay.Router{{Name: "tenant", L3: &overlay.L3{VNI: 5000, Tunnel: vxlan, MAC: overlay.MAC{2, 0, 0, 0, 1, 1}, EVPN: &overlay.EVPNInstance{}}}},
		BGP: &overlay.BGP{AS: 65000, RouterID: tep, Targets: overlay.TargetsVNI, Neighbours: []overlay.BGPNeighbour{
			{Name: "rr1", Addr: rr, AS: 65000, Families: []overlay.BGPFamily{overlay.FamilyEVPN}},
		}},
	}
}

// world is a process, and fakes of all that it is given.
type world struct {
	*testing.T
	process *Process
	options speaker.Options
	// gate holds up the writer while it is locked.
	gate sync.Mutex

	mu        sync.Mutex
	macs      map[overlay.MAC]netip.Addr
	routes    map[netip.Prefix]int // next hops
	puts      int                  // entries that were written
	gone      map[overlay.MAC]int  // how many were when a MAC address went
	most      int                  // entries for which there is room; 0: any number
	announced map[evpn.Key]evpn.Route
	failed    []string
	events    []string
	forgotten []evpn.Host
	asked     []Solicitation
	hosts     []Host
	problems  map[string]error
}

// start runs a process until the end of the test, with a session to the neighbour.
func start(t *testing.T, change func(*Options)) *world {
	w := &world{T: t, macs: map[overlay.MAC]netip.Addr{}, gone: map[overlay.MAC]int{}, routes: map[netip.Prefix]int{}, announced: map[evpn.Key]evpn.Route{}, problems: map[string]error{}}
	o := Options{
		Edge: edge(), NextHop: tep, Writer: w, Hosts: w, Events: w, Log: slog.New(slog.DiscardHandler),
		Open: func(_ context.Context, o speaker.Options) (Speaker, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.options = o
			return fakeSpeaker{w}, nil
		},
	}
	if change != nil {
		change(&o)
	}
	w.process = Start(o)
	t.Cleanup(func() { _ = w.process.Close(false) })
	w.process.Speak()
	w.within("sessions are wanted", func() bool { return w.options.Receive != nil })
	w.options.Session(evpn.Session{Neighbour: rr, Up: true, At: time.Now()})
	return w
}

// within waits until is holds, while nothing of the fakes changes.
func (w *world) within(what string, is func() bool) {
	w.Helper()
	err := await.Within(w.Context(), 10*time.Second, what, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !is() {
			return errors.New("not so")
		}
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
}

// done waits until all is done that was left so far.
func (w *world) done() { w.process.wait(func() {}) }

func (w *world) PutBGPMACs(list []rib.BGPMAC) (later []rib.BGPMAC, err error) {
	w.gate.Lock()
	defer w.gate.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	var left rib.NoRoom
	for _, m := range list {
		_, known := w.macs[m.MAC]
		switch {
		case !m.Remote.IsValid():
			delete(w.macs, m.MAC)
			w.gone[m.MAC] = w.puts
		case w.most > 0 && !known && len(w.macs) >= w.most:
			left.MACs = append(left.MACs, m)
		default:
			w.macs[m.MAC] = m.Remote
			w.puts++
		}
	}
	return nil, full(left)
}

// full is the error of entries that were left out.
func full(left rib.NoRoom) error {
	if left.Len() == 0 {
		return nil
	}
	return rib.WithNoRoom(errors.New("the table is full"), left)
}

func (w *world) PutARPEntries([]rib.ARPEntry) (later []rib.ARPEntry, err error) { return nil, nil }

func (w *world) PutRoutes(list []rib.LearnedRoute) (later []rib.Place, err error) {
	w.gate.Lock()
	defer w.gate.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	var left rib.NoRoom
	for _, r := range list {
		_, known := w.routes[r.Prefix]
		switch {
		case len(r.Via) == 0:
			delete(w.routes, r.Prefix)
		case w.most > 0 && !known && len(w.routes) >= w.most:
			left.Routes = append(left.Routes, rib.Place{Router: r.Router, Prefix: r.Prefix})
		default:
			w.routes[r.Prefix] = len(r.Via)
			w.puts++
		}
	}
	return nil, full(left)
}

func (w *world) ReplaceRoutes([]rib.LearnedRoute) {}

func (w *world) Forget(hosts []evpn.Host) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgotten = append(w.forgotten, hosts...)
	return nil
}

func (w *world) AtPorts() ([]Host, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.hosts), nil
}

func (w *world) ByBGP() ([]rib.BGPMAC, []rib.ARPEntry, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []rib.BGPMAC
	for m, remote := range w.macs {
		list = append(list, rib.BGPMAC{Segment: "blue", MAC: m, Remote: remote})
	}
	return list, nil, nil
}

func (w *world) Solicit(list []Solicitation) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, list...)
	return nil
}

func (w *world) RemotesChanged()      { w.note("remotes") }
func (w *world) Session(evpn.Session) {}
func (w *world) Settled()             { w.note("settled") }
func (w *world) HostsMissed()         { w.note("missed") }

func (w *world) note(event string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, event)
}

func (w *world) Problem(what string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems[what] = err
}

type fakeSpeaker struct{ w *world }

func (s fakeSpeaker) Configure(overlay.BGP) error     { return nil }
func (s fakeSpeaker) Close(bool) error                { return nil }
func (s fakeSpeaker) Neighbours() []speaker.Neighbour { return s.Sessions() }
func (s fakeSpeaker) Refresh(netip.Addr, bool) error  { return nil }

func (s fakeSpeaker) Sessions() []speaker.Neighbour {
	return []speaker.Neighbour{{Name: "rr1", Addr: rr, Established: true}}
}

func (s fakeSpeaker) Established() (sessions, complete int) { return 1, 0 }

func (s fakeSpeaker) Announce(routes []evpn.Route) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for _, r := range routes {
		s.w.announced[r.Key] = r
	}
	return nil
}

func (s fakeSpeaker) Withdraw(keys []evpn.Key) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for _, k := range keys {
		delete(s.w.announced, k)
	}
	return nil
}

func (s fakeSpeaker) Fail(neighbour netip.Addr, why string) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.failed = append(s.w.failed, neighbour.String()+": "+why)
}

// fromFar is a route of the edge far.
func fromFar(r evpn.Route) evpn.Update {
	r.NextHop, r.Encapsulation, r.LocalPref = far, overlay.VXLAN, 100
	r.RD = overlay.AddrDistinguisher(far, uint16(r.VNI))
	r.Targets = []overlay.RouteTarget{overlay.ASTarget(65000, uint32(r.VNI))}
	return evpn.Update{Neighbour: rr, Route: r}
}

func hostAt(m overlay.MAC, sequence uint32) evpn.Update {
	return fromFar(evpn.Route{Key: evpn.Key{Type: evpn.MACIP, MAC: m}, VNI: 100, Sequence: sequence})
}

func macOf(n int) overlay.MAC {
	return overlay.MAC{2, 0, 1, byte(n >> 16), byte(n >> 8), byte(n)}
}

func network(n int) evpn.Update {
	p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 0}), 24)
	return fromFar(evpn.Route{Key: evpn.Key{Type: evpn.Prefix, Prefix: p}, VNI: 5000, RouterMAC: overlay.MAC{2, 0, 0, 0, 3, 1}})
}

func withdrawn(u evpn.Update) evpn.Update {
	u.Withdrawn = true
	return u
}
