package network_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/lab/experiment/egress/network"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/testlab"
)

func newEgress(t *testing.T, o network.Options) *network.Network {
	t.Helper()
	n, err := network.New(t.Context(), testlab.New(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// seenFrom is the address that the target sees of the workload's connection to one of its
// own.
func seenFrom(t *testing.T, n *network.Network, to netip.Addr) netip.Addr {
	t.Helper()
	from, err := n.SeenAs(to)
	if err != nil {
		t.Fatalf("%v\n%s", err, n.Lab.Picture())
	}
	return from
}

// The target sees the workload itself where nothing translates, and the gateway's address
// where the kernel does. (Selvage's turn is in the experiments' tests, which have an edge.)
//
//	10.0.0.1 workload ── node ══ underlay ══ gateway 203.0.113.1 ── .10, .20 target
func TestEgressPaths(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path       network.Path
		translated string // "" where it does not reach that far
	}{
		"plain":    {network.Kernel{Plain: true}, ""},
		"kernel":   {network.Kernel{}, "203.0.113.1"},
		"checksum": {network.Kernel{NoChecksum: true}, "203.0.113.1"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newEgress(t, network.Options{})
			if err := n.Start(t.Context(), c.path); err != nil {
				t.Fatalf("%v\n%s", err, n.Lab.Picture())
			}
			if from := seenFrom(t, n, network.RoutedAddr); from != network.WorkloadAddr {
				t.Errorf("routed: the target sees %s, want the workload %s", from, network.WorkloadAddr)
			}
			if c.translated == "" {
				return
			}
			if from := seenFrom(t, n, network.TranslatedAddr); from.String() != c.translated {
				t.Errorf("translated: the target sees %s, want %s", from, c.translated)
			}
		})
	}
}

// A wire has its rate and none again, on every interface that a stage crosses.
func TestEgressWire(t *testing.T) {
	t.Parallel()
	n := newEgress(t, network.Options{})
	for _, c := range []struct {
		bits uint64
		want string
	}{{5_000_000_000, "tbf"}, {0, "noqueue"}} {
		if err := n.Wire(t.Context(), c.bits); err != nil {
			t.Fatal(err)
		}
		for host, name := range map[*topo.Host]string{n.Node: topo.UnderlayName, n.Gateway: network.OutsideName, n.Target: topo.EndName} {
			out, err := host.Output(t.Context(), "tc", "qdisc", "show", "dev", name)
			if err != nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%d bit/s on %s of %s: %s, %v", c.bits, name, host.Name, out, err)
			}
		}
	}
}

// What a half writes, an edge reads.
func TestEgressConfig(t *testing.T) {
	t.Parallel()
	n := newEgress(t, network.Options{})
	for side, want := range []string{"gateway: {router: tenant", "uplink: wan"} {
		text := network.Selvage{}.Config("edge", n, side)
		if _, err := config.Parse("edge.yaml", []byte(text)); err != nil || !strings.Contains(text, want) {
			t.Errorf("side %d: %v\n%s", side, err, text)
		}
	}
}
