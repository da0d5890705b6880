package experiments_test

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/experiment/rfc2544/ports"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/lab/transit"
	"github.com/selvage/selvage/test/tier"
)

// routed is a kernel that routes between two ports of a tester without addresses, and the flags for it.
func routed(t *testing.T) (tester *topo.Host, args []string) {
	t.Helper()
	tier.Root(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	lab, err := topo.New(ctx, "rfc2544-ports-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	tester, err = lab.Host("tester")
	must(err)
	device, err := lab.Host("device")
	must(err)
	for port, addr := range map[string]string{"tx": "192.0.2.1/24", "rx": "198.51.100.1/24"} {
		end := topo.LinkEnd{Host: device, Name: "to-" + port, Addrs: []netip.Prefix{netip.MustParsePrefix(addr)}}
		must(lab.Link(ctx, topo.LinkEnd{Host: tester, Name: port}, end, 1500))
		must(tester.DisableIPv6(port))
		_, err := device.SetFeatures(end.Name, map[string]bool{"rx-gro": true})
		must(err)
	}
	must(device.SysctlSet("net/ipv4/ip_forward", "1"))
	at := "ns:" + tester.Namespace + ":"
	return tester, []string{
		"lab", "rfc2544", "--tx", at + "tx", "--rx", at + "rx", "--dut", "a kernel", "--results", t.TempDir(), "--sizes", "100", "--flows", "40", "--quick", "--rounds", "1",
		"--tx-address", "192.0.2.200/24", "--rx-address", "198.51.100.200/24", "--gateway", "192.0.2.1,198.51.100.1",
	}
}

// The command measures a device between ports, by both searches, and its result is whole.
func TestRfc2544Ports(t *testing.T) {
	t.Parallel()
	_, args := routed(t)
	p := start(t, append(args, "-o", "json", "--duration", "60ms", "--latency-trials", "1", "--search", "binary")...)
	if code := p.end(); code != 0 {
		t.Fatalf("exit status %d:\n%s", code, &p.stderr)
	}
	r, err := result.Read(&p.stdout) // strict
	if err != nil {
		t.Fatal(err)
	}
	if lines := stats.Errors(r); len(lines) > 0 || r.Experiment != ports.Name || len(r.Samples) != 1 || len(r.Topology.Links) != 2 || r.Targets[0].Description != "a kernel" {
		t.Errorf("%v: %+v", lines, r)
	}
	if row, ok := stats.Find(r.Summary, "device", "forward-100", transit.NDR); !ok || row.Median <= 0 {
		t.Errorf("summary %+v", r.Summary)
	}
}

// A run that is killed in a trial leaves the ports as they were, those of another host too.
func TestRfc2544PortsKilled(t *testing.T) {
	for name, elsewhere := range map[string]bool{"here": false, "at another place": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tester, args := routed(t)
			if elsewhere {
				args = append(args, "--host", "ns:"+tester.Namespace)
			}
			leavesPorts(t, tester, args)
		})
	}
}

func leavesPorts(t *testing.T, tester *topo.Host, args []string) {
	t.Helper()
	state := func() string {
		var all []string
		for _, name := range []string{"tx", "rx"} {
			port, err := topo.ReadPort(tester.Namespace, name)
			if err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), "ip", "-n", tester.Namespace, "-d", "link", "show", "dev", name).Output()
			if err != nil {
				t.Fatal(err)
			}
			_, flags, _ := strings.Cut(string(out), "promiscuity")
			flags, _, _ = strings.Cut(flags, "minmtu")
			all = append(all, fmt.Sprintf("%s: program %t, MTU %d, addresses %v, promiscuity%s", name, port.Program != 0, port.MTU, port.Addrs, flags))
		}
		return strings.Join(all, "; ")
	}
	before := state()
	p := start(t, append(args, "--duration", "20s", "--initial-duration", "5s", "--latency-trials", "0")...)
	err := await.Within(t.Context(), patience, "the sink", func() error {
		if now := state(); !strings.Contains(now, "rx: program true") {
			return fmt.Errorf("%s\n%s", now, &p.stderr)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if now := state(); now == before {
		t.Errorf("nothing differs in a run: %s", now)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.end()
	err = await.Within(t.Context(), patience, "ports as they were", func() error {
		if now := state(); now != before {
			return fmt.Errorf("%s, was %s", now, before)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
