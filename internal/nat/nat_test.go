package nat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/overlay"
)

var addr = netip.MustParseAddr

// What bpf/l3/route.h gives, computed by a C compiler.
func TestBucket(t *testing.T) {
	for text, want := range map[string]int{
		"10.0.0.1": 248, "10.0.0.2": 200, "192.0.2.200": 72, "::ffff:10.0.0.1": 248,
		"2001:db8::1": 32, "fd00:1:2:3:4:5:6:7": 215, "::": 0,
	} {
		if got := Bucket(addr(text)); got != want {
			t.Errorf("bucket of %s is %d, want %d", text, got, want)
		}
	}
}

// Neighbouring addresses are spread over the buckets.
func TestBucketsAreEven(t *testing.T) {
	for _, first := range []string{"10.0.0.0", "fd00::"} {
		var counts [Buckets]int
		a := addr(first)
		for range 64 * Buckets {
			counts[Bucket(a)]++
			a = a.Next()
		}
		if least, most := slices.Min(counts[:]), slices.Max(counts[:]); least < 24 || most > 110 {
			t.Errorf("from %s on, buckets have %d to %d addresses, 64 on average", first, least, most)
		}
	}
}

func TestExpand(t *testing.T) {
	pool := ranges("192.0.2.30", "192.0.2.10-192.0.2.12", "2001:db8::10", "192.0.2.11", "255.255.255.254-255.255.255.255")
	want := [2][]netip.Addr{
		{addr("192.0.2.10"), addr("192.0.2.11"), addr("192.0.2.12"), addr("192.0.2.30"), addr("255.255.255.254"), addr("255.255.255.255")},
		{addr("2001:db8::10")},
	}
	if d := cmp.Diff(want, Expand(pool), sameAddr); d != "" {
		t.Error(d)
	}
	for most, want := range map[int]int{8: 8, 7: 8, 3: 4} {
		if got := Count(pool, most); got != want {
			t.Errorf("counted %d up to %d, want %d", got, most, want)
		}
	}
	if got := Count(ranges("::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), MaxPool); got != MaxPool+1 {
		t.Errorf("counted %d in all of IPv6", got)
	}
}

func ranges(texts ...string) (list []overlay.AddrRange) {
	for _, text := range texts {
		from, to, several := strings.Cut(text, "-")
		if !several {
			to = from
		}
		list = append(list, overlay.AddrRange{First: addr(from), Last: addr(to)})
	}
	return list
}

var sameAddr = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

// world is a policy, its group, and what everybody knows of the gateways.
type world struct {
	policy overlay.EgressPolicy
	group  overlay.GatewayGroup
	states map[netip.Addr]State
	own    map[netip.Addr][2]netip.Addr // of uplinks
}

func gatewayAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{203, 0, 113, byte(i + 1)}) }

// newWorld has so many gateways, and addresses by family.
func newWorld(mode overlay.GatewayMode, gateways, v4, v6 int) world {
	w := world{group: overlay.GatewayGroup{Name: "gws", Mode: mode}, states: map[netip.Addr]State{}}
	for i := range gateways {
		w.group.Members = append(w.group.Members, gatewayAddr(i))
	}
	for f, n := range []int{v4, v6} {
		if n > 0 {
			first := []netip.Addr{addr("192.0.2.10"), addr("2001:db8::10")}[f]
			last := first
			for range n - 1 {
				last = last.Next()
			}
			w.policy.Pool = append(w.policy.Pool, overlay.AddrRange{First: first, Last: last})
		}
	}
	return w
}

func (w world) state(a netip.Addr) State { return w.states[a] }

func (w world) plan(self netip.Addr) Plan {
	return NewPlan(w.policy, w.group, self, w.own[self], w.state)
}

