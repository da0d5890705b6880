package datapath

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
)

// The policies of a natWorld: VNIs and pools, IPv4 and IPv6.
const (
	webVNI = 9001
	twoVNI = 9002

	webFirst4, webSecond4 = "198.51.100.100", "198.51.100.101"
	webFirst6, webSecond6 = "2001:db8:ff::100", "2001:db8:ff::101"
	two4, two6            = "198.51.100.110", "2001:db8:ff::110"
)

// natWorld is a routedWorld whose edge is a gateway:
//
//	egress-web  policy web, of green's sources here and of all that come by its segment;
//	            pool .100 and .101 of the uplink's network
//	egress-two  policy two, of 10.0.3.0/24, pool .110
//	up          the rest takes the uplink's address (masquerade), but nothing for .66 of the outside
//
// Sources beyond the tunnels come by the policies' segments, see natHosts.
func natWorld(t testing.TB, to way, change ...func(*Config, *fib.Tables)) *world {
	t.Helper()
	base := func(c *Config, tables *fib.Tables) {
		routed(to, tables)
		c.Egress = &overlay.Egress{NATSessions: 4096, Timeouts: overlay.DefaultNATTimeouts}
		natTables(to, tables)
	}
	w := newWorld(t, to.family, append([]func(*Config, *fib.Tables){base}, change...)...)
	up := w.port("s0", "up")
	up.Uplink = true
	w.tables.Ports = append(w.tables.Ports, up)
	w.apply(t)
	return w
}

// natTables adds the policies to the tables of a routed world.
func natTables(to way, tables *fib.Tables) {
	for name, vni := range map[string]overlay.VNI{"egress-web": webVNI, "egress-two": twoVNI} {
		tables.Segments = append(tables.Segments, overlay.Segment{
			Name: name, VNI: vni, Tunnel: to.tunnel, Remotes: to.family.remotes[:], Gateway: &overlay.Gateway{Router: "main", MAC: overlay.EgressMAC},
		})
	}
	slices.SortFunc(tables.Segments[4:], func(a, b overlay.Segment) int { return int(a.VNI) - int(b.VNI) })
	tables.Egress = []fib.Egress{
		natEgressOf("web", "egress-web", [2][]netip.Addr{natAddrs(webFirst4, webSecond4), natAddrs(webFirst6, webSecond6)}),
		natEgressOf("two", "egress-two", [2][]netip.Addr{natAddrs(two4), natAddrs(two6)}),
		natEgressOf("uplink/up", "", [2][]netip.Addr{natAddrs(uplink4), natAddrs(uplink6)}),
	}
	tables.Egress[2].Owned = nil // the gateway's anyway
	tables.EgressRules = natRules(tables, overlay.Egress{Policies: []overlay.EgressPolicy{
		{Name: "web", Router: "main", From: []overlay.Member{{Segment: "green"}}, Except: natPrefixes("203.0.113.66/32", "2001:db8:77::42/128")},
		{Name: "two", Router: "main", From: []overlay.Member{{Prefix: netip.MustParsePrefix("10.0.3.0/24")}, {Prefix: netip.MustParsePrefix("2001:db8:3::/64")}}},
	}})
}

// natEgressOf is a policy, or an uplink's own translation, of which this edge does all.
func natEgressOf(name, segment string, pool [2][]netip.Addr) fib.Egress {
	e := fib.Egress{
		Name: name, Router: "main", Segment: segment, Uplink: "up", Ports: overlay.DefaultNATPorts,
		Pool: pool, Owned: slices.Concat(pool[0], pool[1]),
	}
	for family := range e.Ways {
		for b := range e.Ways[family] {
			e.Ways[family][b] = fib.EgressNexthop{Here: len(pool[family]) > 0}
		}
	}
	return e
}

// natRules compiles policies for the ports of the tables.
func natRules(tables *fib.Tables, e overlay.Egress) *policy.Policy {
	fw, places := nat.Rules(e, []string{"main"})
	for _, p := range tables.Ports {
		if !p.Uplink {
			places = append(places, policy.Place{Name: p.Name, Port: p.Name, Segment: p.Segment})
		}
	}
	rules, err := policy.Compile(fw, places)
	if err != nil {
		panic(err)
	}
	return rules
}

func natAddrs(list ...string) (all []netip.Addr) {
	for _, a := range list {
		all = append(all, netip.MustParseAddr(a))
	}
	return all
}

