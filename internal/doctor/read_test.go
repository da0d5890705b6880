package doctor

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
)

// fakeNetwork is the network of the recorded server.
type fakeNetwork struct {
	inv     *Inventory
	routing map[string][]string
}

func (n fakeNetwork) Devices() ([]host.Device, error) {
	var devices []host.Device
	for _, l := range n.inv.Links {
		devices = append(devices, l.Device)
	}
	return devices, nil
}

func (n fakeNetwork) Paths(remote, _ netip.Addr) (paths []host.Path, err error) {
	for _, t := range n.inv.Tunnels {
		for _, p := range t.Paths {
			if p.Remote == remote && p.Reachable {
				paths = append(paths, host.Path{Interface: p.Interface, MTU: p.MTU})
			}
		}
		if paths != nil {
			break
		}
	}
	return paths, nil
}

func (n fakeNetwork) RoutingProtocols() (map[string][]string, error) { return n.routing, nil }

func (n fakeNetwork) Shapers() (map[string][]host.Shaper, error) { return n.inv.Shapers, nil }
func (n fakeNetwork) IPsec() (int, error)                        { return 0, nil }

// fakeAdapters are the adapters of the recorded server.
type fakeAdapters struct{ inv *Inventory }

func (a fakeAdapters) NIC(name string) NIC {
	l, ok := a.inv.link(name)
	if !ok || l.NIC == nil {
		return NIC{Missing: []Unknown{{What: "ring sizes", Why: "the driver does not report it"}}}
	}
	return *l.NIC
}

type fakeVswitch struct {
	tables map[string][]Row
	err    error
}

func (v fakeVswitch) List(_ context.Context, table string, _ ...string) ([]Row, error) {
	return v.tables[table], v.err
}

type fakeEdges struct {
	answers []EdgeAnswer
	err     error
}

func (e fakeEdges) Edges(context.Context) ([]EdgeAnswer, error) { return e.answers, e.err }

// world is the recorded server with a sysfs and a procfs of files.
type world struct {
	t     *testing.T
	inv   *Inventory
	root  string
	edges fakeEdges
	ovs   fakeVswitch
	// routing are the protocols of routes, by interface.
	routing map[string][]string
}

const slot0 = "sys/devices/pci0000:3a/0000:3b:00.0"

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, inv: recorded(t, "server"), root: t.TempDir()}
	for path, content := range map[string]string{
		"proc/sys/kernel/osrelease":                            "6.8.0\n",
		"proc/meminfo":                                         "MemTotal:       131835937 kB\nMemFree: 1 kB\n",
		"proc/sys/net/ipv4/ip_local_port_range":                "32768\t60999\n",
		"proc/net/softnet_stat":                                "000f4240 00000000 0000000a 0 0 0 0 0 0 0 0 0 00000000\n000f4240 00000000 0000000a 0 0 0 0 0 0 0 0 0 00000001\n",
		"proc/interrupts":                                      "           CPU0       CPU1\n 60:     200000          0  IR-PCI-MSI 1-edge  mlx5_comp0\n 61:          0     200000  IR-PCI-MSI 2-edge  mlx5_comp1\n 62: 5 5 IR-PCI-MSI other\nNMI:          0          0   Non-maskable interrupts\n",
		"proc/irq/60/smp_affinity_list":                        "0-7\n",
		"proc/irq/60/effective_affinity_list":                  "0\n",
		"proc/irq/61/smp_affinity_list":                        "1\n",
		"sys/devices/system/cpu/online":                        "0-15\n",
		"sys/devices/system/cpu/smt/active":                    "0\n",
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_driver":   "acpi-cpufreq\n",
		"sys/devices/system/node/node0/cpulist":                "0-7\n",
		"sys/devices/system/node/node1/cpulist":                "8-15\n",
		slot0 + "/current_link_speed":                          "16.0 GT/s PCIe\n",
		slot0 + "/max_link_speed":                              "16.0 GT/s PCIe\n",
		slot0 + "/current_link_width":                          "16\n",
		slot0 + "/max_link_width":                              "16\n",
		slot0 + "/numa_node":                                   "0\n",
		slot0 + "/msi_irqs/60":                                 "msix\n",
		slot0 + "/msi_irqs/61":                                 "msix\n",
		"sys/class/net/bonding_masters":                        "\n",
	} {
		w.plant(path, content)
	}
	w.link("../../../devices/pci0000:3a/0000:3b:00.0", "sys/bus/pci/devices/0000:3b:00.0")
	w.link("net:[4026531840]", "proc/self/ns/net")
	for _, l := range w.inv.Links {
		dir := "sys/class/net/" + l.Name
		w.plant(dir+"/ifindex", string(rune('0'+l.Index)))
		w.plant(dir+"/address", l.MAC.String())
		w.plant(dir+"/queues/rx-0/rps_cpus", "0000\n")
	}
	return w
}

