package facts

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// server is a host with a tunnel over a bond of two ports.
func server(place, addr string) Host {
	adapter := func(name string) Interface {
		return Interface{
			Name: name, Up: true, MTU: 9000, Master: "bond0", Driver: "ice", Firmware: "4.20", Mbps: 25000, Hash4: "sdfn", Hash6: "sd",
			Ring: &Ring{Rx: 2048, RxMax: 8160, Tx: 2048, TxMax: 8160}, Channels: &Channels{Combined: 16, CombinedMax: 64},
			Features: map[string]Feature{"tx-checksum-ip-generic": {On: true}, "rx-gro": {On: true}, "tx-nocache-copy": {}, "highdma": {On: true, Fixed: true}},
			PCI:      &PCI{Address: "0000:3b:00.0", ID: "8086:1593", GTs: 16, Lanes: 8, NUMA: new(0)},
		}
	}
	return Host{
		Place: place, Name: "host",
		Machine: Machine{
			Kernel: "6.12.1", Arch: "amd64",
			CPU: CPU{Model: "EPYC", Sockets: 2, Threads: 64, Governors: map[string]int{"performance": 64}, Mitigations: map[string]string{"retbleed": "Not affected"}},
		},
		Sysctls: map[string]string{"net.ipv4.tcp_rmem": "4096 131072 6291456"},
		Interfaces: []Interface{
			adapter("eth0"), adapter("eth1"),
			{Name: "bond0", Kind: "bond", Up: true, MTU: 9000, Addrs: []netip.Prefix{netip.MustParsePrefix(addr)}, Bond: &Bond{Mode: "802.3ad", Members: []string{"eth0", "eth1"}}},
			{Name: "vx" + place, Kind: "vxlan", VNI: 7, Up: true, MTU: 8950},
		},
	}
}

func TestPeers(t *testing.T) {
	a, b := server("a", "10.0.0.1/24"), server("b", "10.0.0.2/24")
	b.Interfaces[0].Name, b.Interfaces[1].Name, b.Interfaces[2].Bond.Members = "ens1", "ens2", []string{"ens1", "ens2"}
	b.Interfaces = append(b.Interfaces, Interface{Name: "eth1", MTU: 1500}) // another, of the same name
	want := []Pair{{"bond0", "bond0"}, {"vxa", "vxb"}, {"eth0", "ens1"}, {"eth1", "ens2"}}
	if diff := cmp.Diff(want, Peers(&a, &b)); diff != "" {
		t.Errorf("pairs (-want +got):\n%s", diff)
	}
	if found := Compare(&a, &b, Peers(&a, &b)); len(found) > 0 {
		t.Errorf("hosts that are alike differ: %+v", found)
	}
}

func TestNeighbours(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"10.0.0.1/24", "10.0.0.2/24", true}, {"10.0.0.1/24", "10.0.1.2/24", false}, {"10.0.0.1/24", "10.0.0.2/25", false},
		{"172.17.0.1/16", "172.17.0.1/16", false}, {"10.0.0.1/32", "10.0.0.1/32", false}, {"fe80::1/64", "fe80::2/64", false}, {"fd00::1/64", "fd00::2/64", true},
	} {
		if got := Neighbours(netip.MustParsePrefix(c.a), netip.MustParsePrefix(c.b)); got != c.want {
			t.Errorf("%s and %s: %t", c.a, c.b, got)
		}
	}
}