// random worlds, with states.
func randomWorld(r *rand.Rand) world {
	mode := []overlay.GatewayMode{overlay.ActiveActive, overlay.ActiveStandby}[r.IntN(2)]
	w := newWorld(mode, 1+r.IntN(5), r.IntN(20), r.IntN(5))
	r.Shuffle(len(w.group.Members), func(i, j int) {
		w.group.Members[i], w.group.Members[j] = w.group.Members[j], w.group.Members[i]
	})
	for _, m := range w.group.Members {
		w.states[m] = State(r.IntN(3))
	}
	return w
}

const outsider = "198.51.100.99" // an edge that is no gateway

// All edges agree: a bucket goes to one gateway by the view of each, that gateway says
// "here" and has an address to give, and each address has one owner.
func TestEdgesAgree(t *testing.T) {
	for seed := range uint64(500) {
		w := randomWorld(rand.New(rand.NewPCG(seed, 1)))
		source := w.plan(addr(outsider))
		if len(source.Owned)+len(source.Pool[0])+len(source.Pool[1]) != 0 {
			t.Fatalf("seed %d: an edge that is no gateway has %v and %v", seed, source.Owned, source.Pool)
		}
		owners := map[netip.Addr]netip.Addr{}
		pools := map[netip.Addr]netip.Addr{}
		for _, m := range w.group.Members {
			p := w.plan(m)
			if d := cmp.Diff(source.Addresses, p.Addresses, sameAddr); d != "" {
				t.Fatalf("seed %d: %s sees other owners:\n%s", seed, m, d)
			}
			for _, a := range p.Owned {
				if was, twice := owners[a]; twice {
					t.Fatalf("seed %d: %s is owned by %s and %s", seed, a, was, m)
				}
				owners[a] = m
			}
			for f := range p.Pool {
				for _, a := range p.Pool[f] {
					if was, twice := pools[a]; twice {
						t.Fatalf("seed %d: %s is given by %s and %s", seed, a, was, m)
					}
					pools[a] = m
				}
				w.checkServers(t, seed, source.Servers[f], p, f, m)
			}
		}
		for _, a := range source.Addresses {
			if owners[a.Addr] != a.Owner || pools[a.Addr] != a.Server {
				t.Fatalf("seed %d: %+v is owned by %s and given by %s", seed, a, owners[a.Addr], pools[a.Addr])
			}
		}
	}
}

// checkServers compares the ways that a source edge sees with those of gateway m.
func (w world) checkServers(t *testing.T, seed uint64, source [Buckets]Server, p Plan, f int, m netip.Addr) {
	t.Helper()
	for b, server := range source {
		here := server.Remote == m
		if p.Servers[f][b].Here != here || !here && p.Servers[f][b].Remote != server.Remote {
			t.Fatalf("seed %d: bucket %d goes to %v, and %s says %+v", seed, b, server.Remote, m, p.Servers[f][b])
		}
		if here && len(p.Pool[f]) == 0 {
			t.Fatalf("seed %d: bucket %d goes to %s, which has no address", seed, b, m)
		}
		if here && w.states[m] == Gone {
			t.Fatalf("seed %d: bucket %d goes to %s, which is gone", seed, b, m)
		}
		if first := int(p.Servers[f][b].First); first != 0 && first >= len(p.Pool[f]) {
			t.Fatalf("seed %d: bucket %d begins with address %d of %d", seed, b, first, len(p.Pool[f]))
		}
	}
}

// Somebody serves each bucket as long as the family has addresses and a gateway is left;
// a draining one does only where nobody else can.
func TestServedWhileAnyIsLeft(t *testing.T) {
	for seed := range uint64(500) {
		w := randomWorld(rand.New(rand.NewPCG(seed, 2)))
		left := map[State]bool{}
		for _, m := range w.group.Members {
			left[w.states[m]] = true
		}
		p := w.plan(addr(outsider))
		for f, addrs := range Expand(w.policy.Pool) {
			want := len(addrs) > 0 && (left[Serving] || left[Draining])
			for b, server := range p.Servers[f] {
				if server.Remote.IsValid() != want || server.Here {
					t.Fatalf("seed %d: bucket %d goes to %+v with %v", seed, b, server, w.states)
				}
				if want && w.states[server.Remote] == Draining && w.serverOf(p, f, Serving) {
					t.Fatalf("seed %d: bucket %d goes to %s, which drains", seed, b, server.Remote)
				}
			}
		}
	}
}

