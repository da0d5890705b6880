package doctor

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/doctor/facts"
)

// The server with one fault of each severity, as people read it.
func TestText(t *testing.T) {
	inv := recorded(t, "server")
	inv.on("eth0").MTU = 1500
	for i := range inv.Tunnels[0].Paths {
		inv.Tunnels[0].Paths[i].MTU = 1500
	}
	*inv.on("eth0").NIC.Ring = Ring{Rx: 256, RxMax: 4096, Tx: 4096, TxMax: 4096}
	feature("eth0", "rx-udp_tunnel-port-offload", Feature{Fixed: true})(inv)
	inv.unknown("interrupt coalescing of eth0", "the driver mlx5_core does not report it")
	var got bytes.Buffer
	if err := Text(&got, Diagnose(*inv)); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "report.txt")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v (run go test -update)", err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("differs from %s (go test -update rewrites it):\n%s", golden, diff)
	}
}

// A host of 500 guests, a third of whose interfaces lost packets, is one screen that begins with the fault.
func TestManyAlike(t *testing.T) {
	inv := recorded(t, "server")
	inv.on("eth0").MTU = 1500
	for i := range inv.Tunnels[0].Paths {
		inv.Tunnels[0].Paths[i].MTU = 1500
	}
	tap := *inv.on("tap0")
	for n := range 500 {
		port := tap
		port.Name, port.Counters.RxPackets = fmt.Sprintf("vm%d", n), uint64(n)
		if n%3 == 0 {
			port.Counters.TxDropped = uint64(n + 1)
		}
		inv.Links, inv.Tunnels[0].Ports = append(inv.Links, port), append(inv.Tunnels[0].Ports, port.Name)
	}
	var got bytes.Buffer
	if err := Text(&got, Diagnose(*inv)); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(got.String(), "\n")
	if len(lines) > 80 || !strings.HasPrefix(lines[3], "FAULT  mtu  vxlan0") {
		t.Errorf("%d lines, and the fourth is %q", len(lines), lines[3])
	}
	for _, want := range []string{"NOTE  drops  vm0, vm3, vm6 and 164 more\n", "likewise 166 more", "tap0, vm0, vm1 and 498 more  port", "offloads         eth0, vxlan0, tap0 and 500 more: 8 offloads that matter are on; likewise 502 more\n"} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("no %q in\n%s", want, got.String())
		}
	}
}

// What could not be read is unknown, and not 0.
func TestUnread(t *testing.T) {
	var got bytes.Buffer
	if err := Text(&got, Report{}); err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(got.String(), "\n")
	if want := "Examined: this host; Linux unknown, CPUs unknown, NUMA nodes unknown, memory unknown"; first != want {
		t.Errorf("%s, and not %s", first, want)
	}
	if got, want := (facts.Machine{}).String(), "Linux, CPU unknown, CPUs unknown"; got != want {
		t.Errorf("%s, and not %s", got, want)
	}
}
