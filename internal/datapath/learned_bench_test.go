package datapath

import (
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// learnedBench is a world with room for many hosts, of which BGP tells.
func learnedBench(b *testing.B) *world {
	return ownWorld(b, underIPv4, func(_ *Config, tables *fib.Tables) { routed(ways()[0], tables) }, byBGP,
		func(c *Config, _ *fib.Tables) { c.FDB.Size = 1 << 17 })
}

const manyHosts = 100_000

// BenchmarkPutBGPMACs: 100,000 hosts and their addresses come, in parts of 512, and move.
func BenchmarkPutBGPMACs(b *testing.B) {
	w := learnedBench(b)
	bgpMACs, arpEntries := make([]rib.BGPMAC, manyHosts), make([]rib.ARPEntry, manyHosts)
	for i := range manyHosts {
		mac := overlay.MAC{2, 0, 1, byte(i >> 16), byte(i >> 8), byte(i)}
		bgpMACs[i] = rib.BGPMAC{Segment: "blue", MAC: mac}
		arpEntries[i] = rib.ARPEntry{Segment: "blue", MAC: mac, Addr: netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})}
	}
	const part = 512
	n := 0
	for b.Loop() {
		for i := range bgpMACs {
			bgpMACs[i].Remote = w.family.remotes[n%2]
		}
		for at := 0; at < manyHosts; at += part {
			end := min(at+part, manyHosts)
			must(b, w.dp.Hosts.PutBGPMACs(bgpMACs[at:end]))
			must(b, w.dp.Hosts.PutARPEntries(arpEntries[at:end]))
		}
		n++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n)/manyHosts, "ns/host")
}

// BenchmarkPutRoutes: 10,000 routes by 100 routers come, and move.
func BenchmarkPutRoutes(b *testing.B) {
	const routes, routers, part = 10_000, 100, 512
	w := learnedBench(b)
	list := make([]fib.Route, routes)
	n := 0
	for b.Loop() {
		for i := range list {
			hop := fib.Hop{Segment: "main-l3", Remote: w.family.remotes[n%2], MAC: overlay.MAC{2, 0, 2, 0, byte(n % 2), byte(i % routers)}}
			list[i] = route("10.0.0.0/32", hop)
			list[i].Prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
		}
		for at := 0; at < routes; at += part {
			must(b, w.dp.Routes.PutRoutes([]fib.Router{{Name: "main", Routes: list[at:min(at+part, routes)]}}))
		}
		n++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n)/routes, "ns/route")
}