// serverOf reports whether a gateway of that state owns an address of the family.
func (w world) serverOf(p Plan, f int, s State) bool {
	return slices.ContainsFunc(p.Addresses, func(a Address) bool {
		return Family(a.Addr) == f && a.Owner.IsValid() && w.states[a.Owner] == s
	})
}

// A gateway that goes away or comes back moves its own addresses and buckets, and no others.
func TestLittleMoves(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 3))
		w := randomWorld(r)
		w.group.Mode = overlay.ActiveActive
		for _, m := range w.group.Members {
			w.states[m] = []State{Serving, Gone}[r.IntN(2)]
		}
		one := w.group.Members[r.IntN(len(w.group.Members))]
		w.states[one] = Serving
		with, before := w.plan(addr(outsider)), w.given()
		w.states[one] = Gone
		without, after := w.plan(addr(outsider)), w.given()
		for i, a := range with.Addresses {
			if a.Owner != one && without.Addresses[i] != a {
				t.Fatalf("seed %d: %+v became %+v when %s went", seed, a, without.Addresses[i], one)
			}
			if without.Addresses[i].Owner == one {
				t.Fatalf("seed %d: %s is still owned by %s", seed, a.Addr, one)
			}
		}
		for f := range with.Servers {
			for b, server := range with.Servers[f] {
				if server.Remote != one && before[f][b] != after[f][b] {
					t.Fatalf("seed %d: sources of bucket %d had %s and have %s when %s went", seed, b, before[f][b], after[f][b], one)
				}
				if server.Remote != one && without.Servers[f][b] != server {
					t.Fatalf("seed %d: bucket %d went from %s to %s when %s went", seed, b, server.Remote, without.Servers[f][b].Remote, one)
				}
			}
		}
	}
}

// given is the first address that each bucket's sources get, by family.
func (w world) given() (addrs [2][Buckets]netip.Addr) {
	for _, m := range w.group.Members {
		p := w.plan(m)
		for f := range p.Servers {
			for b, server := range p.Servers[f] {
				if server.Here {
					addrs[f][b] = p.Pool[f][server.First]
				}
			}
		}
	}
	return addrs
}

// Sources are spread over all addresses of the pool, and keep theirs when its gateway goes
// away: that comes along to the next one.
func TestAddressesAreSticky(t *testing.T) {
	w := newWorld(overlay.ActiveActive, 3, 4, 1)
	before := w.given()
	counts := map[netip.Addr]int{}
	for _, a := range before[0] {
		counts[a]++
	}
	for _, a := range Expand(w.policy.Pool)[0] {
		if counts[a] < 40 || counts[a] > 90 {
			t.Errorf("%s is the first one of %d buckets, 64 on average", a, counts[a])
		}
	}
	w.states[gatewayAddr(0)] = Gone
	if after := w.given(); before != after {
		t.Errorf("sources have other addresses, when only a gateway went")
	}
}

