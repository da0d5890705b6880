package edge

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/replica"
)

var gw2Link = replica.ID{Remote: gw2, Port: 49789}

func inside(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }

// session is of the policy web: TCP, answered.
func natSession(n byte, port uint16) datapath.NATSession {
	return datapath.NATSession{
		Connection: datapath.Connection{Proto: 6, State: "established", Answered: true, AgeNS: 5e9, IdleNS: 1e9,
			Orig: datapath.Counters{Packets: 2, Bytes: uint64(n) * 100}, Reply: datapath.Counters{Packets: 3, Bytes: 1000}},
		Policy: "web", Router: "tenant", Inside: netip.AddrPortFrom(inside(n), port), Outside: netip.MustParseAddrPort("198.51.100.9:443"),
		Egress: netip.AddrPortFrom(pool, port), LeftNS: 60e9,
	}
}

// translating has the world translate three connections, one of them of the uplink itself.
func (w *world) translating() *world {
	udp := natSession(2, 53)
	udp.Policy, udp.Proto, udp.State, udp.Answered, udp.Egress = "uplink/wan", 17, "unreplied", false, netip.MustParseAddrPort("203.0.113.1:53")
	w.exits.natSessions = []datapath.NATSession{natSession(1, 4000), udp, natSession(1, 4001)}
	w.exits.gcStats = datapath.NATGCStats{States: map[string]int{"established": 2, "unreplied": 1}, Sessions: 3, Mappings: 1, Replicas: 1}
	w.exits.pressures = []datapath.PortUsage{{Policy: "web", Router: "tenant", Proto: 6, Egress: pool, Outside: netip.MustParseAddrPort("198.51.100.9:443"), Used: 90, Size: 100}}
	return w
}

func TestNATSessions(t *testing.T) {
	w := newEgressWorld(newWorld(t)).translating()
	c, _ := w.run()
	for _, test := range []struct {
		q       api.ConnectionQuery
		matched int
		first   netip.AddrPort // inside of the first one
	}{
		{api.ConnectionQuery{}, 3, netip.MustParseAddrPort("10.0.0.2:53")},
		{api.ConnectionQuery{Limit: 1}, 3, netip.MustParseAddrPort("10.0.0.2:53")},
		{api.ConnectionQuery{Policy: "web", Limit: 1}, 2, netip.MustParseAddrPort("10.0.0.1:4000")},
		{api.ConnectionQuery{Proto: "udp"}, 1, netip.MustParseAddrPort("10.0.0.2:53")},
		{api.ConnectionQuery{State: "established", Router: "tenant"}, 2, netip.MustParseAddrPort("10.0.0.1:4000")},
		{api.ConnectionQuery{Addr: netip.MustParsePrefix("203.0.113.1/32")}, 1, netip.MustParseAddrPort("10.0.0.2:53")},
		{api.ConnectionQuery{Addr: netip.MustParsePrefix("198.51.100.0/24")}, 3, netip.MustParseAddrPort("10.0.0.2:53")},
		{api.ConnectionQuery{Router: "other"}, 0, netip.AddrPort{}},
	} {
		list, err := c.Egress().NATSessions(t.Context(), test.q)
		if err != nil || list.Total != 3 || list.Matched != test.matched {
			t.Errorf("%+v: %d of %d match, want %d of 3: %v", test.q, list.Matched, list.Total, test.matched, err)
			continue
		}
		want := test.matched
		if test.q.Limit > 0 {
			want = min(want, test.q.Limit)
		}
		if len(list.Sessions) != want {
			t.Errorf("%+v: %d sessions, want %d", test.q, len(list.Sessions), want)
		} else if want > 0 && netip.AddrPortFrom(list.Sessions[0].Inside, list.Sessions[0].InsidePort) != test.first {
			t.Errorf("%+v: first %+v, want %s", test.q, list.Sessions[0], test.first)
		}
	}
	for by, want := range map[string]string{"sources": "10.0.0.1", "destinations": "198.51.100.9:443", "addresses": "203.0.113.10", "policies": "web"} {
		list, err := c.Egress().NATSessions(t.Context(), api.ConnectionQuery{Top: by})
		if err != nil || len(list.Top) == 0 || list.Top[0].What != want {
			t.Errorf("top %s: %+v, want %s first: %v", by, list.Top, want, err)
		}
	}
	for _, wrong := range []api.ConnectionQuery{{Top: "hosts"}, {State: "asleep"}, {Proto: "smoke"}, {Limit: -1}} {
		if _, err := c.Egress().NATSessions(t.Context(), wrong); err == nil {
			t.Errorf("%+v is answered", wrong)
		}
	}
	if p, err := c.Egress().PortUsages(t.Context(), 10); err != nil || len(p) != 1 || p[0].Used != 90 || p[0].Proto != "tcp" {
		t.Errorf("pressures %+v: %v", p, err)
	}
	e := fetched(t, c.Egress().Info)
	if p := e.Policies[0]; p.Sessions != 2 || p.Addresses[0].Sessions != 2 || p.Addresses[1].Sessions != 0 {
		t.Errorf("policy %+v, want two sessions at its first address", p)
	}
}

