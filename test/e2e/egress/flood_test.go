package egress

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/tier"
)

// floodLength is how long the flood lasts: 5 s, 30 in make test-long, or what SELVAGE_FLOOD
// says ("10m").
func floodLength(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("SELVAGE_FLOOD")
	switch {
	case text == "" && tier.IsLong():
		return 30 * time.Second
	case text == "":
		return 5 * time.Second
	}
	length, err := time.ParseDuration(text)
	if err != nil || length < time.Second {
		t.Fatalf("SELVAGE_FLOOD=%s: want a duration of at least 1s, as 10m", text)
	}
	return length
}

// flood is frames of all kinds from a guest, as fast as a rate.
type flood struct {
	sent  atomic.Uint64
	done  chan struct{}
	group sync.WaitGroup
	mu    sync.Mutex
	fault error
}

// floodRate is of each guest, in frames a second: with all that is on two cores, the edges
// still have time for BFD.
const floodRate = 5000

func startFlood(n *harness.EgressNet, seed uint64, guests ...harness.Guest) *flood {
	n.T.Helper()
	f := &flood{done: make(chan struct{})}
	for i, g := range guests {
		out, err := harness.OpenFrames(g.Host, topo.EndName, false)
		n.Must(err)
		n.T.Cleanup(out.Close)
		frames := floodFrames(rand.New(rand.NewPCG(seed, uint64(i))), g)
		f.group.Go(func() { f.send(out, frames) })
	}
	n.T.Cleanup(func() { _ = f.stop() })
	return f
}

// goesOn waits for so many more frames: the guests send floodRate of them a second, each.
func (f *flood) goesOn(n *harness.Network, frames uint64) {
	n.T.Helper()
	want := f.sent.Load() + frames
	patiently(n, "the flood goes on", time.Minute, func() error {
		if sent := f.sent.Load(); sent < want {
			return fmt.Errorf("%d frames are sent, want %d", sent, want)
		}
		return nil
	})
}

func (f *flood) stop() error {
	select {
	case <-f.done:
	default:
		close(f.done)
	}
	f.group.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fault
}

func (f *flood) send(out *harness.Frames, list [][]byte) {
	const tick = 5 * time.Millisecond
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for next := 0; ; {
		select {
		case <-f.done:
			return
		case <-ticker.C:
		}
		for range int(floodRate * tick / time.Second) {
			if err := out.Send(list[next%len(list)]); err != nil {
				f.mu.Lock()
				f.fault = err
				f.mu.Unlock()
				return
			}
			next++
			f.sent.Add(1)
		}
	}
}

// floodFrames are frames of all kinds, more than there are ports and, with sources that are
// the guest's, others of its network and strangers'.
func floodFrames(r *rand.Rand, g harness.Guest) (list [][]byte) {
	to := map[int][]string{4: {"203.0.113.1", "203.0.113.9", "192.168.9.2"}, 6: {"2001:db8:cafe::1", "2001:db8:cafe::9", "2001:db8:fa::2"}}
	for range 20000 {
		family := 4 + 2*r.IntN(2)
		src, dst := floodSource(r, g, family), to[family][r.IntN(3)]
		list = append(list, damaged(r, pkttest.Frame(g.Ether().String(), harness.GatewayMAC, floodWords(r, src, dst))))
	}
	return list
}

// floodSource is an address that a packet claims to come from.
func floodSource(r *rand.Rand, g harness.Guest, family int) string {
	switch r.IntN(10) {
	case 0: // a stranger
		return map[int][]string{4: {"172.16.0.9", "8.8.8.8", "198.51.100.1"}, 6: {"2001:db8:9::9", "fd77::7", "2001:db8:51::1"}}[family][r.IntN(3)]
	case 1, 2: // another of the network
		return harness.SubnetAddr(0, 10+r.IntN(200), family).String()
	}
	return g.Addr(family).String()
}

func floodWords(r *rand.Rand, src, dst string) string {
	at := func(addr string, port int) string {
		return netip.AddrPortFrom(netip.MustParseAddr(addr), uint16(port)).String()
	}
	from, where := 1024+r.IntN(64000), []int{53, 80, 443}[r.IntN(3)]
	four := netip.MustParseAddr(src).Is4()
	switch kind := r.IntN(12); {
	case kind < 4:
		return fmt.Sprintf("udp %s > %s %d", at(src, from), at(dst, where), r.IntN(1000))
	case kind < 8:
		return fmt.Sprintf("tcp %s > %s %s", at(src, from), at(dst, where), []string{"syn", "ack 100", "fin+ack", "rst", "syn+ack"}[r.IntN(5)])
	case kind == 8 && four:
		return fmt.Sprintf("fragment %s > %s %d %d", src, dst, 8*r.IntN(3), 8*(1+r.IntN(100)))
	case kind == 9:
		return fmt.Sprintf("ip %s > %s %d 40", src, dst, []int{132, 47, 50, 51, 4, 253}[r.IntN(6)])
	case kind == 10 && four:
		return fmt.Sprintf("icmp %s > %s %d/%d 56", src, dst, r.IntN(20), r.IntN(4))
	}
	return fmt.Sprintf("icmp %s > %s 100", src, dst)
}

