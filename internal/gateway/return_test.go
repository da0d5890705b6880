package gateway

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/replica"
)

// A flow goes from a source by gateway 1, or 2 while that is away, to a router behind both:
//
//	source 3 === 1, 2 --- router
//
// Words travel for wordDelay. Everything happens in virtual time.
const wordDelay = 7 * time.Millisecond

var (
	source = netip.MustParseAddr("192.0.2.3")
	pool   = netip.MustParseAddr("198.51.100.20")
	router = Place{"wan", netip.MustParseAddr("198.51.100.1")}
)

// network is who says what to whom, and where the router has the address of the pool.
type network struct {
	mu    sync.Mutex
	nodes map[netip.Addr]*node
	arp   netip.Addr // who announced the address last
}

// node is an edge with its tables and what it knows of the flow.
type node struct {
	net       *network
	addr      netip.Addr
	config    overlay.Edge
	role      *Role
	announcer *Announcer

	turn     sync.Mutex // of judging
	results  map[overlay.Pair]bfd.Result
	links    map[replica.ID]replica.State
	tables   fib.Egress
	said     bfd.Service
	sessions bool // it knows the flow's
	nextHop  bool // it knows the router's MAC address
	probed   int  // addresses
	taken    bool // another host has the address
}

func (n *node) States() map[replica.ID]replica.State {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	return maps.Clone(n.links)
}

func newNetwork(t *testing.T) *network {
	w := &network{nodes: make(map[netip.Addr]*node)}
	ctx, cancel := context.WithCancel(t.Context())
	var owned sync.WaitGroup
	t.Cleanup(func() { cancel(); owned.Wait() })
	for _, addr := range []netip.Addr{gw1, gw2, source} {
		n := &node{net: w, addr: addr, config: configOf(addr), results: map[overlay.Pair]bfd.Result{}, links: map[replica.ID]replica.State{}}
		n.role = NewRole(slog.New(slog.DiscardHandler), n)
		n.announcer = NewAnnouncer(n.role, n, n)
		w.nodes[addr] = n
		hops := NewNextHops(n.role, n, n)
		for _, run := range []func(context.Context){n.announcer.Run, hops.Run, n.follow} {
			owned.Go(func() { run(ctx) })
		}
		if err := n.role.Join(t.TempDir()+"/egress", t.TempDir()+"/drain", false); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// configOf is an edge of the network.
func configOf(self netip.Addr) overlay.Edge {
	e := overlay.Edge{
		Name: self.String(), Underlay: overlay.Underlay{TEP: self, Liveness: &overlay.Liveness{}},
		Egress: &overlay.Egress{
			Timeouts: overlay.DefaultNATTimeouts,
			Gateways: []overlay.GatewayGroup{{Name: "gws", Mode: overlay.ActiveStandby, Members: []netip.Addr{gw1, gw2}, Replication: &overlay.Replication{Port: 1}}},
			Policies: []overlay.EgressPolicy{{Name: "web", Router: "main", Gateways: "gws", Uplink: "wan", Pool: []overlay.AddrRange{{First: pool, Last: pool}}}},
		},
		Routers: []overlay.Router{{
			Name:    "main",
			Routes:  []overlay.Route{{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Via: []overlay.NextHop{{Addr: router.Addr}}}},
			Uplinks: []overlay.Uplink{{Name: "wan", Interface: "wan0", Addresses: []netip.Prefix{netip.MustParsePrefix("198.51.100.2/24")}}},
		}},
	}
	for _, other := range []netip.Addr{gw1, gw2, source} {
		if other != self {
			e.Remotes = append(e.Remotes, overlay.Remote{Name: other.String(), Addrs: []netip.Addr{other}})
		}
	}
	return e
}

// follow judges when the role asks for it.
func (n *node) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.role.Due():
			n.elect()
		}
	}
}