// Without anything to translate questions say so.
func TestNoEgress(t *testing.T) {
	c, _ := newWorld(t).run()
	_, egress := c.Egress().Info(t.Context())
	_, nat := c.Egress().NAT(t.Context())
	_, natSessions := c.Egress().NATSessions(t.Context(), api.ConnectionQuery{})
	_, pressures := c.Egress().PortUsages(t.Context(), 1)
	for _, err := range []error{egress, nat, natSessions, pressures} {
		if err == nil || !strings.Contains(err.Error(), "configure spec.egress") {
			t.Errorf("answer %v", err)
		}
	}
	if s := fetched(t, c.Status); s.NAT != nil {
		t.Errorf("status %+v", s.NAT)
	}
}

func TestNATStatus(t *testing.T) {
	w := newEgressWorld(newWorld(t)).translating()
	w.events["nat-created"], w.events[gateway.EventsLost] = 7, 0
	c, _ := w.run()
	w.within("swept", func() bool { return !fetched(t, c.Egress().NAT).SweptAt.IsZero() })
	n := fetched(t, c.Egress().NAT)
	if n.Sessions != 3 || n.Mappings != 1 || n.Replicas != 1 || n.Events[0].Name != "nat-created" || n.Events[0].Count != 7 {
		t.Errorf("NAT %+v", n)
	}
	if s := fetched(t, c.Status).NAT; s == nil || s.Sessions != (api.Usage{Used: 4, Size: 1000}) || s.Policies != 1 || s.State != "gone" && s.State != "serving" { // when it waited for the others long enough
		t.Errorf("status %+v", s)
	}
	w.exports(c,
		`selvage_nat_sessions{state="established"} 2`, `selvage_nat_replicas 1`, `selvage_nat_table_entries{table="nat-sessions"} 3`,
		`selvage_nat_ports_used 90`, `selvage_nat_ports_limit 100`, `selvage_egress_gateways_serving{group="gws"} `,
		`selvage_egress_gateway_state{gateway="192.0.2.1",group="gws",state="`, `selvage_egress_addresses_owned `)
}

func natEventsOf(event datapath.NATEventKind, b datapath.NATSession) datapath.NATEvent {
	return datapath.NATEvent{Event: event, AgeNS: 1e6, Session: b, Record: recordOf(b)}
}

// Other gateways hear of what is answered and of what ended, in order, and not of what is
// theirs.
func TestNATEventsAreReplicated(t *testing.T) {
	w := newEgressWorld(newWorld(t)).replicated()
	theirs, unanswered, local := natSession(3, 1), natSession(4, 1), natSession(5, 1)
	theirs.Replica, unanswered.Answered, local.Policy = true, false, "uplink/wan"
	mapping := natSession(6, 1)
	mapping.Mapping, mapping.Answered = true, false
	w.exits.natEvents = []datapath.NATEvent{
		natEventsOf(datapath.NATCreated, natSession(1, 1)), natEventsOf(datapath.NATEstablished, natSession(1, 1)), natEventsOf(datapath.NATEstablished, natSession(2, 1)),
		natEventsOf(datapath.NATDeleted, natSession(1, 1)), natEventsOf(datapath.NATDeleted, theirs), natEventsOf(datapath.NATDeleted, unanswered),
		natEventsOf(datapath.NATEstablished, local), natEventsOf(datapath.NATCreated, mapping),
	}
	_, _ = w.run()
	var put, gone []datapath.NATRecord
	w.within("told", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		put, gone = recordsIn(t, w.exits.reported[gw2Link]), recordsIn(t, w.exits.untold[gw2Link])
		return len(put) == 3 && len(gone) == 1
	})
	sources := func(records []datapath.NATRecord) (list []netip.Addr) {
		for _, r := range records {
			list = append(list, r.Inside.Addr())
		}
		return list
	}
	if got := sources(put); !slices.Equal(got, []netip.Addr{inside(1), inside(2), inside(6)}) {
		t.Errorf("told of %v", got)
	}
	if got := sources(gone); !slices.Equal(got, []netip.Addr{inside(1)}) {
		t.Errorf("told of the end of %v", got)
	}
	w.mu.Lock()
	links := w.exits.links
	w.mu.Unlock()
	if len(links) != 1 || links[0].Local != gw1 || links[0].ID() != gw2Link || string(links[0].Key) != "k" {
		t.Errorf("links %+v", links)
	}
}

func recordsIn(t *testing.T, b []byte) (list []datapath.NATRecord) {
	t.Helper()
	for chunk := range slices.Chunk(b, datapath.NATRecordSize) {
		var r datapath.NATRecord
		if err := r.UnmarshalBinary(chunk); err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

// News that were lost have all told again.
func TestLostNATEvents(t *testing.T) {
	w := newEgressWorld(newWorld(t)).replicated()
	w.events[gateway.EventsLost] = 3
	w.run()
	w.within("a first look", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.reads["news"] > 1 // news, events, and news again
	})
	w.set(func() { w.events[gateway.EventsLost]++ })
	w.within("told again", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.exits.resyncs) == 1
	})
}

