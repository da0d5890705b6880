package ops

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

// What an idle edge may take, once it has given back what its start took.
const (
	idleMemory  = 60 << 10 // KiB of RSS
	idleSettles = 15 * time.Second
)

// An edge as it is released takes little when nothing happens, with the examples as they are.
func TestIdleMemory(t *testing.T) {
	tier.Long(t, "TestFreeMemory, that pages are given back")
	binary := filepath.Join(t.TempDir(), "selvage")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, "../../../cmd/selvage")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build a release: %v: %s", err, out)
	}
	for _, example := range idleExamples {
		t.Run(example, func(t *testing.T) {
			n := harness.NewNetwork(t, idlePicture)
			e, err := startIdle(n.Ctx, n.Topo, binary, example)
			n.Must(err)
			n.Edges["host"] = e
			began := time.Now()
			n.Once(fmt.Sprintf("it takes %d KiB at most for as long as it settles", idleMemory), func() error {
				after(idleSettles)
				rss, err := rssKiB(e.Command.PID())
				t.Logf("RSS %d KiB after %s", rss, time.Since(began).Round(time.Second))
				if err == nil && rss > idleMemory {
					err = fmt.Errorf("%d KiB", rss)
				}
				return err
			})
		})
	}
}

// idleExamples are edges for which nothing is to be done: of host-a nobody is there, and the neighbours of evpn are not.
var idleExamples = []string{"host-a", "evpn"}

const idlePicture = "\n    peer ---- host: eth0, and veth0, veth1 to guests that say nothing"

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
