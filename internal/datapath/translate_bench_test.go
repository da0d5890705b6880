package datapath

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// translateBench is a routed world in which dave, at p2, talks to the outside.
type translateBench struct {
	*bench
	name string
	next uint32 // the peer of the next connection
}

// newTranslateBench has the policy web translate dave, or the router alone lead him out.
func newTranslateBench(b *testing.B, translated bool) *translateBench {
	b.Helper()
	to := ways()[0]
	w := newBench(b, to.family, func(c *Config, tables *fib.Tables) {
		routed(to, tables)
		if translated {
			c.Egress = &overlay.Egress{NATSessions: 1 << 20, Timeouts: overlay.DefaultNATTimeouts}
			natTables(to, tables)
		}
	})
	up := w.port("s0", "up")
	up.Uplink = true
	w.tables.Ports = append(w.tables.Ports, up)
	w.apply(b)
	name := "routed"
	if translated {
		name = "translated"
	}
	return &translateBench{bench: w, name: name}
}

// inTurns measures blocks of packets in both worlds, and reports ns per packet of each.
func inTurns(b *testing.B, worlds []*translateBench, packet func(*translateBench)) {
	b.Helper()
	meters := make([]meter, len(worlds))
	for i, w := range worlds {
		meters[i].prog = w.program("p2")
	}
	for b.Loop() {
		for i, w := range worlds {
			w.do(b, func() { meters[i].block(b, blockPackets, func() { packet(w) }) })
		}
	}
	b.ReportMetric(0, "ns/op") // of the block, system calls included: nobody's question
	ns := make([]float64, len(worlds))
	for i, w := range worlds {
		ns[i] = meters[i].median() - w.empty
		b.ReportMetric(ns[i], "ns/packet-"+w.name)
	}
	b.ReportMetric(ns[0]/ns[1], "speed-ratio")
}

// BenchmarkTranslate: a packet that leaves by the uplink, of a connection in the flow cache
// and of a new one, translated and as it is.
func BenchmarkTranslate(b *testing.B) {
	worlds := []*translateBench{newTranslateBench(b, false), newTranslateBench(b, true)}
	data := pkttest.Frame(dave, gatewayMAC, "tcp 10.0.2.13:5000 > 203.0.113.5:80 ack seq 2 acks 101 600")
	for i, answered := range []string{"10.0.2.13", webFirst4} {
		w := worlds[i]
		w.do(b, func() {
			w.mustPass(b, "p2", pkttest.Frame(dave, gatewayMAC, "tcp 10.0.2.13:5000 > 203.0.113.5:80 syn seq 1"))
			w.mustPass(b, "s0", pkttest.Frame(ispMAC, uplinkMAC, "tcp 203.0.113.5:80 > "+answered+":5000 syn+ack seq 100 acks 2"))
			w.mustPass(b, "p2", data)
		})
	}
	b.Run("established", func(b *testing.B) {
		inTurns(b, worlds, func(w *translateBench) { w.mustPass(b, "p2", data) })
	})
	b.Run("new", func(b *testing.B) {
		frame := pkttest.Frame(dave, gatewayMAC, "udp 10.0.2.13:1000 > 203.0.113.5:53 30")
		inTurns(b, worlds, func(w *translateBench) {
			w.next++
			binary.BigEndian.PutUint32(frame[etherLen+16:], 0xcb007200+w.next%(1<<19))
			w.mustPass(b, "p2", frame)
		})
	})
}

func (w *translateBench) mustPass(b *testing.B, from string, frame []byte) {
	if v := w.mustRun(b, w.program(from), from, frame); v != forwarded {
		b.Fatalf("%s, from %s: %v", w.name, from, v)
	}
}

// crowdedNAT is a world with n sessions.
func crowdedNAT(b *testing.B, n int) *world {
	b.Helper()
	w := natWorld(b, ways()[0], cacheOff, func(c *Config, _ *fib.Tables) { c.Egress.NATSessions = uint32(n) })
	for i := 0; i < n; i += batch {
		w.putNATSessions(b, natRecords(i, min(n, i+batch))...)
	}
	return w
}

func natRecords(from, to int) []NATRecord {
	records := make([]NATRecord, 0, to-from)
	for i := from; i < to; i++ {
		records = append(records, natRecord("web", i))
	}
	return records
}

func BenchmarkNATSweep(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := crowdedNAT(b, n)
			found := 0
			for b.Loop() {
				c := w.natGCStats(b)
				found = c.Sessions
			}
			if found < n*9/10 {
				b.Fatalf("%d sessions", found)
			}
			b.ReportMetric(float64(w.dp.NATSessions.maps.NatSessions.Memlock()+w.dp.NATSessions.maps.NatReverse.Memlock())/float64(found), "B/session")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(found), "ns/session")
		})
	}
}

func BenchmarkPutNATSessions(b *testing.B) {
	w := natWorld(b, ways()[0], cacheOff, func(c *Config, _ *fib.Tables) { c.Egress.NATSessions = 1 << 20 })
	i := 0
	for b.Loop() {
		w.putNATSessions(b, natRecords(i, i+1000)...)
		i = (i + 1000) % 1_000_000
	}
	b.ReportMetric(1000/(float64(b.Elapsed().Nanoseconds())/float64(b.N))*1e9, "records/s")
}

func BenchmarkEachNATSession(b *testing.B) {
	const n = 100_000
	w := crowdedNAT(b, n)
	for b.Loop() {
		seen := 0
		must(b, w.dp.NATSessions.EachNATRecord(func(*NATRecord) bool { seen++; return true }))
		if seen != n {
			b.Fatalf("%d sessions", seen)
		}
	}
}

// BenchmarkSteerEgress: 16 policies with two addresses each move to another gateway.
func BenchmarkSteerEgress(b *testing.B) {
	var lists [2][]fib.Egress
	w := natWorld(b, ways()[0], cacheOff, func(_ *Config, tables *fib.Tables) {
		tables.Egress, tables.EgressRules = nil, nil
		for i := range 16 {
			pool := [2][]netip.Addr{manyAddrs(2 * (i + 1))[2*i:], nil}
			here := natEgressOf(fmt.Sprintf("policy-%d", i), "egress-web", pool)
			there := here
			bySource(&there)
			lists[0], lists[1] = append(lists[0], there), append(lists[1], here)
		}
		tables.Egress = lists[1]
	})
	b.ResetTimer()
	n := 0
	for b.Loop() {
		must(b, w.dp.Egress.SteerEgress(lists[n%2]))
		n++
	}
}
