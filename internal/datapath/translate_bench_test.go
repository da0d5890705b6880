package datapath

import (
	"encoding/binary"
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

// BenchmarkTranslate: a packet that leaves by the uplink, of a connection in the flow cache and of a new one, translated and as it is.
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