func (w *world) plant(path, content string) {
	w.t.Helper()
	path = filepath.Join(w.root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) link(to, path string) {
	w.t.Helper()
	path = filepath.Join(w.root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(to, path)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(path string) {
	w.t.Helper()
	if err := os.RemoveAll(filepath.Join(w.root, path)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read(name string) (Inventory, error) {
	return Read(w.t.Context(), Sources{
		Sys: filepath.Join(w.root, "sys"), Proc: filepath.Join(w.root, "proc"),
		Network: fakeNetwork{w.inv, w.routing}, Adapters: fakeAdapters{w.inv}, Vswitch: w.ovs, Edges: w.edges, Cilium: filepath.Join(w.root, "cilium.sock"),
	}, name)
}

func (w *world) report(name string) Report {
	w.t.Helper()
	inv, err := w.read(name)
	if err != nil {
		w.t.Fatal(err)
	}
	return Diagnose(inv)
}

func TestReadHealthy(t *testing.T) {
	r := newWorld(t).report("")
	if found := bad(r.Findings); len(found) > 0 {
		t.Errorf("a healthy server has %+v", found)
	}
	if len(r.Unknown) > 0 {
		t.Errorf("not known: %+v", r.Unknown)
	}
	m, l := r.Inventory.Machine, r.Inventory.on("eth0")
	if m.Kernel != "6.8.0" || len(m.CPUs) != 16 || len(m.Nodes) != 2 || m.Memory != 131835937<<10 {
		t.Errorf("machine: %+v", m)
	}
	if diff := cmp.Diff(recorded(t, "server").on("eth0").PCI, l.PCI); diff != "" {
		t.Errorf("slot (-want +got):\n%s", diff)
	}
	want := []IRQ{
		{Number: 60, Name: "mlx5_comp0", Counts: []uint64{200000, 0}, Affinity: []int{0}, Allowed: "0-7"},
		{Number: 61, Name: "mlx5_comp1", Counts: []uint64{0, 200000}, Affinity: []int{1}, Allowed: "1"},
	}
	if diff := cmp.Diff(want, l.IRQs); diff != "" {
		t.Errorf("interrupts (-want +got):\n%s", diff)
	}
}

// What is planted in files and in the adapter comes out as a finding.
func TestReadPlanted(t *testing.T) {
	for _, c := range []struct {
		name, check, change string
		do                  func(*world)
	}{
		{"ring", "rings", "ethtool -G eth0 rx 4096", func(w *world) {
			*w.inv.on("eth0").NIC.Ring = Ring{Rx: 256, RxMax: 4096, Tx: 4096, TxMax: 4096}
		}},
		{"slot", "pcie", "", func(w *world) { w.plant(slot0+"/current_link_speed", "5.0 GT/s PCIe\n") }},
		{"node", "numa", "echo 8 > /proc/irq/60/smp_affinity_list", func(w *world) { w.plant(slot0+"/numa_node", "1\n") }},
		{"siblings", "hyper-threading", "echo off > /sys/devices/system/cpu/smt/control", func(w *world) {
			w.plant("sys/devices/system/cpu/smt/active", "1\n")
		}},
		{"governor", "governor", "cpupower frequency-set -g performance", func(w *world) {
			w.plant("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")
		}},
		{"backlog", "softnet", "sysctl -w net.core.netdev_max_backlog=4096", func(w *world) {
			w.plant("proc/net/softnet_stat", "000f4240 00000007 00000000 0 0 0 0 0 0 0 0 0 00000000\n")
		}},
		{"squeeze", "softnet", "sysctl -w net.core.netdev_budget=600 net.core.netdev_budget_usecs=8000", func(w *world) {
			w.plant("proc/net/softnet_stat", "000f4240 00000000 0000ffff 0 0 0 0 0 0 0 0 0 00000000\n")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.do(w)
			found := bad(w.report("").Findings)
			if len(found) != 1 || found[0].Check != c.check {
				t.Fatalf("want one finding of %s, not %+v", c.check, found)
			}
			if c.change != "" && !slices.Contains(found[0].Change, c.change) {
				t.Errorf("no %q in %q", c.change, found[0].Change)
			}
		})
	}
}

func TestUnreadableIsUnknown(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"sys/devices/system/cpu", "sys/devices/system/node", "proc/net", "proc/interrupts", "proc/sys", "proc/meminfo", "sys/bus"} {
		w.remove(path)
	}
	w.plant("sys/class/net/eth0/ifindex", "77")
	w.plant("cilium.sock", "of nobody")
	w.inv.on("eth0").NIC = nil
	w.ovs.err, w.edges.err = errors.New("ovs-vsctl: nobody is home"), errors.New("run it as root")
	r := w.report("")
	if found := bad(r.Findings); len(found) > 0 {
		t.Errorf("of what was not read it says %+v", found)
	}
	var got []string
	for _, u := range r.Unknown {
		if u.Why == "" {
			t.Errorf("%s: no reason", u.What)
		}
		got = append(got, u.What)
	}
	slices.Sort(got)
	want := []string{
		"CPU frequency governor", "CPUs", "NUMA nodes", "Open vSwitch", "edges", "ephemeral port range", "how Cilium routes packets of pods", "hyper-threading",
		"interrupts", "kernel version", "memory", "receive packet steering of eth0", "ring sizes of eth0", "softnet statistics", "sysctls",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("not known (-want +got):\n%s", diff)
	}
}

func TestInterface(t *testing.T) {
	w := newWorld(t)
	second := *w.inv.on("eth0")
	second.Name, second.Index, second.Addrs, second.Alts = "eth1", 6, nil, []string{"enp1s0"}
	w.inv.Links = append(w.inv.Links, second)
	w.plant("sys/class/net/eth1/ifindex", "6")
	w.plant("sys/class/net/eth1/address", second.MAC.String())
	roles := func(name string) map[string]Role {
		got := map[string]Role{}
		for _, l := range w.report(name).Inventory.Links {
			if l.Role != "" {
				got[l.Name] = l.Role
			}
		}
		return got
	}
	for name, want := range map[string]map[string]Role{
		"":       {"eth0": Underlay, "vxlan0": Device, "tap0": Port, "eth1": Spare},
		"eth0":   {"eth0": Underlay, "vxlan0": Device},
		"eth1":   {"eth1": Spare},
		"enp1s0": {"eth1": Spare}, // an altname
		"vxlan0": {"vxlan0": Device},
		"lo":     {"lo": Spare},
	} {
		if diff := cmp.Diff(want, roles(name)); diff != "" {
			t.Errorf("--interface %s (-want +got):\n%s", name, diff)
		}
	}
	_, err := w.read("eth9")
	var unknown *UnknownInterfaceError
	if !errors.As(err, &unknown) || !strings.Contains(err.Error(), `no interface "eth9" here; there are: lo, eth0, br0, vxlan0, tap0, eth1`) {
		t.Errorf("an interface that is not there: %v", err)
	}
}

func TestVirtio(t *testing.T) {
	w := newWorld(t)
	l := w.inv.on("eth0")
	l.Bus, l.BusName = "virtio", "virtio2"
	w.remove(slot0)
	w.plant("sys/devices/pci0000:00/0000:00:03.0/numa_node", "-1\n")
	w.plant("sys/devices/pci0000:00/0000:00:03.0/current_link_speed", "Unknown\n")
	w.plant("sys/devices/pci0000:00/0000:00:03.0/current_link_width", "255\n")
	w.plant("sys/devices/pci0000:00/0000:00:03.0/virtio2/vendor", "0x1af4\n")
	w.link("../../../devices/pci0000:00/0000:00:03.0/virtio2", "sys/bus/virtio/devices/virtio2")
	r := w.report("eth0")
	if diff := cmp.Diff(&PCI{Address: "0000:00:03.0"}, r.Inventory.on("eth0").PCI); diff != "" {
		t.Errorf("slot (-want +got):\n%s", diff)
	}
	for _, f := range r.Findings {
		if f.Check == "pcie" || f.Check == "numa" {
			t.Errorf("of an emulated slot it says %+v", f)
		}
	}
}

func TestEdges(t *testing.T) {
	w := newWorld(t)
	w.inv.Tunnels = w.inv.Tunnels[:0]
	w.inv.on("vxlan0").Tunnel = nil
	tep := netip.MustParseAddr("192.0.2.1")
	answer := func(name string, netns uint64, address netip.Addr) EdgeAnswer {
		return EdgeAnswer{
			Status: api.Status{Name: name, NetNS: netns, TEP: address, Segments: []api.SegmentInfo{
				{Name: "blue", VNI: 7, Encapsulation: overlay.VXLAN, UDPPort: 4789}, {Name: "red", VNI: 8, Encapsulation: overlay.VXLAN, UDPPort: 4789},
			}},
			Ports: []api.PortInfo{{Name: "p", Interface: "tap0", Ifindex: 5, Segment: "blue"}, {Name: "q", Interface: "tap9", Segment: "blue"}},
			TEPs:  []api.TEPInfo{{Address: netip.MustParseAddr("192.0.2.2"), Segments: []string{"blue"}}},
			Drops: []api.DropInfo{{Reason: "no-remote", Packets: 3}, {Reason: "too-big"}},
		}
	}
	w.edges.answers = []EdgeAnswer{answer("here", 4026531840, tep), answer("elsewhere", 4026531999, tep), answer("older", 0, tep), answer("older elsewhere", 0, netip.MustParseAddr("192.0.2.77"))}
	inv, err := w.read("")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, tunnel := range inv.Tunnels {
		got = append(got, tunnel.Name)
	}
	// Of an edge that does not say its namespace, the TEP's address decides.
	if diff := cmp.Diff([]string{"here/blue", "here/red", "older/blue", "older/red"}, got); diff != "" {
		t.Errorf("tunnels (-want +got):\n%s", diff)
	}
	blue := inv.Tunnels[0]
	if !slices.Equal(blue.Ports, []string{"tap0"}) || blue.VNI != 7 || len(blue.Remotes) != 1 || len(inv.Tunnels[1].Remotes) != 0 {
		t.Errorf("blue: %+v", blue)
	}
	if diff := cmp.Diff(map[string]uint64{"no-remote": 3}, inv.Edges[0].Drops); diff != "" {
		t.Errorf("drops (-want +got):\n%s", diff)
	}
}
