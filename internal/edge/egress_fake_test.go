package edge

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/replica"
)

// exits are what the fake data path says of its translation, and what it was told.
type exits struct {
	gcStats     datapath.NATGCStats
	natSessions []datapath.NATSession
	pressures   []datapath.PortUsage
	natEvents   []datapath.NATEvent // not yet read
	steered     []fib.Egress
	announced   []gateway.Place
	service     bfd.Service
	replicas    []datapath.NATRecord // that were put
	deleted     []datapath.NATRecord
	links       []replica.Link
	reported    map[replica.ID][]byte // records that were put, and then deleted
	untold      map[replica.ID][]byte
	states      map[replica.ID]replica.State
	resyncs     []string
	replicate   chan struct{}
	store       replica.Store
}

var (
	gw1, gw2 = tep, remote // this edge is the first gateway
	pool     = netip.MustParseAddr("203.0.113.10")
	other    = netip.MustParseAddr("203.0.113.11")
)

// newEgressWorld is an edge that is a gateway of a policy with another one, and whose
// liveness knows nothing yet.
func newEgressWorld(w *world) *world {
	w.config.Underlay.Liveness = &overlay.Liveness{Interval: 50 * time.Millisecond, Multiplier: 3}
	w.config.Remotes = []overlay.Remote{{Name: "gw2", Addrs: []netip.Addr{gw2}}}
	w.config.Routers = []overlay.Router{{
		Name:    "tenant",
		Uplinks: []overlay.Uplink{{Name: "wan", Interface: "wan0", Addresses: []netip.Prefix{netip.MustParsePrefix("203.0.113.1/24")}}},
	}}
	w.config.Egress = &overlay.Egress{
		NATSessions: 1000, Timeouts: overlay.DefaultNATTimeouts, LogRate: 10,
		Gateways: []overlay.GatewayGroup{{Name: "gws", Mode: overlay.ActiveStandby, Members: []netip.Addr{gw1, gw2}}},
		Policies: []overlay.EgressPolicy{{
			Name: "web", Router: "tenant", VNI: 9001, Tunnel: vxlan, Remotes: []netip.Addr{gw2}, Gateways: "gws",
			Pool: []overlay.AddrRange{{First: pool, Last: other}}, Uplink: "wan", Ports: overlay.DefaultNATPorts,
		}},
	}
	w.hostState.Links["wan0"] = host.Link{Name: "wan0", Index: 9, MTU: 1500, Up: true}
	w.lives = map[overlay.Pair]bfd.Result{pair: {State: bfd.Unknown, Since: time.Now()}}
	w.exits = exits{reported: map[replica.ID][]byte{}, untold: map[replica.ID][]byte{}, states: map[replica.ID]replica.State{}, replicate: make(chan struct{}, 1)}
	w.opts.OpenReplication = func(o replica.Options) (gateway.Replicator, error) {
		w.mu.Lock()
		w.exits.store = o.Store
		w.mu.Unlock()
		return fakeReplication{w}, w.call("open replication")
	}
	return w
}

// replicated has the gateways tell each other of sessions.
func (w *world) replicated() *world {
	w.config.Egress.Gateways[0].Replication = &overlay.Replication{Port: 49789, Key: []byte("k")}
	return w
}

// served changes what liveness knows of the other gateway's service and tells the edge.
func (w *world) served(s bfd.Service) {
	w.mu.Lock()
	w.lives = maps.Clone(w.lives)
	w.lives[pair] = bfd.Result{State: bfd.Up, Since: time.Now().Add(-time.Minute), Service: s, ServiceSince: time.Now()}
	w.mu.Unlock()
	w.died <- struct{}{}
}

// ours are the addresses that the data path was told to answer for.
func (w *world) ours() (owned []netip.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.exits.steered {
		owned = append(owned, e.Owned...)
	}
	return owned
}

func (d fakeDataPath) SteerEgress(list []fib.Egress) error {
	if !d.paths.TryLock() {
		d.w.t.Error("egress is steered while the paths change")
	} else {
		linger()
		d.paths.Unlock()
	}
	err := d.w.call("steer egress")
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if err == nil {
		d.w.exits.steered = list
	}
	return err
}

func (d fakeDataPath) AnnounceAddress(uplink string, addr netip.Addr) error {
	err := d.w.call(fmt.Sprintf("announce %s at %s", addr, uplink))
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	d.w.exits.announced = append(d.w.exits.announced, gateway.Place{Uplink: uplink, Addr: addr})
	return err
}

