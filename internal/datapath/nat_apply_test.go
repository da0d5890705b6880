package datapath

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// entry is what the map has of an egress, and poolOf the addresses that it refers to.
func (w *world) entry(t testing.TB, name string) (e bpfEgressPolicy) {
	t.Helper()
	id, ok := w.dp.numbers.names.egressIDs[name]
	if !ok {
		t.Fatalf("egress %s has no number", name)
	}
	must(t, w.dp.Egress.maps.EgressPolicies.Lookup(id, &e))
	return e
}

func (w *world) poolOf(t testing.TB, e bpfEgressPolicy, family int) (addrs []netip.Addr) {
	t.Helper()
	for i := range e.Family[family].Count {
		var a bpfAddr
		must(t, w.dp.Egress.maps.Pool.Lookup(e.Family[family].Pool+i, &a))
		addrs = append(addrs, addrOf(a.W))
	}
	return addrs
}

// local is what the edge has of an address in the router main: the segment, and whether
// packets for it may be for others.
func (w *world) local(t testing.TB, address string) (segment string, behind bool) {
	t.Helper()
	var v uint32
	err := w.dp.Routes.maps.LocalAddrs.Lookup(localKey(w.dp.numbers.names.routeIDs["main"], addr(address)), &v)
	must(t, ignoreMissing(err))
	return w.dp.numbers.names.segments[v&^(localNAT|localLeased)], v&localNAT != 0
}

func (w *world) segmentEntry(t testing.TB, name string) (s bpfSegment) {
	t.Helper()
	must(t, w.dp.numbers.maps.Segments.Lookup(w.dp.numbers.names.segIDs[name], &s))
	return s
}

func (w *world) router(t testing.TB, name string) (r bpfRouter) {
	t.Helper()
	must(t, w.dp.numbers.maps.Routers.Lookup(w.dp.numbers.names.routeIDs[name], &r))
	return r
}

// egressCompiled is the number of the map that holds the rules of egress, 0 without one.
func (w *world) egressCompiled(t testing.TB) (id ebpf.MapID) {
	t.Helper()
	must(t, ignoreMissing(w.dp.prog.objs.Policy.Lookup(policyEgress, &id)))
	return id
}

func TestEgressTables(t *testing.T) {
	t.Parallel()
	w := natWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) {
		tables.Translated = []string{"up"}
		tables.PortForwards = []fib.Forward{{Router: "main", Egress: "uplink/up", Proto: 6, Addr: addr(uplink4), Port: 8080, To: addr("10.0.1.10"), ToPort: 80}}
		natEgress(tables, "web").Limit, natEgress(tables, "web").Independent = 7, true
	})
	web, up := w.entry(t, "web"), w.entry(t, "uplink/up")
	if web.Router != w.dp.numbers.names.routeIDs["main"] || web.Segment != w.dp.numbers.names.segIDs["egress-web"] || web.Flags != bpfEgressFlagsEGRESS_INDEPENDENT ||
		web.FirstPort != 1024 || web.LastPort != 65535 || web.Limit != 7 || up.Segment != 0 {
		t.Errorf("entries %+v", web)
	}
	for family, want := range [][]netip.Addr{natAddrs(webFirst4, webSecond4), natAddrs(webFirst6, webSecond6)} {
		if got := w.poolOf(t, web, family); !slices.Equal(got, want) {
			t.Errorf("pool %v, want %v", got, want)
		}
	}
	for name, want := range map[string]string{"egress-web": "web", "up": "uplink/up", "blue": ""} {
		if got := w.segmentEntry(t, name).Egress; got != uint16(w.dp.numbers.names.egressIDs[want]) {
			t.Errorf("segment %s is of egress %d, want that of %q", name, got, want)
		}
	}
	const uplinkFlags = bpfSegmentFlagsSEGMENT_UPLINK | bpfSegmentFlagsSEGMENT_TRANSLATED
	if flags := w.segmentEntry(t, "up").Flags; flags&uplinkFlags != uplinkFlags {
		t.Errorf("the uplink's flags are %b", flags)
	}
	if flags := w.segmentEntry(t, "egress-web").Flags; flags&uplinkFlags != 0 || flags&bpfSegmentFlagsSEGMENT_L3 == 0 {
		t.Errorf("flags of the policy's segment are %b", flags)
	}
	for _, a := range []string{webFirst4, webSecond6, uplink4, uplink6} {
		if segment, behind := w.local(t, a); segment != "up" || !behind {
			t.Errorf("%s is of segment %q, for others %t", a, segment, behind)
		}
	}
	if segment, behind := w.local(t, gateway4); segment != "blue" || behind {
		t.Errorf("the gateway is of segment %q, for others %t", segment, behind)
	}
	if flags := w.router(t, "main").Flags; flags != bpfRouterFlagsROUTER_NAT|bpfRouterFlagsROUTER_EGRESS {
		t.Errorf("the router's flags are %b", flags)
	}
	var f bpfPortForward
	key := bpfPortForwardKey{Router: w.dp.numbers.names.routeIDs["main"], Proto: 6, Port: wire16(8080), Addr: bpfAddr{W: wireAddr(addr(uplink4))}}
	must(t, w.dp.NATSessions.maps.PortForwards.Lookup(key, &f))
	if addrOf(f.Addr.W) != addr("10.0.1.10") || wire16(f.Port) != 80 || f.Egress != uint16(w.dp.numbers.names.egressIDs["uplink/up"]) {
		t.Errorf("forward %+v", f)
	}
	if w.egressCompiled(t) == 0 {
		t.Error("no rules are in force")
	}
}

