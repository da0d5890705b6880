package datapath

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/nat"
)

// natSourceEdge makes another edge the gateway of policy web, on the same underlay.
func natSourceEdge(to way) func(*Config, *fib.Tables) {
	return func(_ *Config, tables *fib.Tables) {
		web := natEgress(tables, "web")
		bySource(web)
		for family := range web.Ways {
			for b := range web.Ways[family] {
				web.Ways[family][b] = fib.EgressNexthop{Remote: to.family.remotes[0]}
			}
		}
	}
}

// Where another edge is the gateway, packets go there as they are and answers come as they
// shall be; this edge keeps nothing.
var natSourceCases = []natCase{
	{name: "there and back", steps: []string{
		"dave: udp 10.0.2.13:4100 > 203.0.113.5:53 30 => bob: udp 10.0.2.13:4100 > 203.0.113.5:53 30",
		"bob: udp 203.0.113.5:53 > 10.0.2.13:4100 40 => dave: udp 203.0.113.5:53 > 10.0.2.13:4100 40",
		"dave: udp 10.0.2.13:4100 > 203.0.113.5:53 30 => bob: udp 10.0.2.13:4100 > 203.0.113.5:53 30",
		"bob: udp 203.0.113.5:53 > 10.0.2.13:4100 40 => dave: udp 203.0.113.5:53 > 10.0.2.13:4100 40",
		"dave: tcp 10.0.2.13:4100 > 203.0.113.5:53 syn => bob: tcp 10.0.2.13:4100 > 203.0.113.5:53 syn",
		"dave: tcp 10.0.2.13:4100 > 203.0.113.5:53 ack 100 => bob: tcp 10.0.2.13:4100 > 203.0.113.5:53 ack 100",
		"dave: icmp 10.0.2.13 > 203.0.113.5 8/0 id 4107 30 => bob: icmp 10.0.2.13 > 203.0.113.5 8/0 id 4107 30",
		"bob: error 3/3 203.0.113.5 > 10.0.2.13 quoting 500 udp 10.0.2.13:4100 > 203.0.113.5:53 30 => " +
			"dave: error 3/3 203.0.113.5 > 10.0.2.13 quoting 500 udp 10.0.2.13:4100 > 203.0.113.5:53 30",
		"dave: error 3/3 10.0.2.13 > 203.0.113.5 quoting 500 udp 203.0.113.5:53 > 10.0.2.13:4100 40 => " +
			"bob: error 3/3 10.0.2.13 > 203.0.113.5 quoting 500 udp 203.0.113.5:53 > 10.0.2.13:4100 40",
	}},
	{name: "fragments", steps: []string{
		"dave: piece 0 of 64 id 7 udp 10.0.2.13:4100 > 203.0.113.5:53 150 => bob: piece 0 of 64 id 7 udp 10.0.2.13:4100 > 203.0.113.5:53 150",
		"dave: piece 1 of 64 id 7 udp 10.0.2.13:4100 > 203.0.113.5:53 150 => bob: piece 1 of 64 id 7 udp 10.0.2.13:4100 > 203.0.113.5:53 150",
		"dave: piece 2 of 64 id 8 udp 10.0.2.13:4100 > 203.0.113.5:53 150 => bob: piece 2 of 64 id 8 udp 10.0.2.13:4100 > 203.0.113.5:53 150",
	}},
	{name: "what no policy matches", steps: []string{
		"alice: udp 10.0.1.10:4100 > 203.0.113.5:53 30 => isp: udp 198.51.100.1:4100 > 203.0.113.5:53 30",
		"far: udp 10.0.3.7:4100 > 203.0.113.5:53 30 => isp: udp 198.51.100.110:4100 > 203.0.113.5:53 30",
		"dave: udp 10.0.2.13:4100 > 203.0.113.66:53 30 => isp: udp 198.51.100.1:4100 > 203.0.113.66:53 30",
		"dave: udp 10.0.2.13:4100 > 10.0.1.10:53 30 => alice: udp 10.0.2.13:4100 > 10.0.1.10:53 30",
		"dave: udp 10.0.2.13:4100 > 10.9.1.10:53 30 => drop blackhole",
	}},
	{name: "an edge that takes this one for a gateway", steps: []string{
		"bob: udp 10.0.1.11:4100 > 203.0.113.5:53 30 => drop no-gateway,split-horizon",
		"ben: udp 10.0.1.11:4100 > 203.0.113.5:53 30 => drop no-gateway,split-horizon",
		"ben: tcp 10.0.1.11:4100 > 203.0.113.5:53 syn => drop no-gateway,split-horizon",
		"bob: icmp 10.0.1.11 > 203.0.113.5 8/0 id 4107 30 => drop no-gateway,split-horizon",
		"bob: ip 10.0.1.11 > 203.0.113.5 50 40 => drop no-gateway,split-horizon,nat-unsupported",
		"bob: piece 1 of 64 id 7 udp 10.0.1.11:4100 > 203.0.113.5:53 150 => drop no-gateway,split-horizon,nat-fragment",
	}},
}

