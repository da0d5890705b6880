package offload

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

const probePort = 49788

// bench is two edges' hosts with a switch between, in which faults are planted:
//
//	a:u ── m:pa  br  m:pb ── u:b
type bench struct {
	t       *testing.T
	a, m, b *topo.Host
	path    Path
	held    *host.Host
}

func newBench(t *testing.T, six bool) *bench {
	t.Helper()
	tier.Root(t)
	ctx := t.Context()
	lab, err := topo.New(ctx, t.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &bench{t: t}
	for name, h := range map[string]**topo.Host{"a": &w.a, "m": &w.m, "b": &w.b} {
		*h, err = lab.Host(name)
		w.must(err)
	}
	network := "192.0.2.%d"
	bits := 24
	if six {
		network, bits = "2001:db8::%d", 64
	}
	addr := func(n int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf(network, n)) }
	for n, h := range []*topo.Host{w.a, w.b} {
		end := topo.LinkEnd{Host: h, Name: "u", Addrs: []netip.Prefix{netip.PrefixFrom(addr(n+1), bits)}}
		w.must(lab.Link(ctx, end, topo.LinkEnd{Host: w.m, Name: "p" + h.Name}, 1500))
	}
	w.must(w.m.Bridge(ctx, "br", 1500, "pa", "pb"))
	w.must(w.a.Reach(ctx, addr(2)))
	w.must(w.a.Do(func() (err error) {
		nic, err := net.InterfaceByName("u")
		if err != nil {
			return err
		}
		w.path = Path{
			Pair: overlay.Pair{Local: addr(1), Remote: addr(2)}, Interface: "u", Ifindex: nic.Index,
			MTU: 1500, Port: probePort, TunnelPort: 4789,
		}
		w.held, err = host.Open(filepath.Join(t.TempDir(), "a.held"), slog.New(slog.DiscardHandler))
		return err
	}))
	t.Cleanup(func() { w.must(w.held.Close()) })
	return w
}

func (w *bench) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// respond has b answer the probes of these.
func (w *bench) respond(known ...netip.Addr) *Responder {
	w.t.Helper()
	var r *Responder
	w.must(w.b.Do(func() (err error) {
		ns, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return err
		}
		enter := func() error { return setns(ns) }
		r, err = Listen(w.path.Remote, probePort, &Turn{}, enter, slog.New(slog.DiscardHandler))
		return err
	}))
	r.Set(known)
	w.t.Cleanup(func() { r.Close() })
	return r
}

// set is a Setter that the kernel obeys at once.
func (w *bench) set(_ context.Context, offloads []host.Offload) error {
	return w.held.Ensure(host.Desired{Offloads: offloads})
}

func (w *bench) probe() (r Result, err error) {
	err = w.a.Do(func() (err error) {
		r, err = Probe(w.t.Context(), w.path, &Turn{}, w.set)
		return err
	})
	return r, err
}

func (w *bench) found() Result {
	w.t.Helper()
	before, err := w.a.Features("u")
	w.must(err)
	r, err := w.probe()
	w.must(err)
	for _, t := range r.Trials {
		w.t.Logf("%-24s sent %d missing %d corrupt %d duplicates %d uncut %v, %v Gbit/s", t.Mode.Name,
			t.Sent, t.Missing, t.Corrupt, t.Duplicates, t.Uncut, gigabits(t.Speeds))
	}
	w.t.Logf("%s: %s", r.Mode.Name, r.Why)
	after, err := w.a.Features("u")
	w.must(err)
	for feature, on := range before {
		if after[feature] != on {
			w.t.Errorf("%s was %v and is %v after the probe", feature, on, after[feature])
		}
	}
	return r
}

func gigabits(speeds []float64) (list []string) {
	for _, s := range speeds {
		list = append(list, fmt.Sprintf("%.2f", s/1e9))
	}
	return list
}

func (r Result) trial(name string) Trial {
	i := slices.IndexFunc(r.Trials, func(t Trial) bool { return t.Mode.Name == name })
	if i < 0 {
		return Trial{}
	}
	return r.Trials[i]
}

func TestProbe(t *testing.T) {
	for _, six := range []bool{false, true} {
		for _, sum := range []bool{false, true} {
			t.Run(fmt.Sprintf("six=%v sum=%v", six, sum), func(t *testing.T) {
				t.Parallel()
				w := newBench(t, six)
				w.path.Checksum = sum
				w.respond(w.path.Local)
				begin := time.Now()
				r := w.found()
				t.Logf("took %v", time.Since(begin).Round(time.Millisecond))
				if len(r.Trials) != 4 || r.Wrong {
					t.Fatalf("want four modes and a right one: %+v", r)
				}
				for _, trial := range r.Trials {
					if fault := trial.Fault(); fault != "" {
						t.Errorf("mode %s on a sound path: %s", trial.Mode.Name, fault)
					}
				}
				if !r.trial(AsIs).Uncut || r.trial(None).Uncut {
					t.Errorf("large segments must cross a veth whole as it is, and cut without offloads")
				}
			})
		}
	}
}