// hopOfBucket is the remote to which a bucket's sources go.
func (w *world) hopOfBucket(t testing.TB, e bpfEgressPolicy, family, bucket int) (hop bpfNexthop, remote netip.Addr) {
	t.Helper()
	must(t, w.dp.Routes.maps.Nexthops.Lookup(uint32(e.Family[family].Nexthops[bucket]), &hop))
	_, remote = w.dp.numbers.vportName(uint32(hop.Vport))
	return hop, remote
}

// At a failover the ways, the pool and the addresses change, and nothing else has to be applied; what Apply writes later is the same.
func TestSteerEgress(t *testing.T) {
	w := natWorld(t, ways()[0])
	before := w.router(t, "main").Generation
	other, away := w.family.remotes[1], slices.Clone(w.tables.Egress)
	web := natEgress(&w.tables, "web")
	gone := *web
	gone.Pool, gone.Owned, gone.Kept = [2][]netip.Addr{{addr(webSecond4)}}, []netip.Addr{addr(webSecond4)}, []netip.Addr{other}
	for bucket := range gone.Ways[0] {
		gone.Ways[0][bucket] = fib.EgressNexthop{Remote: other, First: 1}
		gone.Ways[1][bucket] = fib.EgressNexthop{}
	}
	gone.Ways[0][3] = fib.EgressNexthop{Here: true}
	away[slices.IndexFunc(away, func(e fib.Egress) bool { return e.Name == "web" })] = gone
	must(t, w.dp.Egress.SteerEgress(away))

	e := w.entry(t, "web")
	if got := w.poolOf(t, e, 0); !slices.Equal(got, natAddrs(webSecond4)) || e.Family[1].Count != 0 {
		t.Errorf("pool %v and %d more", got, e.Family[1].Count)
	}
	hop, remote := w.hopOfBucket(t, e, 0, 9)
	if remote != other || hop.Mac != overlay.EgressMAC || hop.Segment != w.dp.numbers.names.segIDs["egress-web"] || e.Family[0].First[9] != 1 || e.Kept[0] != e.Family[0].Nexthops[9] {
		t.Errorf("bucket 9 goes to %s by %+v, kept %v", remote, hop, e.Kept)
	}
	if e.Family[0].Nexthops[3] != 0 || e.Family[1].Nexthops[9] != wayNone {
		t.Errorf("hops %d here, %d of nobody", e.Family[0].Nexthops[3], e.Family[1].Nexthops[9])
	}
	for a, want := range map[string]string{webFirst4: "", webFirst6: "", webSecond4: "up", two4: "up", uplink4: "up"} {
		if segment, _ := w.local(t, a); segment != want {
			t.Errorf("%s is of segment %q, want %q", a, segment, want)
		}
	}
	if now := w.router(t, "main").Generation; now == before {
		t.Error("cached decisions stay")
	}

	w.tables.Egress = away
	steered := w.router(t, "main").Generation
	w.apply(t)
	if now := w.router(t, "main").Generation; now != steered || w.entry(t, "web") != e {
		t.Errorf("generation %d became %d, entry %+v", steered, now, w.entry(t, "web"))
	}
	if hop, remote := w.hopOfBucket(t, e, 0, 9); remote != other {
		t.Errorf("Apply took the next hop away: %+v", hop)
	}
}

