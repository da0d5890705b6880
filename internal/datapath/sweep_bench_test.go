package datapath

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/overlay"
)

// manyRules allow each a network to a port.
func manyRules(n, seed int) overlay.Firewall {
	fw := wall()
	for i := range n {
		r := allow(fmt.Sprintf("rule-%d", i), uint16(1+(i+seed)%60000))
		r.From = []overlay.Member{{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 12), byte(i >> 4), byte(i << 4)}), 28)}}
		fw.Rules = append(fw.Rules, r)
	}
	return fw
}

// From a changed model to the policy in force: what a reload takes beside reading the file.
func BenchmarkChangePolicy(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := walledWorld(b, manyRules(n, 0))
			seed := 0
			for b.Loop() {
				seed++
				w.change(b, manyRules(n, seed))
			}
		})
	}
}

// crowded is a world whose table has n connections of p0 that have been answered.
func crowded(b *testing.B, n uint32) *world {
	b.Helper()
	fw := anything()
	fw.Sizes.Connections = n
	w := walledWorld(b, fw)
	now, err := kernel.Host().Clock.Monotonic()
	if err != nil {
		b.Fatal(err)
	}
	entries := make(map[bpfCtKey]bpfCtEntry, batch)
	for i := range n {
		k := bpfCtKey{Zone: w.dp.numbers.names.portIDs["p0"], Proto: 6, InsidePort: 80, OutsidePort: uint16(i)}
		k.Inside.W = wireAddr(netip.MustParseAddr("10.0.0.1"))
		k.Outside.W = wireAddr(netip.AddrFrom4([4]byte{10, 1, byte(i >> 24), byte(i >> 16)}))
		entries[k] = bpfCtEntry{SeenNs: now, Born: bornAgo(now, 0), Bits: 2 | 4 | 8 | 16, Rule: w.dp.Firewall.inForce.Rules[0], Policy: w.dp.Firewall.inForce.Policy}
		if len(entries) == batch || i == n-1 {
			if err := putBatch(w.dp.Firewall.maps.CtEstablished, entries, 0); err != nil {
				b.Fatal(err)
			}
			clear(entries)
		}
	}
	return w
}

func BenchmarkSweep(b *testing.B) {
	for _, n := range []uint32{10_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := crowded(b, n)
			for b.Loop() {
				if c, err := w.dp.Firewall.Sweep(); err != nil || c.Connections != int(n) {
					b.Fatalf("%+v, %v", c, err)
				}
			}
			b.ReportMetric(float64(w.dp.Firewall.maps.CtEstablished.Memlock())/float64(n), "B/connection")
		})
	}
}

func BenchmarkEachSession(b *testing.B) {
	for _, n := range []uint32{10_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := crowded(b, n)
			for b.Loop() {
				seen := uint32(0)
				err := w.dp.Firewall.EachSession(func(*Session) bool { seen++; return true })
				if err != nil || seen != n {
					b.Fatalf("%d sessions, %v", seen, err)
				}
			}
		})
	}
}