// damaged cuts some frames short, and turns a byte of others around.
func damaged(r *rand.Rand, frame []byte) []byte {
	switch r.IntN(10) {
	case 0:
		return frame[:14+r.IntN(len(frame)-14)]
	case 1:
		frame[14+r.IntN(min(60, len(frame)-14))] ^= byte(1 << r.IntN(8))
		if frame[14]>>4 != 4 && frame[14]>>4 != 6 {
			frame[14] = frame[14]&0xf | 0x40
		}
	}
	return frame
}

// incidents are what happens to edges in a flood. Each leaves things as they were.
var incidents = map[string]func(*harness.EgressNet, *flood, int){
	"links down": func(n *harness.EgressNet, f *flood, number int) { injected(n, f, faults[0], number) },
	"black hole": func(n *harness.EgressNet, f *flood, number int) { injected(n, f, faults[1], number) },
	"killed": func(n *harness.EgressNet, f *flood, number int) {
		host := n.Hosts[number-1]
		text, name := n.Config(host.Name), n.Edges[host.Name].Name
		n.Edges[host.Name].Kill()
		f.goesOn(n.Hub.Network, 2*floodRate)
		n.Start(host, name, text)
	},
	"sources killed": func(n *harness.EgressNet, _ *flood, _ int) {
		text, name := n.Config("edge1"), n.Edges["edge1"].Name
		n.Edges["edge1"].Kill()
		n.Start(n.Hosts[0], name, text)
	},
	"restarted": func(n *harness.EgressNet, _ *flood, number int) {
		host := n.Hosts[number-1]
		text, name := n.Config(host.Name), n.Edges[host.Name].Name
		n.Must(n.Edges[host.Name].Stop(n.Ctx))
		n.Start(host, name, text)
	},
	"policy away and back": func(n *harness.EgressNet, f *flood, number int) {
		for _, policies := range [][]string{{}, n.O.Policies} {
			was := n.O.Policies
			n.O.Policies = policies
			n.Must(n.Reload(n.Hosts[number-1].Name, n.Text(number)))
			f.goesOn(n.Hub.Network, floodRate)
			n.O.Policies = was
		}
	},
	"drained": func(n *harness.EgressNet, f *flood, number int) {
		drains(n, number, "drain", "--timeout", "0s")
		f.goesOn(n.Hub.Network, floodRate)
		drains(n, number, "undrain")
	},
}

func injected(n *harness.EgressNet, f *flood, what fault, number int) {
	mend := what.strike(n, number)
	f.goesOn(n.Hub.Network, 2*floodRate)
	mend()
}

// Guests send whatever they can, more than ports are for, while gateways die, restart and
// change: nothing leaves untranslated. A longer flood is SELVAGE_FLOOD=10m.
func TestEgressFlood(t *testing.T) {
	t.Parallel()
	length := floodLength(t)
	n := harness.NewEgressNet(t, harness.EgressOptions{Fails: true, Replication: true, Mode: "active-active", Policies: []string{"name: web, vni: 9001, ports: 2000-2063"}})
	defer n.DumpOnFailure()
	n.Up()
	n.Serving(2, 3)
	n.Mirror(n.Out)
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	f := startFlood(n, seed, n.Red1, n.Red2)
	began, count := time.Now(), map[string]int{}
	for time.Since(began) < length {
		var names []string
		for name := range incidents {
			names = append(names, name)
		}
		slices.Sort(names)
		name, number := names[r.IntN(len(names))], 2+r.IntN(2)
		incidents[name](n, f, number)
		count[name]++
		n.Untranslated.None(n.Network)
		f.goesOn(n.Hub.Network, uint64(2*floodRate*min(max(time.Second, length/40), 10*time.Second).Seconds()))
	}
	n.Once("the flood went on", f.stop)
	t.Logf("%d frames in %s, incidents %v", f.sent.Load(), time.Since(began).Round(time.Second), count)
	n.Once("ports ran out", func() error {
		var exhausted uint64
		for _, host := range []string{"edge2", "edge3"} {
			drops, err := n.Drops(host)
			if err != nil {
				return err
			}
			exhausted += drops["nat-exhausted"]
		}
		if exhausted == 0 {
			return errors.New("they did not: the flood shows nothing")
		}
		t.Logf("%d packets were dropped for want of a port", exhausted)
		return nil
	})
	patiently(n.Hub.Network, "the guests are served when it is over", 2*time.Minute, func() error {
		for _, family := range []int{4, 6} {
			if _, err := harness.Mirrored(n.Red1.Host, "tcp", 0, netip.AddrPortFrom(harness.OutsideAddr(family), harness.MirrorPort)); err != nil {
				return err
			}
		}
		return nil
	})
	n.Untranslated.None(n.Network)
}

// patiently is a fact that takes its time: a path that failed often is tried rarely.
func patiently(n *harness.Network, what string, most time.Duration, try func() error) {
	n.T.Helper()
	if err := await.Within(n.Ctx, most, what, try); err != nil {
		n.Fail(what, err)
	}
}