// Each fact that is planted differs, and nothing else. What it takes to set it back is a command, or there is none.
func TestDrift(t *testing.T) {
	for _, c := range []struct {
		name    string
		do      func(*Host)
		check   string
		fact    string
		a, b    string
		matters bool
		set     string
	}{
		{"kernel", func(h *Host) { h.Machine.Kernel = "6.13" }, "kernel", "kernel", "6.12.1", "6.13", true, ""},
		{"mitigation", func(h *Host) { h.Machine.CPU.Mitigations["retbleed"] = "Mitigation: IBPB" }, "mitigations", "retbleed", "Not affected", "Mitigation: IBPB", true, ""},
		{"parameter", func(h *Host) { h.Machine.Parameters = []string{"idle=poll", "nosmt"} }, "kernel", "kernel parameters", "none", "idle=poll nosmt", true, ""},
		{
			"governor", func(h *Host) { h.Machine.CPU.Governors = map[string]int{"powersave": 64} }, "governor", "governor", "performance", "powersave", true,
			"cpupower frequency-set -g performance",
		},
		{
			"some governors", func(h *Host) { h.Machine.CPU.Governors = map[string]int{"powersave": 60, "performance": 4} }, "governor", "governor", "performance",
			"performance, powersave", true, "",
		},
		{
			"sysctl", func(h *Host) { h.Sysctls["net.ipv4.tcp_rmem"] = "4096 1 2" }, "sysctl", "net.ipv4.tcp_rmem", "4096 131072 6291456", "4096 1 2", true,
			"sysctl -w 'net.ipv4.tcp_rmem=4096 131072 6291456'",
		},
		{"MTU", func(h *Host) { h.Interfaces[0].MTU = 1500 }, "mtu", "MTU", "9000", "1500", true, "ip link set dev eth0 mtu 9000"},
		{"firmware", func(h *Host) { h.Interfaces[0].Firmware = "4.30" }, "driver", "firmware", "4.20", "4.30", true, ""},
		{
			"offload", func(h *Host) { h.Interfaces[0].Features["tx-checksum-ip-generic"] = Feature{} }, "offloads", "tx-checksum-ip-generic", "on", "off", true,
			"ethtool -K eth0 tx-checksum-ip-generic on",
		},
		{
			"offload that went with another", func(h *Host) { h.Interfaces[0].Features["rx-gro"] = Feature{Requested: true} }, "offloads", "rx-gro", "on", "off", true, "",
		},
		{
			"offload of no matter", func(h *Host) { h.Interfaces[0].Features["tx-nocache-copy"] = Feature{On: true} }, "offloads", "tx-nocache-copy", "off", "on", false,
			"ethtool -K eth0 tx-nocache-copy off",
		},
		{"fixed offload", func(h *Host) { h.Interfaces[0].Features["highdma"] = Feature{Fixed: true} }, "offloads", "highdma", "on", "off", false, ""},
		{"ring", func(h *Host) { h.Interfaces[0].Ring.Rx = 512 }, "rings", "receive descriptors", "2048", "512", true, "ethtool -G eth0 rx 2048"},
		{"queues", func(h *Host) { h.Interfaces[0].Channels.Combined = 1 }, "queues", "queues", "16", "1", true, "ethtool -L eth0 combined 16"},
		{
			"RSS", func(h *Host) { h.Interfaces[0].Hash4 = "sd" }, "rss", "fields of udp4 in the RSS hash", "sdfn", "sd", true,
			"ethtool -N eth0 rx-flow-hash udp4 sdfn",
		},
		{"lanes", func(h *Host) { h.Interfaces[0].PCI.Lanes = 4 }, "pcie", "lanes", "8", "4", true, ""},
		{"virtual functions", func(h *Host) { h.Interfaces[0].PCI.VFs = 8 }, "sr-iov", "virtual functions", "0", "8", true, ""},
		{"routing over the bond", func(h *Host) { h.Interfaces[2].Bond.Routing = []string{"bgp"} }, "bond", "routing protocols over it", "none", "bgp", true, ""},
		{"interface gone", func(h *Host) { h.Interfaces = h.Interfaces[:3] }, "interfaces", "interface vxa", "there", "missing", true, ""},
		{"interface new", func(h *Host) { h.Interfaces = append(h.Interfaces, Interface{Name: "tun9"}) }, "interfaces", "interface tun9", "missing", "there", true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, now := server("a", "10.0.0.1/24"), server("a", "10.0.0.1/24")
			c.do(&now)
			found := Drift(&before, &now)
			if len(found) != 1 {
				t.Fatalf("want one difference, not %+v", found)
			}
			d := found[0]
			want := Difference{Check: c.check, Name: c.fact, Matters: c.matters, A: Value{Text: c.a}, B: Value{Text: c.b}}
			if diff := cmp.Diff(want, d, cmpopts.IgnoreFields(Value{}, "Place", "Interface", "Source"), cmpopts.IgnoreUnexported(Value{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if d.B.Source == "" {
				t.Error("it does not say where it was read")
			}
			got := ""
			if f, can := d.B.To(d.A.Text); can {
				got = f.Do.String()
				if back, _ := d.A.To(d.B.Text); f.Undo.String() != back.Do.String() {
					t.Errorf("the way back of %s is %s", f.Do, f.Undo)
				}
			}
			if got != c.set {
				t.Errorf("set by %q, want %q", got, c.set)
			}
		})
	}
}

// Interrupts that another CPU has now are a difference of two hosts, and no drift.
func TestInterruptsMove(t *testing.T) {
	before, now := server("a", "10.0.0.1/24"), server("a", "10.0.0.1/24")
	before.Interfaces[0].Interrupts, now.Interfaces[0].Interrupts = &Interrupts{Count: 2, CPUs: []int{0, 1}}, &Interrupts{Count: 2, CPUs: []int{0, 9}, Far: 1}
	if found := Drift(&before, &now); len(found) > 0 {
		t.Errorf("drift: %+v", found)
	}
	if found := Compare(&before, &now, []Pair{{"eth0", "eth0"}}); len(found) != 2 {
		t.Errorf("differences: %+v", found)
	}
}

// What is not known at one of two times has not changed.
func TestUnknownIsNoDrift(t *testing.T) {
	before, now := server("a", "10.0.0.1/24"), server("a", "10.0.0.1/24")
	now.Machine, now.Sysctls = Machine{}, nil
	i := &now.Interfaces[0]
	i.Driver, i.Firmware, i.Mbps, i.Features, i.Ring, i.Channels, i.Hash4, i.Hash6, i.PCI = "", "", 0, nil, nil, nil, "", "", nil
	if found := Drift(&before, &now); len(found) > 0 {
		t.Errorf("of what was not read it says %+v", found)
	}
}

func TestProfile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "profile.json")
	p := Profile{Schema: Schema, Taken: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Hosts: []Host{server("ssh:a", "10.0.0.1/24"), server("ssh:b", "10.0.0.2/24")}}
	if err := p.WriteFile(name); err != nil {
		t.Fatal(err)
	}
	got, err := ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("written and read (-want +got):\n%s", diff)
	}
	if h, err := got.Of("ssh:b"); err != nil || h.Place != "ssh:b" {
		t.Errorf("ssh:b: %v", err)
	}
	if _, err := got.Of("ssh:c"); err == nil || !strings.Contains(err.Error(), "no ssh:c; it has [ssh:a ssh:b]") {
		t.Errorf("a place that it does not have: %v", err)
	}
	one := Profile{Hosts: got.Hosts[:1]}
	if h, err := one.Of("ssh:c"); err != nil || h.Place != "ssh:a" {
		t.Errorf("a profile of one host is not that of every place: %v", err)
	}
}

func TestBadProfile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "profile.json")
	for text, want := range map[string]string{
		"":                                   "unexpected end",
		`{"schema": "selvage.dev/facts/v9"}`: `its schema is "selvage.dev/facts/v9"`,
		`{"schema": "` + Schema + `", "hosts": []}`:             "it has no host",
		`{"schema": "` + Schema + `", "hosts": [{"nam": "x"}]}`: `unknown field "nam"`,
		`{"schema": "` + Schema + `", "hosts": [{"name": 1}]}`:  "cannot unmarshal number",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadFile(name); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v, want %q and the file", text, err, want)
		}
	}
	if _, err := ReadFile(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a directory: %v", err)
	}
}