func (n *node) elect() {
	n.turn.Lock()
	defer n.turn.Unlock()
	n.net.mu.Lock()
	f := Facts{Config: n.config, HostState: host.State{Links: map[string]host.Link{"wan0": {Up: true}}}, Results: maps.Clone(n.results), Watched: time.Now().Add(-time.Hour)}
	n.net.mu.Unlock()
	came, err := n.role.Move(f, n, time.Now())
	if err != nil {
		panic(err)
	}
	n.announcer.Announce(came)
}

// SetService is heard by all whom it reaches.
func (n *node) SetService(s bfd.Service) {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	if n.said == s {
		return
	}
	n.said = s
	for _, other := range n.net.nodes {
		pair := overlay.Pair{Local: other.addr, Remote: n.addr}
		if r := other.results[pair]; r.State == bfd.Up {
			r.Service, r.ServiceSince = s, time.Now()
			time.AfterFunc(wordDelay, func() { other.told(pair, r) })
		}
	}
}

// told is hear, unless the session ended while the word was on its way.
func (n *node) told(pair overlay.Pair, r bfd.Result) {
	n.net.mu.Lock()
	ended := n.results[pair].State != bfd.Up
	n.net.mu.Unlock()
	if !ended {
		n.hear(pair, r)
	}
}

func (n *node) hear(pair overlay.Pair, r bfd.Result) {
	n.net.mu.Lock()
	n.results[pair] = r
	n.net.mu.Unlock()
	n.elect()
}

// connect has two nodes hear each other from now on, or no longer.
func (w *network) connect(a, b netip.Addr, state bfd.State) {
	for _, ends := range [][2]netip.Addr{{a, b}, {b, a}} {
		w.mu.Lock()
		said := w.nodes[ends[1]].said
		w.mu.Unlock()
		w.nodes[ends[0]].hear(overlay.Pair{Local: ends[0], Remote: ends[1]}, bfd.Result{State: state, Since: time.Now(), Service: said, ServiceSince: time.Now()})
	}
}

// replicated says whether a gateway has the sessions of the other one.
func (w *network) replicated(of, from netip.Addr, synced bool) {
	w.mu.Lock()
	n := w.nodes[of]
	n.links[replica.ID{Remote: from, Port: 1}] = replica.State{Connected: synced, Synced: synced, Why: "connection refused"}
	n.sessions = n.sessions || synced
	w.mu.Unlock()
	n.elect()
}

func (n *node) SteerEgress(list []fib.Egress) error {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	n.tables = list[0]
	return nil
}

func (n *node) Announce(places []Place, owns func(Place) bool) {
	if owns(places[0]) {
		n.net.mu.Lock()
		n.net.arp = n.addr
		n.net.mu.Unlock()
	}
}

// Free takes as long as three probes.
func (n *node) Free(ctx context.Context, places []Place) []Place {
	select {
	case <-ctx.Done():
	case <-time.After(600 * time.Millisecond):
	}
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	n.probed += len(places)
	if n.taken {
		n.role.Claims.Withhold(map[Place]bool{places[0]: true})
		return nil
	}
	return places
}

func (n *node) Resolve(places []Place) int {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	for _, p := range places {
		if p == router && !n.nextHop {
			time.AfterFunc(60*time.Millisecond, func() {
				n.net.mu.Lock()
				defer n.net.mu.Unlock()
				n.nextHop = true
			})
			return 1
		}
	}
	return 0
}

func (n *node) WithSessions(do func(overlay.Edge, Sessions) error) error {
	return do(n.config, noSessions{})
}
func (n *node) Events() (map[string]uint64, error) { return nil, nil }

type noSessions struct{ Sessions }

func (noSessions) EachNATSession(func(*datapath.NATSession) bool) error { return nil }

