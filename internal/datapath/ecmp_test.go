package datapath

import (
	"fmt"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// manyHops are next hops in green with known MACs, all at p2.
func manyHops(n int) (hops []fib.Hop, known []overlay.Neighbour, static []overlay.StaticMAC) {
	for i := range n {
		a, mac := fmt.Sprintf("10.0.2.%d", 100+i), fmt.Sprintf("02:00:00:00:05:%02x", i)
		hops = append(hops, via("green", a))
		known = append(known, neighbours(a, mac)...)
		static = append(static, overlay.StaticMAC{MAC: macOf(mac), Port: "p2"})
	}
	return hops, known, static
}

// ecmpWorld has a route to 10.7.0.0/16 and 2001:db8:7::/48 by n next hops.
func ecmpWorld(t testing.TB, n int, change ...func(*Config, *fib.Tables)) *world {
	t.Helper()
	hops, known, static := manyHops(n)
	return routedWorld(t, ways()[0], append([]func(*Config, *fib.Tables){func(_ *Config, tables *fib.Tables) {
		green := &tables.Segments[1]
		green.Neighbours, green.Static = append(green.Neighbours, known...), append(green.Static, static...)
		list := &tables.Routers[0].Routes
		*list = append(*list, route("10.7.0.0/16", hops...), route("2001:db8:7::/48", hops...))
	}}, change...)...)
}

// hopOf is the last byte of the MAC address to which a packet goes.
func (w *world) hopOf(t testing.TB, words string) int {
	t.Helper()
	in := pkttest.Frame(alice, gatewayMAC, words)
	r := w.fromPort(t, "p0", in)
	r.want(t, in, forwarded)
	if r.verdict != forwarded || r.out[4] != 5 {
		t.Fatalf("%s went to %x", words, r.out[:6])
	}
	return int(r.out[5])
}

func tcpFlow(i int) string {
	return fmt.Sprintf("tcp 10.0.1.10:%d > 10.7.%d.%d:443", 10000+i, i%7, i%200)
}

// Flows spread over the next hops by all of the 5-tuple, evenly within what chance and 128 buckets allow.
func TestECMPDistribution(t *testing.T) {
	t.Parallel()
	const flows = 2000
	for _, n := range []int{1, 2, 3, 8, 13} {
		t.Run(fmt.Sprint(n, " hops"), func(t *testing.T) {
			w := ecmpWorld(t, n)
			for name, words := range map[string]func(i int) string{
				"TCP":          tcpFlow,
				"source ports": func(i int) string { return fmt.Sprintf("udp 10.0.1.10:%d > 10.7.1.1:53", 10000+i) },
				"addresses":    func(i int) string { return fmt.Sprintf("ip 10.0.1.10 > 10.7.%d.%d 132 20", i/250, i%250) },
				"fragments":    func(i int) string { return fmt.Sprintf("fragment 10.0.1.10 > 10.7.%d.%d 1480 64", i/250, i%250) },
				"IPv6":         func(i int) string { return fmt.Sprintf("tcp [2001:db8:1::a]:%d > [2001:db8:7::1]:443", 10000+i) },
				"IPv6 labels":  func(i int) string { return fmt.Sprintf("ip 2001:db8:1::a > 2001:db8:7::%x 132 20", i+1) },
			} {
				counts := make([]int, n)
				for i := range flows {
					counts[w.hopOf(t, words(i))]++
				}
				for hop, got := range counts {
					if share := float64(got) * float64(n) / flows; share < 0.7 || share > 1.3 {
						t.Errorf("%s: number %d has %.2f of its share: %v", name, hop, share, counts)
						break
					}
				}
			}
		})
	}
}

// All packets of a flow take the same next hop: cached, uncached, fragments of one packet.
func TestECMPKeepsAFlowTogether(t *testing.T) {
	for _, cache := range []bool{true, false} {
		w := ecmpWorld(t, 8, func(c *Config, _ *fib.Tables) { c.FlowCache.Enabled = cache })
		for i := range 100 {
			words := tcpFlow(i)
			first := w.hopOf(t, words)
			for _, more := range []string{" 100", " syn", " fin+ack 7"} {
				if hop := w.hopOf(t, words+more); hop != first {
					t.Fatalf("cache %t: %s%s goes to %d, its flow to %d", cache, words, more, hop, first)
				}
			}
			fragment := fmt.Sprintf("fragment 10.0.1.10 > 10.7.1.%d ", i)
			if a, b := w.hopOf(t, fragment+"0 64"), w.hopOf(t, fragment+"1480 64"); a != b {
				t.Errorf("fragments of one packet go to %d and %d", a, b)
			}
		}
	}
}

// When a next hop goes, only its flows move; when it comes back, few do.
func TestECMPIsResilient(t *testing.T) {
	const flows, n = 1000, 8
	hops, _, _ := manyHops(n)
	w := ecmpWorld(t, n)
	where := func() (list [flows]int) {
		for i := range list {
			list[i] = w.hopOf(t, tcpFlow(i))
		}
		return list
	}
	before := where()
	w.setRoute("main", route("10.7.0.0/16", slices.Delete(slices.Clone(hops), 3, 4)...))
	w.apply(t)
	after := where()
	for i := range before {
		if before[i] != 3 && after[i] != before[i] || after[i] == 3 {
			t.Fatalf("flow %d moved from %d to %d when 3 went", i, before[i], after[i])
		}
	}
	w.setRoute("main", route("10.7.0.0/16", hops...))
	w.apply(t)
	moved := 0
	again := where()
	for i := range again {
		if again[i] != after[i] {
			moved++
			if again[i] != 3 {
				t.Fatalf("flow %d moved from %d to %d when 3 came", i, after[i], again[i])
			}
		}
	}
	if share := float64(moved) * n / flows; share < 0.6 || share > 1.4 {
		t.Errorf("%d of %d flows moved to the next hop that came, %.2f of its share", moved, flows, share)
	}
}