func (d fakeDataPath) Lease() (datapath.Lease, error) {
	return datapath.Lease{Renew: func() error { d.w.renewals.Add(1); return nil }, Close: func() error { return nil }}, nil
}

func (d fakeDataPath) NATSweep() (datapath.NATGCStats, error) {
	err := d.read("NAT sweep")
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	d.w.calls = append(d.w.calls, "NAT sweep")
	return d.w.exits.gcStats, err
}

func (d fakeDataPath) NATTables(c datapath.NATGCStats) []datapath.Table {
	return []datapath.Table{{Name: datapath.TableNATSessions, Used: c.Sessions, Size: 1000, Bytes: 300_000}, {Name: datapath.TableNATEvents, Used: -1, Size: 4096, Bytes: 8192}}
}

func (d fakeDataPath) EachNATSession(do func(*datapath.NATSession) bool) error {
	err := d.read("NAT sessions")
	d.w.mu.Lock()
	natSessions := slices.Clone(d.w.exits.natSessions)
	d.w.mu.Unlock()
	for i := range natSessions {
		if !do(&natSessions[i]) {
			break
		}
	}
	return err
}

func (d fakeDataPath) EachNATRecord(do func(*datapath.NATRecord) bool) error {
	return d.EachNATSession(func(b *datapath.NATSession) bool {
		r := recordOf(*b)
		return do(&r)
	})
}

// recordOf is b as gateways tell each other of it.
func recordOf(b datapath.NATSession) datapath.NATRecord {
	return datapath.NATRecord{
		Router: datapath.NameTag(b.Router), Policy: datapath.NameTag(b.Policy), Proto: b.Proto, Inside: b.Inside, Outside: b.Outside,
		Egress: b.Egress, Via: gw1, AgeNS: b.AgeNS, IdleNS: b.IdleNS, Replica: b.Replica,
	}
}

func (d fakeDataPath) PortUsages(most, _ int) ([]datapath.PortUsage, error) {
	err := d.read("pressures")
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	return slices.Clone(d.w.exits.pressures[:min(most, len(d.w.exits.pressures))]), err
}

func (d fakeDataPath) ReadNATEvents(most int, do func(*datapath.NATEvent)) error {
	err := d.read("news")
	d.w.mu.Lock()
	natEvents := d.w.exits.natEvents[:min(most, len(d.w.exits.natEvents))]
	d.w.exits.natEvents = d.w.exits.natEvents[len(natEvents):]
	d.w.mu.Unlock()
	for i := range natEvents {
		do(&natEvents[i])
	}
	return err
}

func (d fakeDataPath) PutNATRecords(records []datapath.NATRecord) (taken, conflicts int, err error) {
	err = d.read("put sessions")
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	d.w.exits.replicas = append(d.w.exits.replicas, records...)
	return len(records) - 1, 1, err
}

func (d fakeDataPath) DeleteNATRecords(records []datapath.NATRecord) (int, error) {
	err := d.read("delete sessions")
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	d.w.exits.deleted = append(d.w.exits.deleted, records...)
	return len(records), err
}

func (l fakeLiveness) SetService(s bfd.Service) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.w.exits.service != s {
		l.w.exits.service = s
		l.w.calls = append(l.w.calls, "say "+s.String())
	}
}

// fakeReplication keeps what it is to tell.
type fakeReplication struct{ w *world }

func (r fakeReplication) Set(links []replica.Link) error {
	err := r.w.call("set links")
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.exits.links = links
	return err
}

func (r fakeReplication) Put(id replica.ID, records []byte) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.exits.reported[id] = append(r.w.exits.reported[id], records...)
}

func (r fakeReplication) Delete(id replica.ID, records []byte) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.exits.untold[id] = append(r.w.exits.untold[id], records...)
}

func (r fakeReplication) Resync(why string) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.exits.resyncs = append(r.w.exits.resyncs, why)
}

func (r fakeReplication) States() map[replica.ID]replica.State {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	return maps.Clone(r.w.exits.states)
}

func (r fakeReplication) Refused() map[replica.Refusal]uint64 { return nil }

func (r fakeReplication) Changed() <-chan struct{} { return r.w.exits.replicate }
func (r fakeReplication) Close() error             { return r.w.call("close replication") }
