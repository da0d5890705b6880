package host

import (
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
)

// ip runs ip(8) in namespace near, which the test's thread is in.
func (b *bench) ip(args string) {
	b.t.Helper()
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		b.t.Fatalf("ip %s: %s", args, out)
	}
}

// twoLinks gives namespace near a second link and a TEP on lo.
func (b *bench) twoLinks() {
	b.t.Helper()
	for _, args := range []string{
		"addr add 203.0.113.1/32 dev lo", "addr add 2001:db8:f::1/128 dev lo",
		"link set v0 up mtu 1400", "link set v1 up",
		"addr add 198.51.100.1/24 dev v0", "addr add 2001:db8:2::1/64 dev v0 nodad",
	} {
		b.ip(args)
	}
}

// All next hops of a multipath route are paths, whether it names them or a group of next-hop
// objects, by either family, and where a rule by the source address leads to it.
func TestObserveMultipath(t *testing.T) {
	for name, c := range map[string]struct {
		tep, remote string
		hops        [2]string
		setup       []string
	}{
		"IPv4": {"203.0.113.1", "10.9.0.1", [2]string{"192.0.2.2", "198.51.100.2"}, []string{
			"route add 10.9.0.1 nexthop via 192.0.2.2 dev us weight 3 nexthop via 198.51.100.2 dev v0",
		}},
		"IPv4 group": {"203.0.113.1", "10.9.0.1", [2]string{"192.0.2.2", "198.51.100.2"}, []string{
			"nexthop add id 1 via 192.0.2.2 dev us", "nexthop add id 2 via 198.51.100.2 dev v0",
			"nexthop add id 3 group 1,3/2", "route add 10.9.0.1 nhid 3",
		}},
		"IPv4 by rule": {"203.0.113.1", "10.9.0.1", [2]string{"192.0.2.2", "198.51.100.2"}, []string{
			"route add 10.9.0.1 via 192.0.2.3 dev us", "rule add from 203.0.113.1 lookup 100",
			"route add 10.9.0.1 table 100 nexthop via 192.0.2.2 dev us weight 3 nexthop via 198.51.100.2 dev v0",
		}},
		"IPv4 by IPv6": {"203.0.113.1", "10.9.0.1", [2]string{"fe80::2", "fe80::2"}, []string{
			"route add 10.9.0.1 nexthop via inet6 fe80::2 dev us weight 3 nexthop via inet6 fe80::2 dev v0",
		}},
		"IPv6": {"2001:db8:f::1", "2001:db8:9::1", [2]string{"2001:db8::2", "2001:db8:2::2"}, []string{
			"-6 route add 2001:db8:9::1 nexthop via 2001:db8::2 dev us weight 3 nexthop via 2001:db8:2::2 dev v0",
		}},
		"IPv6 group": {"2001:db8:f::1", "2001:db8:9::1", [2]string{"fe80::2", "fe80::2"}, []string{
			"-6 nexthop add id 1 via fe80::2 dev us", "-6 nexthop add id 2 via fe80::2 dev v0",
			"nexthop add id 3 group 1,3/2", "-6 route add 2001:db8:9::1 nhid 3",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.twoLinks()
			for _, args := range c.setup {
				b.ip(args)
			}
			h := b.open()
			defer h.Close()
			tep, remote := netip.MustParseAddr(c.tep), netip.MustParseAddr(c.remote)
			v := b.state(h, tep, remote)
			if !v.TEPs[tep] {
				t.Errorf("the address of lo is not found on this host")
			}
			pair := overlay.Pair{Local: tep, Remote: remote}
			want := []overlay.Via{
				{Addr: netip.MustParseAddr(c.hops[0]), Interface: "us"}, {Addr: netip.MustParseAddr(c.hops[1]), Interface: "v0"},
			}
			if got := v.Vias[pair]; !slices.Equal(got, want) || len(v.Routes) != 2 {
				t.Fatalf("next hops %v, routes %v, want %v", got, v.Routes, want)
			}
			for i, p := range v.PathsOf(pair) {
				path := v.Routes[p]
				mtu, weight := []int{1600, 1400}[i], []int{3, 1}[i]
				if path.Interface != want[i].Interface || path.Addr != want[i].Addr || path.MTU != mtu || path.Weight != weight || path.SrcMAC == (overlay.MAC{}) {
					t.Errorf("path %s is %+v, want MTU %d, weight %d", p, path, mtu, weight)
				}
			}
		})
	}
}