// In an active-active group nobody has two addresses more than another, and the buckets
// follow the addresses.
func TestEvenShares(t *testing.T) {
	for gateways := 1; gateways <= 6; gateways++ {
		for _, n := range []int{1, 2, 3, 7, 16, 100} {
			w := newWorld(overlay.ActiveActive, gateways, n, n)
			p := w.plan(addr(outsider))
			for f := range p.Servers {
				has, serves := map[netip.Addr]int{}, map[netip.Addr]int{}
				for _, a := range p.Addresses {
					if Family(a.Addr) == f {
						has[a.Owner]++
					}
				}
				for _, server := range p.Servers[f] {
					serves[server.Remote]++
				}
				for _, m := range w.group.Members {
					if has[m] < n/gateways || has[m] > (n+gateways-1)/gateways {
						t.Errorf("%d gateways, %d addresses: %s has %d", gateways, n, m, has[m])
					}
					share := float64(has[m]) / float64(n)
					if d := math.Abs(float64(serves[m]) - share*Buckets); d > 4*math.Sqrt(Buckets*share*(1-share)) {
						t.Errorf("%d gateways, %d addresses: %s has %d of them and %d buckets", gateways, n, m, has[m], serves[m])
					}
				}
			}
		}
	}
}

// The first one that serves has all, in the group's order. Who drains gives up at once, but
// not where nobody else is left.
func TestActiveStandby(t *testing.T) {
	const s, d, g = Serving, Draining, Gone
	for _, c := range []struct {
		states []State
		all    int // index of the one that has all, -1 for nobody
	}{
		{[]State{s, s, s}, 0}, {[]State{g, s, s}, 1}, {[]State{d, s, s}, 1}, {[]State{g, d, s}, 2},
		{[]State{g, d, g}, 1}, {[]State{d, d, g}, 0}, {[]State{g, g, g}, -1},
	} {
		w := newWorld(overlay.ActiveStandby, 3, 4, 0)
		var want netip.Addr
		for i, state := range c.states {
			w.states[gatewayAddr(i)] = state
			if i == c.all {
				want = gatewayAddr(i)
			}
		}
		p := w.plan(addr(outsider))
		for _, a := range p.Addresses {
			if a.Owner != want || a.Server != want {
				t.Errorf("%v: %+v, want %s", c.states, a, want)
			}
		}
		if drains := c.all >= 0 && c.states[c.all] == Draining; (len(p.Kept) > 0) != drains {
			t.Errorf("%v: flows stay with %v", c.states, p.Kept)
		}
		for b, server := range p.Servers[0] {
			if server.Remote != want || p.Servers[1][b] != (Server{}) {
				t.Errorf("%v: bucket %d goes to %s and %s, want %s and nobody", c.states, b, server.Remote, p.Servers[1][b].Remote, want)
			}
		}
	}
}

// In an active-active group who drains keeps its addresses, for the replies, and new
// connections have those of others.
func TestActiveActiveDrain(t *testing.T) {
	w := newWorld(overlay.ActiveActive, 3, 9, 3)
	before := w.plan(addr(outsider))
	one := gatewayAddr(1)
	w.states[one] = Draining
	after, own := w.plan(addr(outsider)), w.plan(one)
	for i, a := range after.Addresses {
		if a.Owner != before.Addresses[i].Owner || a.Server.IsValid() != (a.Owner != one) {
			t.Errorf("%+v, was %+v", a, before.Addresses[i])
		}
	}
	if !slices.Equal(after.Kept, []netip.Addr{one}) || len(own.Kept) != 0 {
		t.Errorf("flows stay with %v, and as the draining one sees it with %v", after.Kept, own.Kept)
	}
	if len(own.Owned) != 4 || len(own.Pool[0])+len(own.Pool[1]) != 0 {
		t.Errorf("the draining one answers for %v and gives %v", own.Owned, own.Pool)
	}
	for f := range after.Servers {
		for b, server := range after.Servers[f] {
			if was := before.Servers[f][b].Remote; server.Remote == one || was != one && server.Remote != was {
				t.Errorf("bucket %d went from %s to %s", b, was, server.Remote)
			}
		}
	}
}

func BenchmarkNewPlan(b *testing.B) {
	for _, n := range []int{16, MaxPool} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newWorld(overlay.ActiveActive, 4, n, 0)
			for b.Loop() {
				w.plan(gatewayAddr(0))
			}
		})
	}
}
