package bfd

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
)

// frr is FRR's bfdd on a host.
type frr struct {
	*dut.FRR
	b *bench
}

// startFRR runs zebra, which tells bfdd of the host's interfaces, and bfdd.
func (b *bench) startFRR(h *topo.Host, config string) *frr {
	b.t.Helper()
	daemons, err := dut.StartFRR(b.t.Context(), h, dut.FRRConfig{BFD: config})
	b.must(err)
	b.t.Cleanup(func() {
		if b.t.Failed() {
			said, _ := daemons.Log("bfdd")
			b.t.Logf("bfdd said:\n%s", said)
		}
	})
	return &frr{daemons, b}
}

// configure changes what runs.
func (f *frr) configure(lines ...string) {
	f.b.t.Helper()
	f.b.must(f.Configure(f.b.t.Context(), lines...))
}

// frrPeer is what FRR says of a session.
type frrPeer struct {
	Peer       netip.Addr `json:"peer"`
	Status     string     `json:"status"`
	Diagnostic string     `json:"diagnostic"`
	Detect     int        `json:"remote-detect-multiplier"`
	Transmit   int        `json:"remote-transmit-interval"` // ms
}

// await waits until FRR says this of a session.
func (f *frr) await(peer netip.Addr, status, diagnostic string) frrPeer {
	f.b.t.Helper()
	var found frrPeer
	f.b.must(await.That(f.b.t.Context(), fmt.Sprintf("FRR to see %s %s", peer, status), func() error {
		var peers []frrPeer
		if err := f.JSON(f.b.t.Context(), "show bfd peers json", &peers); err != nil {
			return err
		}
		for _, found = range peers {
			if found.Peer == peer && found.Status == status && strings.Contains(found.Diagnostic, diagnostic) {
				return nil
			}
		}
		return fmt.Errorf("it says %+v", peers)
	}))
	return found
}

// FRR as the other end: over one hop and over two, both families. Each sees what
// the other does on purpose, and what happens to both.
func TestFRR(t *testing.T) {
	if _, err := os.Stat("/usr/lib/frr/bfdd"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%v: install it with `scripts/packages.sh test`", err)
		}
		t.Skipf("%v: install it with `scripts/packages.sh test`", err)
	}
	b := newBench(t)
	const timers = "\n  receive-interval 60\n  transmit-interval 60\n  detect-multiplier 4\n"
	f := b.startFRR(b.far, "bfd\n peer 192.0.2.1 multihop local-address 192.0.2.130"+timers+
		" peer 2001:db8:1::1 multihop local-address 2001:db8:2::2"+timers+
		" peer 192.0.2.129 local-address 192.0.2.130"+timers)
	beside4 := netip.MustParseAddr("192.0.2.129")
	near, beside := b.monitor(b.near), b.monitor(b.router)
	over4, over6 := overlay.Pair{Local: near4, Remote: far4}, overlay.Pair{Local: near6, Remote: far6}
	next := overlay.Pair{Local: beside4, Remote: far4}
	b.set(b.near, near, peerOf(near4, far4, 2), peerOf(near6, far6, 2))
	b.set(b.router, beside, peerOf(beside4, far4, 1))
	for _, addr := range []netip.Addr{near4, near6, beside4} {
		f.await(addr, "up", "")
	}
	b.awaitState(near, over4, Up)
	b.awaitState(near, over6, Up)
	b.awaitState(beside, next, Up)
	agreed := func(r Result) bool { return r.State == Up && r.Detects == 4*60*time.Millisecond }
	b.await(near, over4, "at four times 60 ms", agreed)
	b.must(await.That(t.Context(), "FRR to know our interval", func() error {
		if p := f.await(near4, "up", ""); p.Transmit != 50 || p.Detect != 3 {
			return fmt.Errorf("%+v", p)
		}
		return nil
	}))

	f.configure("bfd", "peer 192.0.2.1 multihop local-address 192.0.2.130", "shutdown")
	if r := b.awaitState(near, over4, Down); r.Failures != 0 || r.Why != "the remote took it out of use" {
		t.Errorf("FRR shut the session down, and here it is %+v", r)
	}
	f.configure("bfd", "peer 192.0.2.1 multihop local-address 192.0.2.130", "no shutdown")
	b.awaitState(near, over4, Up)

	b.set(b.near, near, peerOf(near4, far4, 2)) // without IPv6
	f.await(near6, "down", "neighbor signaled session down")
	b.set(b.near, near, peerOf(near4, far4, 2), peerOf(near6, far6, 2))
	f.await(near6, "up", "")

	b.silence(b.router)
	b.awaitState(near, over4, Down)
	f.await(near4, "down", "control detection time expired")
	f.await(beside4, "down", "control detection time expired")
	b.hear(b.router)
	f.await(near4, "up", "")
	if r := b.awaitState(near, over4, Up); r.Failures != 1 {
		t.Errorf("after one failure %+v", r)
	}
	for name, m := range map[string]*Monitor{"near": near, "router": beside} {
		if dropped := m.Dropped(); dropped[NoSession] > 2 || len(dropped) > 1 || len(dropped) == 1 && dropped[NoSession] == 0 {
			t.Errorf("%s dropped %v of FRR's packets", name, dropped)
		}
	}
}