// What cannot be is refused with the name of what is wrong, before anything is written.
func TestEgressIsRefused(t *testing.T) {
	w := natWorld(t, ways()[0])
	good := w.tables
	for want, change := range map[string]func(*fib.Tables){
		`egress web: there is no router "none"`:         func(t *fib.Tables) { natEgress(t, "web").Router = "none" },
		`egress web: there is no segment "none"`:        func(t *fib.Tables) { natEgress(t, "web").Segment = "none" },
		`egress web: ports 9-8 are no range`:            func(t *fib.Tables) { natEgress(t, "web").Ports = overlay.PortRange{First: 9, Last: 8} },
		`at the uplink "none", which is not there`:      func(t *fib.Tables) { natEgress(t, "two").Uplink = "none" },
		`remote 192.0.2.77 has no entry among the TEPs`: func(t *fib.Tables) { natEgress(t, "two").Ways[1][5].Remote = addr("192.0.2.77") },
		`17 gateways, at most 16`:                       func(t *fib.Tables) { natEgress(t, "two").Kept = make([]netip.Addr, 17) },
		`forward of 198.51.100.1 port 80`: func(t *fib.Tables) {
			t.PortForwards = []fib.Forward{{Router: "main", Egress: "none", Addr: addr(uplink4), Port: 80}}
		},
		`rules of egress: there is no egress "web"`:                   func(t *fib.Tables) { natEgress(t, "web").Name = "other" },
		`no room for 65536 more addresses among the 65536 of all poo`: func(t *fib.Tables) { natEgress(t, "two").Pool[0] = manyAddrs(65536) },
	} {
		w.tables = good
		w.tables.Egress = slices.Clone(good.Egress)
		change(&w.tables)
		w.do(t, func() {
			if err := w.dp.Apply(w.tables); err == nil || !bytes.Contains([]byte(err.Error()), []byte(want)) {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
	w.tables = good
	w.apply(t)
	if e := w.entry(t, "web"); e.Family[0].Count != 2 {
		t.Errorf("entry %+v after refused changes", e)
	}
}

func manyAddrs(n int) (list []netip.Addr) {
	for i := range n {
		list = append(list, netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	return list
}

// The network of the uplink hears who has an address now.
func TestAnnounceAddress(t *testing.T) {
	w := natWorld(t, ways()[0])
	w.do(t, func() {
		socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK, int(wire16(unix.ETH_P_ALL)))
		must(t, err)
		defer unix.Close(socket)
		must(t, unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: wire16(unix.ETH_P_ALL), Ifindex: w.dev["s0x"].Index}))
		for address, want := range map[string]string{
			webFirst4: "arp 198.51.100.100 ? 198.51.100.100", webFirst6: "unsolicited",
		} {
			must(t, w.dp.HostEvents.AnnounceAddress("up", addr(address)))
			frame := receive(t, socket)
			if want == "unsolicited" {
				wanted := advertisement(macOf(uplinkMAC), addr(address), 0xa0)
				if !bytes.Equal(frame, wanted) {
					t.Errorf("sent\n%s, want\n%s", pkttest.Decoded(frame), pkttest.Decoded(wanted))
				}
				continue
			}
			if wanted := padded(pkttest.Frame(uplinkMAC, all, want)); !bytes.Equal(frame, wanted) {
				t.Errorf("sent\n%s, want\n%s", pkttest.Decoded(frame), pkttest.Decoded(wanted))
			}
		}
		if err := w.dp.HostEvents.AnnounceAddress("none", addr(webFirst4)); err == nil {
			t.Error("announced at an uplink that is not there")
		}
	})
}

// receive waits for the frame that the socket is about to get.
func receive(t testing.TB, socket int) []byte {
	t.Helper()
	buffer := make([]byte, 2048)
	if !ready(t, socket, await.Patience) {
		t.Fatal("nothing came")
	}
	n, _, err := unix.Recvfrom(socket, buffer, 0)
	must(t, err)
	return buffer[:n]
}

// ready waits until there is something to read.
func ready(t testing.TB, socket int, most time.Duration) bool {
	t.Helper()
	for until := time.Now().Add(most); time.Now().Before(until); {
		ms := time.Until(until)/time.Millisecond + 1
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(socket), Events: unix.POLLIN}}, int(ms))
		if err != nil && err != unix.EINTR {
			t.Fatal(err)
		}
		if n > 0 {
			return true
		}
	}
	return false
}

