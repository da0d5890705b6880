package doctor

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/internal/host"
)

// describe is the host as the files and fakes of a world show it.
func (w *world) describe() facts.Host {
	w.t.Helper()
	inv, err := w.read("")
	if err != nil {
		w.t.Fatal(err)
	}
	h, err := Describe(Sources{
		Sys: filepath.Join(w.root, "sys"), Proc: filepath.Join(w.root, "proc"), Etc: filepath.Join(w.root, "etc"), Adapters: fakeAdapters{w.inv},
	}, inv)
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

func TestDescribe(t *testing.T) {
	w := newWorld(t)
	for file, content := range map[string]string{
		"vendor": "0x15b3\n", "device": "0x1017\n", "subsystem_vendor": "0x15b3\n", "subsystem_device": "0x0008\n", "sriov_numvfs": "4\n", "sriov_totalvfs": "16\n",
	} {
		w.plant(slot0+"/"+file, content)
	}
	w.plant("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n")
	second := *w.inv.on("eth0")
	second.Name, second.Index, second.Addrs, second.Up = "eth1", 6, nil, false // which no tunnel uses and is down
	second.BusName = "0000:3b:00.1"
	w.inv.Links = append(w.inv.Links, second)
	w.plant("sys/devices/pci0000:3a/0000:3b:00.1/numa_node", "0\n")
	w.link("../../../devices/pci0000:3a/0000:3b:00.1", "sys/bus/pci/devices/0000:3b:00.1")
	w.plant("proc/irq/61/effective_affinity_list", "9\n") // of the other node
	h := w.describe()
	var names []string
	for _, i := range h.Interfaces {
		names = append(names, i.Name)
	}
	if diff := cmp.Diff([]string{"eth0", "vxlan0", "eth1"}, names); diff != "" {
		t.Fatalf("interfaces (-want +got):\n%s", diff)
	}
	eth0 := h.Interfaces[0]
	want := &PCI{Address: "0000:3b:00.0", ID: "15b3:1017", Subsystem: "15b3:0008", GTs: 16, GTsMax: 16, Lanes: 16, LanesMax: 16, NUMA: new(0), VFs: 4, VFsMax: 16}
	if diff := cmp.Diff(want, eth0.PCI); diff != "" {
		t.Errorf("slot (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&facts.Interrupts{Count: 2, CPUs: []int{0, 9}, Far: 1}, eth0.Interrupts); diff != "" {
		t.Errorf("interrupts (-want +got):\n%s", diff)
	}
	if !slices.Equal(eth0.Card, []string{"eth0", "eth1"}) || eth0.Role != "underlay" || eth0.Driver != "mlx5_core" {
		t.Errorf("eth0: %+v", eth0)
	}
	if h.Name == "" || h.Machine.Kernel != "6.8.0" || h.Machine.CPU.Threads != 16 || h.Sysctls["net.ipv4.tcp_rmem"] != "4096 131072 6291456" {
		t.Errorf("host: %+v", h)
	}
	if !slices.ContainsFunc(h.Unknown, func(u Unknown) bool { return u.What == "memory channels" }) {
		t.Errorf("that memory is not known is not said: %+v", h.Unknown)
	}
}

// Two hosts of which one has smaller rings, a hash without ports and another kernel, as their files and adapters tell.
func TestDescribedHostsDiffer(t *testing.T) {
	a, b := newWorld(t), newWorld(t)
	b.plant("proc/sys/kernel/osrelease", "6.12.0\n")
	nic := b.inv.on("eth0").NIC
	*nic.Ring = Ring{Rx: 256, RxMax: 8192, Tx: 4096, TxMax: 8192}
	nic.Hash4, a.inv.on("eth0").NIC.Hash4 = "sd", "sdfn"
	ha, hb := a.describe(), b.describe()
	ha.Place, hb.Place = "ssh:a", "ssh:b"
	var got []string
	for _, d := range facts.Compare(&ha, &hb, facts.Peers(&ha, &hb)) {
		got = append(got, strings.Join([]string{d.Check, d.Name, d.A.Text, d.B.Text}, "|"))
	}
	want := []string{"kernel|kernel|6.8.0|6.12.0", "rings|receive descriptors|4096|256", "rss|fields of udp4 in the RSS hash|sdfn|sd"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
}

func TestBonds(t *testing.T) {
	w := newWorld(t)
	eth0 := w.inv.on("eth0")
	eth0.Master = "bond0"
	bond := Link{Device: host.Device{Name: "bond0", Kind: "bond", Index: 7, MTU: 1600, Up: true, Addrs: eth0.Addrs, Bond: &host.Bond{Mode: "802.3ad", HashPolicy: "layer3+4", LACPRate: "slow"}}}
	vlan := Link{Device: host.Device{Name: "bond0.7", Kind: "vlan", Index: 8, MTU: 1600, Up: true, Lower: "bond0"}}
	second := *eth0
	second.Name, second.Index, second.BusName, eth0.Addrs, second.Addrs = "eth1", 6, "0000:3b:00.1", nil, nil
	w.inv.Links = append(w.inv.Links, second, bond, vlan)
	w.plant("sys/devices/pci0000:3a/0000:3b:00.1/numa_node", "0\n")
	w.link("../../../devices/pci0000:3a/0000:3b:00.1", "sys/bus/pci/devices/0000:3b:00.1")
	w.routing = map[string][]string{"bond0": {"bgp"}, "bond0.7": {"ospf", "bgp"}, "eth0": {"isis"}}
	var texts []string
	for _, f := range bad(w.report("").Findings) {
		if f.Check == "bond" {
			texts = append(texts, f.What)
		}
	}
	want := []string{"routes of bgp, ospf leave by the bond bond0", "2 members of the bond are ports of one card: eth0, eth1"}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	h := w.describe()
	i, _ := h.Interface("bond0")
	if i == nil {
		t.Fatal("the bond is not described")
	}
	if diff := cmp.Diff(&facts.Bond{Mode: "802.3ad", HashPolicy: "layer3+4", LACPRate: "slow", Members: []string{"eth0", "eth1"}, Routing: []string{"bgp", "ospf"}}, i.Bond); diff != "" {
		t.Errorf("bond (-want +got):\n%s", diff)
	}
}

// Each fix of a finding undoes what it does, with what was read before.
func TestFixes(t *testing.T) {
	for _, c := range []struct {
		name, do, undo string
		plant          func(*world)
	}{
		{"ring", "ethtool -G eth0 rx 4096", "ethtool -G eth0 rx 256", func(w *world) { *w.inv.on("eth0").NIC.Ring = Ring{Rx: 256, RxMax: 4096, Tx: 4096, TxMax: 4096} }},
		{"offload", "ethtool -K eth0 tx on", "ethtool -K eth0 tx off", func(w *world) {
			w.inv.on("eth0").NIC.Features["tx-checksum-ip-generic"] = Feature{}
		}},
		{"hash", "ethtool -N eth0 rx-flow-hash udp4 sdfn", "ethtool -N eth0 rx-flow-hash udp4 sd", func(w *world) {
			w.inv.on("eth0").NIC.Hash4, w.inv.on("eth0").NIC.HashPorts4 = "sd", new(false)
		}},
		{"interrupt", "echo 8 > /proc/irq/60/smp_affinity_list", "echo 0-7 > /proc/irq/60/smp_affinity_list", func(w *world) { w.plant(slot0+"/numa_node", "1\n") }},
		{"governor", "cpupower frequency-set -g performance", "cpupower frequency-set -g powersave", func(w *world) {
			w.plant("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")
		}},
		{"backlog", "sysctl -w net.core.netdev_max_backlog=4096", "sysctl -w net.core.netdev_max_backlog=1000", func(w *world) {
			w.plant("proc/sys/net/core/netdev_max_backlog", "1000\n")
			w.plant("proc/net/softnet_stat", "000f4240 00000fff 00000000 0 0 0 0 0 0 0 0 0 00000000\n")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.plant(w)
			found := bad(w.report("").Findings)
			if len(found) != 1 || len(found[0].Fixes) == 0 {
				t.Fatalf("want one finding with a fix, not %+v", found)
			}
			if f := found[0].Fixes[0]; f.Do.String() != c.do || f.Undo.String() != c.undo {
				t.Errorf("%s and %s, want %s and %s", f.Do, f.Undo, c.do, c.undo)
			}
			if !slices.ContainsFunc(found[0].Change, func(line string) bool { return strings.HasPrefix(line, c.do) }) {
				t.Errorf("the finding does not say %q: %q", c.do, found[0].Change)
			}
		})
	}
	w := newWorld(t)
	w.remove("proc/sys/net")
	w.plant("proc/net/softnet_stat", "000f4240 00000fff 00000000 0 0 0 0 0 0 0 0 0 00000000\n")
	if found := bad(w.report("").Findings); len(found) != 1 || len(found[0].Fixes) > 0 {
		t.Errorf("without a value before there is a fix: %+v", found)
	}
}

func TestHostFlags(t *testing.T) {
	for want, f := range map[string]HostFlags{
		"":                              {Port: 1},
		"--save is of --hosts":          {Save: "x"},
		"--script is of --hosts":        {Script: "x"},
		"--hosts: ssh:a is named twice": {Hosts: []string{"ssh:a", "ssh:b", "ssh:a"}, Port: 1},
		"--hosts: at most 16":           {Hosts: strings.Split(strings.Repeat("x ", 17), " "), Port: 1},
		"--port: not within 1 … 65535":  {Hosts: []string{"ssh:a"}},
	} {
		err := f.Check()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: %v, want %q", f, err, want)
		}
	}
}