// Records of others are taken where they are of a policy that is shared, and nothing else of
// what an evil gateway sends.
func TestRecordsOfOthers(t *testing.T) {
	w := newEgressWorld(newWorld(t)).replicated()
	c, _ := w.run()
	var store replica.Store
	w.within("replication", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		store = w.exits.store
		return store != nil
	})
	own, local := recordOf(natSession(1, 1)), natSession(2, 1)
	local.Policy = "uplink/wan"
	foreign := recordOf(local)
	bytes, _ := own.AppendBinary(nil)
	bytes, _ = foreign.AppendBinary(bytes)
	if err := store.Put(gw2Link, bytes); err != nil {
		t.Fatal(err)
	}
	if err := store.Delete(gw2Link, bytes); err != nil {
		t.Fatal(err)
	}
	if err := store.Put(replica.ID{Remote: remoteB, Port: 49789}, bytes); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	put, gone := w.exits.replicas, w.exits.deleted
	w.mu.Unlock()
	if len(put) != 1 || put[0].Inside != own.Inside || len(gone) != 1 {
		t.Errorf("taken %+v, deleted %+v, want the shared one alone", put, gone)
	}
	if err := store.Put(gw2Link, make([]byte, datapath.NATRecordSize)); err == nil {
		t.Error("a record of nothing is taken")
	}
	if r := fetched(t, c.Egress().Info).Replication; len(r) != 1 || r[0].Conflicts != 1 {
		t.Errorf("replication %+v, want one conflict", r)
	}
	w.mu.Lock()
	w.exits.natSessions = []datapath.NATSession{natSession(1, 1), local, natSession(3, 1)}
	w.mu.Unlock()
	var all []byte
	if err := store.Snapshot(gw2Link, func(b []byte) { all = append(all, b...) }); err != nil {
		t.Fatal(err)
	}
	if got := recordsIn(t, all); len(got) != 2 {
		t.Errorf("snapshot of %d records, want 2", len(got))
	}
}

// A gateway that replicates waits for the sessions of the other one.
func TestGatewayWaitsForNATSessions(t *testing.T) {
	w := newEgressWorld(newWorld(t)).replicated()
	c, _ := w.run()
	w.served(bfd.InService)
	w.within("the other is heard", func() bool {
		return member(t, c, gw2).State == "serving" && member(t, c, gw2).Why == "it reports so itself"
	})
	if m := member(t, c, gw1); m.State != "gone" {
		t.Errorf("it is %+v, and knows no sessions", m)
	}
	w.mu.Lock()
	w.exits.states = map[replica.ID]replica.State{gw2Link: {Connected: true, Synced: true}}
	w.mu.Unlock()
	w.exits.replicate <- struct{}{}
	w.owns(2)
}

// Gateways that are configured differently are a problem; the link says what has to be alike.
func TestGatewaysConfiguredDifferently(t *testing.T) {
	w := newEgressWorld(newWorld(t)).replicated()
	w.exits.states = map[replica.ID]replica.State{gw2Link: {Connected: true, Synced: true, Differs: []string{"group gws", "policy web"}}}
	c, _ := w.run()
	w.served(bfd.InService)
	for _, what := range []string{"group gws", "policy web"} {
		w.within(what, func() bool { return w.problem(c, "gateway gw2 has another configuration of "+what) })
	}
	if r := fetched(t, c.Egress().Info).Replication; len(r) != 1 || len(r[0].Differs) != 2 {
		t.Errorf("replication %+v", r)
	}
	w.mu.Lock()
	parts := w.exits.links[0].Parts
	w.exits.states = map[replica.ID]replica.State{gw2Link: {Connected: true, Synced: true}}
	w.mu.Unlock()
	if _, ok := parts["group gws"]; !ok || len(parts) < 2 {
		t.Errorf("the other gateway is told of %d parts", len(parts))
	}
	w.within("problem over", func() bool { return !w.problem(c, "another configuration") })
}

// Sessions that live are told of again before they expire at the other gateway.
func TestRefresh(t *testing.T) {
	w := newEgressWorld(newWorld(t)).replicated()
	w.config.Egress.Timeouts.ICMP = 200 * time.Millisecond
	idle, theirs := natSession(2, 1), natSession(3, 1)
	idle.IdleNS, theirs.Replica = 10e9, true
	w.exits.natSessions = []datapath.NATSession{natSession(1, 1), idle, theirs}
	w.exits.natSessions[0].IdleNS = 1e6
	_, _ = w.run()
	w.within("refreshed", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.exits.reported[gw2Link]) > 0
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range recordsIn(t, w.exits.reported[gw2Link]) {
		if r.Inside.Addr() != inside(1) {
			t.Errorf("%s is refreshed", r.Inside)
		}
	}
}
