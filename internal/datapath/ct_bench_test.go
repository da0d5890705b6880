package datapath

import (
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/test/pkttest"
)

var benchConnections = flag.Int("connections", 0, "connections of BenchmarkConnections, 0: 1000000, or 2000 when it runs once")

// connectionBench is a world with so many connections.
type connectionBench struct {
	*bench
	out, in []byte // UDP of alice to bob, and back out of the tunnel
	inner   int    // offset of the inner frame of in
}

func newConnectionBench(b *testing.B, size uint32) *connectionBench {
	b.Helper()
	fw := openFirewall(true)
	fw.Sizes.Connections, fw.Sizes.HalfOpen = size, 4096
	fw.Timeouts.UDPReplied = time.Hour // filling takes longer than a dialogue of two packets lasts
	w := newBench(b, underIPv4, benchWorld(underIPv4), func(c *Config, tables *fib.Tables) {
		c.Firewall = &fw
		for i := range tables.Ports { // one port has all
			tables.Ports[i].Limits.Connections = size
		}
	})
	w.enforce(b, fw)
	frame := pkttest.Frame(bob, alice, "udp 10.0.0.2:53 > 10.0.0.1:53 18")
	return &connectionBench{
		bench: w, out: pkttest.Frame(alice, bob, "udp 10.0.0.1:53 > 10.0.0.2:53 18"),
		in: w.fromRemote(frame), inner: w.outer(w.family.remotes[0]).Len(),
	}
}

// nth makes the packets those of a connection: bob's address is its number.
func (c *connectionBench) nth(i int) {
	address := 0x14000000 | uint32(i)
	binary.BigEndian.PutUint32(c.out[etherLen+16:], address)
	binary.BigEndian.PutUint32(c.in[c.inner+etherLen+12:], address)
}

// fill opens connections by a packet and an answer each. It must be called in the namespace.
func (c *connectionBench) fill(b *testing.B, n int) {
	b.Helper()
	for i := range n {
		c.nth(i)
		c.mustPass(b, "p0", c.out)
		c.mustPass(b, "u0", c.in)
	}
}

func (c *connectionBench) mustPass(b *testing.B, from string, frame []byte) {
	if v := c.mustRun(b, c.program(from), from, frame); v != forwarded {
		b.Fatalf("from %s: %v", from, v)
	}
}

// block is packets of connections that are there, of so many.
func (c *connectionBench) block(b *testing.B, m *meter, of int) {
	m.block(b, blockPackets, func() {
		c.nth(rand.IntN(of))
		c.mustPass(b, "p0", c.out)
	})
}

// count is how many connections have been answered.
func (c *connectionBench) count(b *testing.B) (n int) {
	b.Helper()
	must(b, walk(c.dp.Firewall.maps.CtEstablished, func(bpfCtKey, bpfCtEntry) { n++ }))
	return n
}

// busyConnections is how many connections have packets all the time.
const busyConnections = 64

// BenchmarkConnections: a packet of one of a few busy connections, in a world with those
// alone and in one with a million more, measured in turn. "established" is with the flow
// cache, as packets of open connections go. "looked up" is without it, so that each takes
// the whole slow path and looks for its connection; there also a packet of any of the
// million, of which nothing is in the processor's caches: what memory costs, which is as
// slow as it gets. And the memory that a connection takes.
func BenchmarkConnections(b *testing.B) {
	many := *benchConnections
	if many == 0 {
		if many = 1_000_000; benchTime() == "1x" {
			many = 2000
		}
	}
	full, few := newConnectionBench(b, uint32(many)), newConnectionBench(b, uint32(many))
	empty := full.dp.Firewall.maps.CtEstablished.Memlock()
	full.do(b, func() { full.fill(b, many) })
	few.do(b, func() { few.fill(b, busyConnections) })
	for c, want := range map[*connectionBench]int{full: many, few: busyConnections} {
		if n := c.count(b); n != want {
			b.Fatalf("%d connections, want %d", n, want)
		}
	}
	used := full.dp.Firewall.maps.CtEstablished.Memlock()
	b.Run("established", func(b *testing.B) {
		ns := inTurn(b, []*connectionBench{few, full}, []int{busyConnections, busyConnections})
		b.ReportMetric(ns[0]/ns[1], "speed-ratio")
		b.ReportMetric(float64(used)/float64(many), "B/connection")
		b.ReportMetric(float64(used-empty)/float64(many), "B/entry")
	})
	for _, c := range []*connectionBench{few, full} {
		c.reload(b, map[string]any{bpfVarFlowCache: false})
	}
	b.Run("looked up", func(b *testing.B) {
		ns := inTurn(b, []*connectionBench{few, full, full}, []int{busyConnections, busyConnections, many})
		b.ReportMetric(ns[0]/ns[1], "speed-ratio")
		b.ReportMetric(ns[2], "ns/packet-any")
	})
}

// inTurn measures blocks of packets in several worlds, of so many connections each, and
// returns ns per packet. The first two are reported.
func inTurn(b *testing.B, worlds []*connectionBench, of []int) []float64 {
	b.Helper()
	meters, ns := make([]meter, len(worlds)), make([]float64, len(worlds))
	for i, c := range worlds {
		meters[i].prog = c.program("p0")
	}
	for b.Loop() {
		for i, c := range worlds {
			c.do(b, func() { c.block(b, &meters[i], of[i]) })
		}
	}
	for i, c := range worlds {
		ns[i] = meters[i].median() - c.empty
	}
	b.ReportMetric(0, "ns/op") // of the block, system calls included: nobody's question
	b.ReportMetric(ns[0], "ns/packet-alone")
	b.ReportMetric(ns[1], "ns/packet-among")
	return ns
}

// benchTime is the flag's text.
func benchTime() string { return flag.Lookup("test.benchtime").Value.String() }