// send sends a packet of the flow and its answer.
func (w *network) send() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	by := w.nodes[w.nodes[source].tables.Ways[0][0].Remote]
	back := w.nodes[w.arp]
	switch {
	case by == nil:
		return errors.New("the source knows no gateway")
	case by.results[overlay.Pair{Local: by.addr, Remote: source}].State != bfd.Up:
		return errors.New("the gateway is away")
	case !by.sessions:
		return errors.New("the gateway gives the flow another port: it has no session")
	case !by.nextHop:
		return errors.New("the gateway does not know its next hop")
	case back == nil || len(back.tables.Owned) == 0:
		return errors.New("the answer comes to nobody's address")
	case !back.sessions:
		return errors.New("the answer comes to a gateway without the session")
	}
	return nil
}

// during sends a packet each millisecond.
func (w *network) during(d time.Duration) (sent int, lost []string) {
	for end := time.Now().Add(d); time.Now().Before(end); sent++ {
		<-time.After(time.Millisecond)
		if err := w.send(); err != nil {
			lost = append(lost, err.Error())
		}
	}
	return sent, lost
}

// serving is the network with all of it at work, by the first gateway.
func serving(t *testing.T) *network {
	w := newNetwork(t)
	for _, n := range w.nodes {
		n.elect()
		n.nextHop = true
	}
	w.replicated(gw1, gw2, true)
	w.replicated(gw2, gw1, true)
	for _, ends := range [][2]netip.Addr{{gw1, gw2}, {gw1, source}, {gw2, source}} {
		w.connect(ends[0], ends[1], bfd.Up)
	}
	<-time.After(10 * time.Second)
	if _, lost := w.during(time.Second); len(lost) > 0 || w.arp != gw1 {
		t.Fatalf("before anything happens %d packets are lost, the first: %s", len(lost), lost[0])
	}
	return w
}

// A gateway that comes back empty takes over when it has the sessions and the next hop, however
// long that takes, and no packet is lost.
func TestReturnCostsNothing(t *testing.T) {
	for _, takes := range []time.Duration{0, 50 * time.Millisecond, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := serving(t)
			first := w.nodes[gw1]
			w.replicated(gw1, gw2, false)
			w.replicated(gw2, gw1, false)
			w.connect(gw1, gw2, bfd.Down)
			w.connect(gw1, source, bfd.Down)
			<-time.After(5 * time.Second)
			if _, lost := w.during(time.Second); len(lost) > 0 || w.arp != gw2 {
				t.Fatalf("gateway 2 did not take over: %v", lost)
			}
			w.mu.Lock()
			first.sessions, first.nextHop = false, false
			w.mu.Unlock()
			w.connect(gw1, source, bfd.Up)
			w.connect(gw1, gw2, bfd.Up)
			time.AfterFunc(takes, func() { w.replicated(gw1, gw2, true) })
			before := takes * 9 / 10
			if sent, lost := w.during(before); len(lost) > 0 {
				t.Errorf("while its sessions come %d of %d packets are lost: %s", len(lost), sent, lost[0])
			}
			if why := first.role.States()[gw1].Why; takes > joinTimeout && !strings.Contains(why, "sessions of 192.0.2.2: connection refused") {
				t.Errorf("it does not say what it waits for: %q", why)
			}
			if sent, lost := w.during(5 * time.Second); len(lost) > 0 {
				t.Errorf("when it takes over after %s %d of %d packets are lost: %s", takes, len(lost), sent, lost[0])
			}
			if first.role.States()[gw1].State != 0 || w.arp != gw1 {
				t.Errorf("it did not take over: %+v", first.role.States()[gw1])
			}
		})
	}
}

// Where nobody serves, a gateway that was cut off for a moment goes on with what it has.
func TestNobodyWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serving(t)
		for _, state := range []bfd.State{bfd.Down, bfd.Up} {
			for _, ends := range [][2]netip.Addr{{gw1, gw2}, {gw1, source}, {gw2, source}} {
				w.connect(ends[0], ends[1], state)
			}
			w.replicated(gw1, gw2, false)
			w.replicated(gw2, gw1, false)
			<-time.After(200 * time.Millisecond)
		}
		if _, lost := w.during(time.Second); len(lost) > 0 {
			t.Errorf("%d packets are lost after 200 ms: %s", len(lost), lost[0])
		}
	})
}
