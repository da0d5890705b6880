package ops

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

// BenchmarkIdle has what the edges of examples take while nothing happens, once they have settled:
//
//	sudo make bench T=./test/e2e/ops B=BenchmarkIdle     # a minute and a quarter for each
//
// Of evpn a third one has a neighbour that is there: it does not dial one each second for as long as it runs.
//
// "core-%" is the share of a core that their threads had, in user space and in the kernel, as the scheduler counts it.
// What the kernel does for packets is not in it, nor what other processes cause. With -benchtime 1x it is
// measured for two seconds, which says little.
func BenchmarkIdle(b *testing.B) {
	tier.Root(b)
	settles, window := idleSettles, time.Minute
	if flag.Lookup("test.benchtime").Value.String() == "1x" {
		settles, window = time.Second, 2*time.Second
	}
	for _, example := range append(slices.Clone(idleExamples), withSession) {
		b.Run(example, func(b *testing.B) {
			var cpu, took time.Duration
			rss := 0
			for b.Loop() {
				u, t, r := measureIdle(b, example, settles, window)
				cpu, took, rss = cpu+u, took+t, max(rss, r)
			}
			b.ReportMetric(0, "ns/op") // of a window: nobody's question
			b.ReportMetric(100*cpu.Seconds()/took.Seconds(), "core-%")
			b.ReportMetric(float64(rss)/1024, "RSS-MiB")
		})
	}
}

// withSession is evpn with a neighbour.
const withSession = "evpn-session"

// measureIdle is what the edge of an example used of a core in which time, and what memory it has then.
func measureIdle(b *testing.B, example string, settles, window time.Duration) (cpu, took time.Duration, rss int) {
	b.Helper()
	lab, err := topo.New(b.Context(), b.Name())
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := lab.Close(); err != nil {
			b.Error(err)
		}
	}()
	start := func() (*dut.Edge, error) { return startIdle(b.Context(), lab, harness.Program, example) }
	if example == withSession {
		start = func() (*dut.Edge, error) { return startWithSession(b.Context(), lab, harness.Program) }
	}
	e, err := start()
	if err != nil {
		b.Fatal(err)
	}
	after(settles)
	before, err := used(e.Command.PID())
	began := time.Now()
	after(window)
	now, again := used(e.Command.PID())
	took = time.Since(began)
	rss, noRSS := rssKiB(e.Command.PID())
	if err := errors.Join(err, again, noRSS); err != nil {
		b.Fatal(err)
	}
	return now - before, took, rss
}

// used is the processor time that all threads of a process have had, in user space and in the kernel.
func used(pid int) (sum time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, thread := range threads {
		text, gone := os.ReadFile(thread)
		if gone != nil {
			continue // what a thread that ended had is lost: those of an edge stay
		}
		var nanoseconds time.Duration
		if _, err := fmt.Sscan(string(text), &nanoseconds); err != nil {
			return 0, fmt.Errorf("%s: %w", thread, err)
		}
		sum += nanoseconds
	}
	return sum, err
}

// idleSettles is how long an edge takes to give back what its start took.
const idleSettles = 15 * time.Second

// idleExamples are edges for which nothing is to be done: of host-a nobody is there, and the neighbours of evpn are not.
var idleExamples = []string{"host-a", "evpn"}

// startIdle runs the edge of an example, as it is but for its name, in an empty lab.
func startIdle(ctx context.Context, lab *topo.Lab, binary, example string) (*dut.Edge, error) {
	h, _, err := idleHosts(ctx, lab)
	if err != nil {
		return nil, err
	}
	return startExample(ctx, h, binary, example, func(text string) string { return text })
}

// startWithSession does so with evpn, whose first neighbour is there, and is the only one.
func startWithSession(ctx context.Context, lab *topo.Lab, binary string) (*dut.Edge, error) {
	h, peer, err := idleHosts(ctx, lab)
	if err != nil {
		return nil, err
	}
	if err := peer.AddAddr("eth0", netip.MustParsePrefix("192.0.2.100/24")); err != nil {
		return nil, err
	}
	reflector, err := dut.StartFRR(ctx, peer, dut.FRRConfig{BGP: `router bgp 65000
 bgp router-id 192.0.2.100
 no bgp default ipv4-unicast
 neighbor 192.0.2.1 remote-as 65000
 neighbor 192.0.2.1 update-source 192.0.2.100
 address-family l2vpn evpn
  neighbor 192.0.2.1 activate
  neighbor 192.0.2.1 route-reflector-client
`})
	if err != nil {
		return nil, err
	}
	e, err := startExample(ctx, h, binary, "evpn", func(text string) string {
		before, rest, _ := strings.Cut(text, "    - name: rr2\n")
		_, rest, _ = strings.Cut(rest, "    gracefulRestart:")
		return before + "    gracefulRestart:" + rest
	})
	if err != nil {
		return nil, err
	}
	return e, await.That(ctx, "a BGP session", func() error {
		out, err := reflector.Do(ctx, "show bgp l2vpn evpn summary established")
		if err == nil && !strings.Contains(out, "192.0.2.1 ") {
			err = errors.New(out)
		}
		return err
	})
}

// idleHosts are that of the edge and the one beside it.
func idleHosts(ctx context.Context, lab *topo.Lab) (h, peer *topo.Host, err error) {
	if h, err = lab.Host("host"); err != nil {
		return nil, nil, err
	}
	if peer, err = lab.Host("peer"); err != nil {
		return nil, nil, err
	}
	errs := []error{lab.Link(ctx, topo.LinkEnd{Host: h, Name: "eth0", Addrs: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}},
		topo.LinkEnd{Host: peer, Name: "eth0", Addrs: []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")}}, 1500)}
	for _, name := range []string{"veth0", "veth1"} {
		errs = append(errs, lab.Link(ctx, topo.LinkEnd{Host: h, Name: name}, topo.LinkEnd{Host: peer, Name: name}, 1450))
	}
	return h, peer, errors.Join(errs...)
}

// startExample runs an edge by the text of an example, changed.
func startExample(ctx context.Context, h *topo.Host, binary, example string, change func(string) string) (*dut.Edge, error) {
	text, err := os.ReadFile("../../../examples/" + example + ".yaml")
	if err != nil {
		return nil, err
	}
	name := dut.EdgeName(h)
	lines := strings.Split(change(string(text)), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "  name: ") {
			lines[i] = "  name: " + name
		}
	}
	return dut.StartEdge(ctx, h, binary, name, strings.Join(lines, "\n"))
}

// after returns after a time for which something is measured.
func after(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// rssKiB is the RSS of a process.
func rssKiB(pid int) (kib int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	_, err = fmt.Sscan(rest, &kib)
	return kib, err
}