func TestNATSourceEdge(t *testing.T) {
	t.Parallel()
	all := ways()
	for _, to := range []way{all[0], all[5], all[7]} {
		for _, cached := range []bool{true, false} {
			t.Run(to.name, func(t *testing.T) {
				w := natWorld(t, to, natSourceEdge(to), func(c *Config, _ *fib.Tables) { c.FlowCache.Enabled = cached })
				for _, c := range natSourceCases {
					t.Run(c.name, func(t *testing.T) {
						w.natCase(t, c)
						for k := range firstOf(w.allNATSessions(t)) {
							inside := addrOf(k.Inside.W)
							if slices.Contains(natAddrs("10.0.2.13", "2001:db8:2::d"), inside) && !slices.Contains(natAddrs("203.0.113.66", "2001:db8:77::42"), addrOf(k.Outside.W)) {
								t.Errorf("a session at a source edge: %s", natKeyWords(k))
							}
						}
					})
				}
			})
		}
	}
}

func firstOf[A, B any](a A, _ B) A { return a }

// Nobody serves the source, or nobody in its family.
func TestNATNoGateway(t *testing.T) {
	w := natWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) {
		web := natEgress(tables, "web")
		bySource(web)
		web.Ways = [2][fib.EgressBuckets]fib.EgressNexthop{}
		two := natEgress(tables, "two")
		two.Pool[1], two.Owned, two.Ways[1] = nil, two.Owned[:1], [fib.EgressBuckets]fib.EgressNexthop{}
	})
	w.natBoth(t,
		"dave: udp 10.0.2.13:4100 > 203.0.113.5:53 30 => drop no-gateway",
		"dave: tcp 10.0.2.13:4100 > 203.0.113.5:53 syn => drop no-gateway",
		"dave: icmp 10.0.2.13 > 203.0.113.5 8/0 id 4107 30 => drop no-gateway",
		"dave: ip 10.0.2.13 > 203.0.113.5 50 30 => drop no-gateway,nat-unsupported",
		"dave: piece 1 of 64 id 7 udp 10.0.2.13:4100 > 203.0.113.5:53 150 => drop no-gateway,nat-fragment",
		"bob: udp 10.0.1.11:4100 > 203.0.113.5:53 30 => drop no-gateway",
		"alice: udp 10.0.1.10:4100 > 203.0.113.5:53 30 => isp: udp 198.51.100.1:4100 > 203.0.113.5:53 30",
	)
	w.talk(t).follow("far: udp 10.0.3.7:4100 > 203.0.113.5:53 30 => isp: udp 198.51.100.110:4100 > 203.0.113.5:53 30",
		"far: udp [2001:db8:3::7]:4100 > [2001:db8:77::5]:53 30 => drop no-gateway",
		"tom: udp [2001:db8:9::7]:4100 > [2001:db8:77::5]:53 30 => drop no-gateway")
}