func natPrefixes(list ...string) (all []netip.Prefix) {
	for _, p := range list {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}

// natEgress is a policy in the tables, to change it.
func natEgress(tables *fib.Tables, name string) *fib.Egress {
	for i := range tables.Egress {
		if tables.Egress[i].Name == name {
			return &tables.Egress[i]
		}
	}
	panic("no egress policy " + name)
}

// bySource sends the sources of a policy to the first remote: this edge is no gateway.
func bySource(e *fib.Egress) {
	e.Pool, e.Owned, e.Uplink = [2][]netip.Addr{}, nil, ""
	for family := range e.Ways {
		for b := range e.Ways[family] {
			e.Ways[family][b] = fib.EgressNexthop{Remote: underIPv4.remotes[0]}
		}
	}
}

// forgetNATSessions leaves NAT as it was before the first packet.
func (w *world) forgetNATSessions(t testing.TB) {
	t.Helper()
	removeAll[bpfCtKey, bpfNatSession](t, w.dp.NATSessions.maps.NatSessions)
	removeAll[bpfCtKey, bpfNatOrig](t, w.dp.NATSessions.maps.NatReverse)
	removeAll[bpfNatHostKey, bpfNatHostCount](t, w.dp.Egress.maps.NatHostCounts)
	removeAll[bpfFragmentKey, bpfFragmentTranslation](t, w.dp.Egress.maps.NatFragments)
	removeAll[bpfCtKey, bpfNatSession](t, w.dp.NATSessions.maps.NatInbound)
	removeAll[uint64, bpfFlow](t, w.dp.Flows.maps.Flows)
	w.natGCStats(t) // nobody's sessions are counted any more
}

// ageNATSessions lets time pass for all that NAT and the flow cache remember.
func (w *world) ageNATSessions(t testing.TB, by time.Duration) {
	t.Helper()
	ns := uint64(by)
	for _, m := range []kernel.Map{w.dp.NATSessions.maps.NatSessions, w.dp.NATSessions.maps.NatInbound} {
		changeEach[bpfCtKey](t, m, func(b *bpfNatSession) { b.Ct.SeenNs -= ns })
	}
	changeEach[bpfFragmentKey](t, w.dp.Egress.maps.NatFragments, func(f *bpfFragmentTranslation) { f.PassedNs -= ns })
	w.ageFlows(t, by+time.Second) // to be safely older than revalidate_ns, whose clock has ticks
}

// allNATSessions are the sessions and the returns.
func (w *world) allNATSessions(t testing.TB) (map[bpfCtKey]bpfNatSession, map[bpfCtKey]bpfNatOrig) {
	t.Helper()
	natSessions, returns := map[bpfCtKey]bpfNatSession{}, map[bpfCtKey]bpfNatOrig{}
	each(t, w.dp.NATSessions.maps.NatSessions, func(k bpfCtKey, b bpfNatSession) { natSessions[k] = b })
	each(t, w.dp.NATSessions.maps.NatReverse, func(k bpfCtKey, o bpfNatOrig) { returns[k] = o })
	return natSessions, returns
}

// checkNATSessions holds what is always true of the tables: each session has a return that
// leads back to its source and each return a session, so that no two share an address and
// port for a destination; and each source has as many that are not over as are counted.
func (w *world) checkNATSessions(t testing.TB) {
	t.Helper()
	natSessions, returns := w.allNATSessions(t)
	counts := map[bpfNatHostKey]uint32{}
	for k, b := range natSessions {
		back := k
		back.Inside, back.InsidePort = b.Addr, b.Port
		if k.EchoDir != 0 && b.Flags&uint32(bpfNatSessionFlagsNAT_SESSION_MAPPING) == 0 {
			back.OutsidePort = b.Port
		}
		o, ok := returns[back]
		if !ok || o.Addr != k.Inside || o.Port != k.InsidePort {
			t.Errorf("session %s has the return %+v, %t", natKeyWords(k), o, ok)
		}
		if e, ok := w.egressNumbered(t, b.Egress); !ok {
			t.Errorf("session %s is of policy %d, which there is not", natKeyWords(k), b.Egress)
		} else if port := wire16(b.Port); hasPorts(k) && b.Flags&uint32(bpfNatSessionFlagsNAT_SESSION_FORWARDED) == 0 && (port < e.FirstPort || port > e.LastPort) && k.InsidePort != b.Port {
			t.Errorf("session %s has port %d of %d-%d", natKeyWords(k), port, e.FirstPort, e.LastPort)
		}
		host := bpfNatHostKey{Router: k.Zone, Addr: k.Inside}
		if b.Flags&uint32(bpfNatSessionFlagsNAT_SESSION_FORWARDED) != 0 {
			host.Router |= natHostFromOutside
		}
		over := slices.Contains([]string{"time-wait", "closed"}, stateOf(k.Proto, b.Ct))
		if b.Flags&uint32(bpfNatSessionFlagsNAT_SESSION_MAPPING) == 0 && !over {
			counts[host]++
		}
	}
	if len(returns) != len(natSessions) {
		t.Errorf("%d sessions and %d returns", len(natSessions), len(returns))
	}
	each(t, w.dp.Egress.maps.NatHostCounts, func(k bpfNatHostKey, h bpfNatHostCount) {
		if h.Count != counts[k] {
			t.Errorf("source %s has %d sessions, %d are counted", addrOf(k.Addr.W), counts[k], h.Count)
		}
	})
}

// natHostFromOutside is HOST_FROM_OUTSIDE of bpf/abi/abi.h: what was opened from outside is
// counted apart.
const natHostFromOutside = 1 << 31

func hasPorts(k bpfCtKey) bool { return k.Proto == 6 || k.Proto == 17 || k.EchoDir != 0 }

func natKeyWords(k bpfCtKey) string {
	return netip.AddrPortFrom(addrOf(k.Inside.W), wire16(k.InsidePort)).String() + " > " +
		netip.AddrPortFrom(addrOf(k.Outside.W), wire16(k.OutsidePort)).String()
}

func (w *world) egressNumbered(t testing.TB, number uint16) (e bpfEgressPolicy, ok bool) {
	t.Helper()
	must(t, w.dp.Egress.maps.EgressPolicies.Lookup(uint32(number), &e))
	return e, number != 0 && e.Used != 0
}

// entriesOf is how many entries a table has.
func entriesOf[K, V any](t testing.TB, m kernel.Map) (n int) {
	t.Helper()
	each(t, m, func(K, V) { n++ })
	return n
}