// A leased address is answered for while the lease is renewed, and no longer.
func TestLease(t *testing.T) {
	w := natWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) { natEgress(tables, "web").Leased = true })
	asks := func(address string) bool {
		t.Helper()
		r := w.fromPort(t, "s0", pkttest.Frame(ispMAC, all, "arp 198.51.100.254 ? "+address))
		return r.verdict == forwarded
	}
	if asks(webFirst4) || !asks(two4) || !asks(uplink4) {
		t.Error("without a lease: want an answer for all but the leased one")
	}
	lease, err := w.dp.Changes.Lease()
	must(t, err)
	must(t, lease.Renew())
	must(t, lease.Close())
	if !asks(webFirst4) {
		t.Error("the lease is renewed, and there is no answer")
	}
	now, err := kernel.Host().Clock.Coarse()
	must(t, err)
	for age, want := range map[time.Duration]bool{
		time.Duration(now): false, 400 * time.Millisecond: true, -400 * time.Millisecond: true, time.Second: false, time.Hour: false,
		25 * 24 * time.Hour: false, 40 * 24 * time.Hour: false, 49 * 24 * time.Hour: false,
	} {
		renewed := uint32((int64(now) - int64(age)) / int64(time.Millisecond))
		must(t, w.dp.Changes.maps.GlobalCounters.Put(uint32(bpfGlobalCounterGLOBAL_LEASE), renewed))
		if asks(webFirst4) != want {
			t.Errorf("the lease was renewed %s ago: answered %t, want %t", age, !want, want)
		}
	}
}

// A policy that went leaves nothing behind, and its number has no sessions for the next one.
func TestEgressIsPruned(t *testing.T) {
	for _, restart := range []bool{false, true} {
		w := natWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) {
			tables.Translated = []string{"up"}
			tables.PortForwards = []fib.Forward{{Router: "main", Egress: "uplink/up", Proto: 6, Addr: addr(uplink4), Port: 8080, To: addr("10.0.1.10"), ToPort: 80}}
		})
		id, router := w.dp.numbers.names.egressIDs["web"], w.dp.numbers.names.routeIDs["main"]
		w.putNATSessions(t, natRecord("web", 1), natRecord("two", 2))
		// Without the policy web.
		w.tables.Egress = w.tables.Egress[1:]
		w.tables.EgressRules = natRules(&w.tables, overlay.Egress{Policies: []overlay.EgressPolicy{{Name: "two", Router: "main"}}})
		w.tables.Segments = slices.DeleteFunc(slices.Clone(w.tables.Segments), func(s overlay.Segment) bool { return s.Name == "egress-web" })
		if restart {
			w.reopen(t)
		}
		w.apply(t)
		var e bpfEgressPolicy
		must(t, w.dp.Egress.maps.EgressPolicies.Lookup(id, &e))
		if e.Used != 0 || e.Family[0].Count != 0 {
			t.Errorf("restart %t: the entry is %+v", restart, e)
		}
		if segment, _ := w.local(t, webFirst4); segment != "" {
			t.Errorf("restart %t: the edge still answers for %s", restart, webFirst4)
		}
		if used := w.dp.Egress.poolUsed(); used != 4 {
			t.Errorf("restart %t: %d addresses are in the pool, want those of two and of the uplink", restart, used)
		}
		if all, _ := w.allNATSessions(t); len(all) != 1 {
			t.Errorf("restart %t: sessions %v, want that of two", restart, all)
		}
		// Without any.
		w.tables.Egress, w.tables.EgressRules, w.tables.PortForwards, w.tables.Translated = nil, nil, nil, nil
		w.apply(t)
		natSessions, returns := w.allNATSessions(t)
		r := bpfRouter{}
		must(t, w.dp.numbers.maps.Routers.Lookup(router, &r))
		s := w.segmentEntry(t, "up")
		if r.Flags != 0 || s.Egress != 0 || s.Flags&bpfSegmentFlagsSEGMENT_TRANSLATED != 0 || w.egressCompiled(t) != 0 || len(natSessions)+len(returns) != 0 {
			t.Errorf("restart %t: router %+v, uplink %+v, rules %d, %d sessions", restart, r, s, w.egressCompiled(t), len(natSessions))
		}
		if segment, behind := w.local(t, uplink4); segment != "up" || behind {
			t.Errorf("restart %t: the uplink's address is of %q, for others %t", restart, segment, behind)
		}
		each(t, w.dp.NATSessions.maps.PortForwards, func(k bpfPortForwardKey, _ bpfPortForward) { t.Errorf("restart %t: forward %+v is left", restart, k) })
	}
}