// Without masquerade what no policy matches leaves as it is, but by an uplink where all must be translated.
func TestNATRequired(t *testing.T) {
	without := func(_ *Config, tables *fib.Tables) { tables.Egress = tables.Egress[:2] }
	open := natWorld(t, ways()[0], without)
	open.natBoth(t,
		"alice: udp 10.0.1.10:4100 > 203.0.113.5:53 30 => isp: udp 10.0.1.10:4100 > 203.0.113.5:53 30",
		"isp: udp 203.0.113.5:53 > 10.0.1.10:4100 30 => alice: udp 203.0.113.5:53 > 10.0.1.10:4100 30",
		"alice: ip 10.0.1.10 > 203.0.113.5 50 30 => isp: ip 10.0.1.10 > 203.0.113.5 50 30",
		"alice: piece 1 of 64 id 7 udp 10.0.1.10:4100 > 203.0.113.5:53 150 => isp: piece 1 of 64 id 7 udp 10.0.1.10:4100 > 203.0.113.5:53 150",
		"dave: udp 10.0.2.13:4100 > 203.0.113.5:53 30 => isp: udp 198.51.100.100:4100 > 203.0.113.5:53 30",
		"dave: udp 10.0.2.13:4100 > 203.0.113.66:53 30 => isp: udp 10.0.2.13:4100 > 203.0.113.66:53 30",
	)
	required := natWorld(t, ways()[0], without, func(_ *Config, tables *fib.Tables) { tables.Translated = []string{"up"} })
	required.natBoth(t,
		"alice: udp 10.0.1.10:4100 > 203.0.113.5:53 30 => drop no-translation",
		"alice: udp 10.0.1.10:4100 > 198.51.100.254:53 30 => drop no-translation",
		"alice: tcp 10.0.1.10:4100 > 203.0.113.5:53 syn => drop no-translation",
		"alice: icmp 10.0.1.10 > 203.0.113.5 8/0 id 4107 30 => drop no-translation",
		"alice: icmp 10.0.1.10 > 203.0.113.5 0/0 id 4107 30 => drop no-translation",
		"alice: ip 10.0.1.10 > 203.0.113.5 50 30 => drop no-translation,nat-unsupported",
		"alice: piece 1 of 64 id 7 udp 10.0.1.10:4100 > 203.0.113.5:53 150 => drop no-translation,nat-fragment",
		"alice: error 3/3 10.0.1.10 > 203.0.113.5 quoting 500 udp 203.0.113.5:53 > 10.0.1.10:4100 40 => drop no-translation,no-nat-session,unrelated,nat-unsupported",
		"dave: udp 10.0.2.13:4100 > 203.0.113.66:53 30 => drop no-translation",
		"far: udp 10.0.3.7:4100 > 203.0.113.5:53 30 => isp: udp 198.51.100.110:4100 > 203.0.113.5:53 30",
		"bob: udp 10.0.1.11:4100 > 203.0.113.5:53 30 => isp: udp 198.51.100.100:4100 > 203.0.113.5:53 30",
		"isp: udp 203.0.113.5:53 > 198.51.100.100:4100 30 => bob: udp 203.0.113.5:53 > 10.0.1.11:4100 30",
		"alice: udp 10.0.1.10:4100 > 10.0.2.13:53 30 => dave: udp 10.0.1.10:4100 > 10.0.2.13:53 30",
		"isp: udp 203.0.113.5:53 > 203.0.113.9:4100 30 => drop no-translation,no-nat-session",
	)
}

// Which gateway serves a source is the same for the data path and for nat.Bucket, by which all edges decide.
func TestNATBuckets(t *testing.T) {
	r := newRandom(t)
	var remotes [2][fib.EgressBuckets]int
	w := natWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) {
		web := natEgress(tables, "web")
		bySource(web)
		for family := range web.Ways {
			for b := range web.Ways[family] {
				remotes[family][b] = r.IntN(2)
				web.Ways[family][b].Remote = underIPv4.remotes[remotes[family][b]]
			}
		}
	})
	w.forgetNATSessions(t)
	seen := map[int]bool{}
	for i := range 800 {
		source := netip.AddrFrom4([4]byte{10, byte(10 + r.IntN(200)), byte(r.IntN(256)), byte(r.IntN(256))})
		to, family := "203.0.113.5:53", i%2
		if family == 1 {
			bytes := netip.MustParseAddr("2001:db8::").As16()
			for at := 4; at < 16; at++ {
				bytes[at] = byte(r.IntN(256))
			}
			source, to = netip.AddrFrom16(bytes), "[2001:db8:77::5]:53"
		}
		why, res := w.natOffer(t, natHostOf("dave"), natFrame(dave, gatewayMAC, fmt.Sprintf("udp %s > %s 30", netip.AddrPortFrom(source, 4100), to)))
		bucket := nat.Bucket(source)
		seen[bucket] = true
		if at, _ := w.natArrived(t, res); why != "" || at != []string{"bob", "ben"}[remotes[family][bucket]] {
			t.Errorf("%s, of bucket %d: %s at %q, its gateway is remote %d", source, bucket, why, at, remotes[family][bucket])
		}
	}
	if len(seen) < 200 {
		t.Errorf("sources of %d buckets only", len(seen))
	}
}
