package doctor

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/cilium"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/problem"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// recorded is an inventory of testdata: lab is of a host of the lab with the
// kernel's vxlan device, server one with a 100 Gbit/s adapter, both healthy.
func recorded(t *testing.T, name string) *Inventory {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	inv := new(Inventory)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(inv); err != nil {
		t.Fatal(err)
	}
	return inv
}

func bad(findings []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Severity == OK })
}

func TestHealthy(t *testing.T) {
	if found := bad(Diagnose(*recorded(t, "server")).Findings); len(found) > 0 {
		t.Errorf("a healthy server has %+v", found)
	}
	for _, f := range bad(Diagnose(*recorded(t, "lab")).Findings) {
		if f.Check != "cores" { // it has two
			t.Errorf("a healthy host of the lab has %+v", f)
		}
	}
}

// Everything that can be said of the server is said of it: no check is silent
// when all is well, so that silence never passes for health.
func TestEveryCheckSaysThatAllIsWell(t *testing.T) {
	want := []string{
		"remotes", "mtu", "port-mtu", "shaping", "offloads", "checksums", "entropy", "rss", "queues", "interrupts", "rings", "pause",
		"drops", "softnet", "edge", "tunnel", "pod-routing", "hyper-threading", "governor", "numa", "pcie", "cores",
	}
	var got []string
	server := recorded(t, "server")
	server.HostRouting, server.Shapers, server.IPsec = cilium.Legacy, map[string][]host.Shaper{"eth0": {{Kind: "mq"}}}, new(int)
	for _, f := range Diagnose(*server).Findings {
		if !slices.Contains(got, f.Check) {
			got = append(got, f.Check)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
}

// plant is a fault in the healthy server and what has to be found: one finding
// of the check, and none of any other.
type plant struct {
	name     string
	do       func(*Inventory)
	check    string
	severity Severity
	subject  string
	what     string   // a part of What or Evidence
	change   []string // all commands
}

func (p plant) run(t *testing.T) {
	inv := recorded(t, "server")
	p.do(inv)
	found := bad(Diagnose(*inv).Findings)
	if len(found) != 1 {
		t.Fatalf("want one finding, not %+v", found)
	}
	f := found[0]
	if f.Check != p.check || f.Severity != p.severity || f.Subject != p.subject {
		t.Errorf("want %s of %s about %s, not %s of %s about %s", p.severity, p.check, p.subject, f.Severity, f.Check, f.Subject)
	}
	if !strings.Contains(f.What+"\n"+f.Evidence, p.what) {
		t.Errorf("no %q in %q, %q", p.what, f.What, f.Evidence)
	}
	commands := slices.Clone(f.Change)
	for _, other := range f.Or {
		commands = append(commands, "or "+other)
	}
	if diff := cmp.Diff(p.change, commands); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if f.Evidence == "" || f.Why == "" || len(f.Measure) == 0 {
		t.Errorf("it leaves something out: %+v", f)
	}
	if f.Check != "edge" && f.Check != "remotes" && !strings.ContainsAny(f.Why, "0123456789") {
		t.Errorf("it does not say why with a number: %s", f.Why)
	}
	p.quotes(t)
}

var quotedWord = regexp.MustCompile(`'[^']*'`)

// quotes: where all interfaces have names that a shell would run, it runs none of a finding's commands' words.
func (p plant) quotes(t *testing.T) {
	t.Helper()
	inv := recorded(t, "server")
	p.do(inv)
	text, err := json.Marshal(inv)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"eth0", "vxlan0", "tap0", "br0"} {
		text = bytes.ReplaceAll(text, []byte(`"`+name+`"`), []byte(`"a b;$(`+name+`)"`))
	}
	odd := new(Inventory)
	if err := json.Unmarshal(text, odd); err != nil {
		t.Fatal(err)
	}
	for _, f := range bad(Diagnose(*odd).Findings) {
		for _, line := range slices.Concat(f.Change, f.Or, f.Measure) {
			if strings.Contains(quotedWord.ReplaceAllString(line, ""), "$(") {
				t.Errorf("%s: a name is no word of a shell: %s", f.Check, line)
			}
		}
	}
}

// on is the link of that name, which the recording has.
func (inv *Inventory) on(name string) *Link {
	l, _ := inv.link(name)
	return l
}

func feature(link, name string, f Feature) func(*Inventory) {
	return func(inv *Inventory) { inv.on(link).NIC.Features[name] = f }
}

func TestMTU(t *testing.T) {
	for _, p := range []plant{
		{"underlay", func(inv *Inventory) {
			inv.on("eth0").MTU = 1500
			for i := range inv.Tunnels[0].Paths {
				inv.Tunnels[0].Paths[i].MTU = 1500
			}
		}, "mtu", Fault, "vxlan0", "MTU of eth0 is 1500, on the way to 192.0.2.2, 192.0.2.3 over eth0", []string{
			"ip link set dev eth0 mtu 1550",
			"or ip link set dev vxlan0 mtu 1450  # lower the overlay, and its end systems too",
		}},
		{"that nobody fills", func(inv *Inventory) { inv.on("vxlan0").MTU, inv.Tunnels[0].MTU = 1600, 1600 },
			"mtu", Note, "vxlan0", "so far its ports send no more than 1500", []string{
				"ip link set dev eth0 mtu 1650",
				"or ip link set dev vxlan0 mtu 1550  # lower the overlay, and its end systems too",
			}},
		{"route", func(inv *Inventory) { inv.Tunnels[0].Paths[1].MTU = 1400 },
			"mtu", Fault, "vxlan0", "packets of 1500 bytes leave vxlan0 with 1550, but the route takes 1400", []string{
				"ip -4 route flush cache  # if a router reported it (ip route get 192.0.2.3 says expires); else change that route's mtu",
				"or ip link set dev vxlan0 mtu 1350  # lower the overlay, and its end systems too",
			}},
		{"below a VLAN", func(inv *Inventory) {
			vlan := *inv.on("eth0")
			vlan.Name, vlan.Kind, vlan.Lower, vlan.NIC = "eth0.7", "vlan", "eth0", nil
			inv.Links = append(inv.Links, vlan)
			inv.on("eth0").MTU = 1504
			for i := range inv.Tunnels[0].Paths {
				inv.Tunnels[0].Paths[i].Interface, inv.Tunnels[0].Paths[i].Hops = "eth0.7", inv.hops("eth0.7")
			}
		}, "mtu", Fault, "vxlan0", "eth0 takes 1504", []string{
			"ip link set dev eth0 mtu 1550",
			"or ip link set dev vxlan0 mtu 1454  # lower the overlay, and its end systems too",
		}},
		{"ports of a segment, as the edge says", func(inv *Inventory) {
			inv.Tunnels[0].Source, inv.Tunnels[0].Name, inv.Tunnels[0].Device, inv.Tunnels[0].MTU = fromSelvage, "a/blue", "", 0
			inv.on("tap0").MTU = 9000
			inv.Edges[0].Problems = []problem.Problem{problem.Warning("port tap0 has MTU 9000, the tunnel to 192.0.2.2 carries 1550")}
		}, "edge", Warning, "a", "port tap0 has MTU 9000", nil},
		{"ports of a segment that answers", func(inv *Inventory) {
			inv.Tunnels[0].Source, inv.Tunnels[0].Name, inv.Tunnels[0].Device, inv.Tunnels[0].MTU, inv.Tunnels[0].Answers = fromSelvage, "a/blue", "", 0, true
			inv.on("tap0").MTU = 9000
		}, "mtu", Note, "a/blue", "MTU 9000 of tap0 + 50 bytes of vxlan over IPv4 = 9050", []string{
			"ip link set dev eth0 mtu 9050",
			"or ip link set dev tap0 mtu 1550  # lower the overlay, and its end systems too",
		}},
		{"IPv6", func(inv *Inventory) {
			six := netip.MustParseAddr("2001:db8::2")
			t := &inv.Tunnels[0]
			t.Remotes, t.Checksum = []netip.Addr{six}, nil
			t.Zero6Rx = new(bool)
			*t.Zero6Rx = true
			t.Paths = []Path{{Remote: six, Reachable: true, Interface: "eth0", MTU: 1560, Hops: []string{"eth0"}}}
			inv.on("eth0").MTU = 1560
		}, "mtu", Fault, "vxlan0", "+ 70 bytes of vxlan over IPv6 = 1570", []string{
			"ip link set dev eth0 mtu 1570",
			"or ip link set dev vxlan0 mtu 1490  # lower the overlay, and its end systems too",
		}},
		{"ports of a bridge", func(inv *Inventory) { inv.on("tap0").MTU = 1600 },
			"port-mtu", Warning, "tap0", "frames of up to 1600 bytes enter vxlan0, which carries 1500",
			[]string{"ip link set dev tap0 mtu 1500  # and the end system behind it"}},
		{"the bridge itself", func(inv *Inventory) {
			inv.on("br0").MTU, inv.on("br0").Addrs = 9000, []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}
		}, "port-mtu", Warning, "br0", "frames of up to 9000 bytes",
			[]string{"ip link set dev br0 mtu 1500  # and the end system behind it"}},
		{"Geneve", func(inv *Inventory) { inv.Tunnels[0].Encapsulation = "geneve" },
			"headroom", Warning, "vxlan0", "100 bytes of room for Geneve's headers and options towards 192.0.2.2, 192.0.2.3, 200 wanted", []string{
				"ip link set dev eth0 mtu 1700",
				"or ip link set dev vxlan0 mtu 1400  # lower the overlay, and its end systems too",
			}},
	} {
		t.Run(p.name, p.run)
	}
}

func TestOverhead(t *testing.T) {
	four, six := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	for _, c := range []struct {
		encapsulation string
		vni           uint32
		want4, want6  int
	}{{"vxlan", 1, 50, 70}, {"geneve", 1, 50, 70}, {"nvgre", 1, 42, 62}, {"gretap", 1, 42, 62}, {"gretap", 0, 38, 58}, {"gre", 0, 24, 44}, {"gre", 7, 28, 48}, {"ipip", 0, 20, 40}} {
		tunnel := Tunnel{}
		tunnel.Encapsulation, tunnel.VNI = c.encapsulation, c.vni
		if got4, got6 := tunnel.overhead(four), tunnel.overhead(six); got4 != c.want4 || got6 != c.want6 {
			t.Errorf("%s, key %d: %d over IPv4 and %d over IPv6, want %d and %d", c.encapsulation, c.vni, got4, got6, c.want4, c.want6)
		}
	}
}

func shapes(link string, s host.Shaper) func(*Inventory) {
	return func(inv *Inventory) { inv.Shapers = map[string][]host.Shaper{link: {s}} }
}

// What limits by intent, and what is named alone.
func TestWay(t *testing.T) {
	const del = "tc qdisc del dev eth0 root  # if nobody wants it"
	for _, p := range []plant{
		{"tbf", shapes("eth0", host.Shaper{Kind: "tbf", Rate: 375e6}), "shaping", Warning, "eth0", "tbf limits what passes eth0 to 3 Gbit/s", []string{del}},
		{"htb", shapes("eth0", host.Shaper{Kind: "htb"}), "shaping", Note, "eth0", "htb limits or delays what passes eth0", []string{del}},
		{"netem", shapes("vxlan0", host.Shaper{Kind: "netem"}), "shaping", Warning, "vxlan0", "netem limits or delays", []string{"tc qdisc del dev vxlan0 root  # if nobody wants it"}},
		{"of a guest", shapes("tap0", host.Shaper{Kind: "tbf", Rate: 125e6}), "shaping", Note, "tap0", "to 1 Gbit/s", []string{"tc qdisc del dev tap0 root  # if nobody wants it"}},
		{"policer", shapes("eth0", host.Shaper{Kind: "police", Rate: 125e6}), "shaping", Warning, "eth0", "police limits what passes eth0 to 1 Gbit/s", nil},
		{"WireGuard", func(inv *Inventory) {
			inv.Tunnels = append(inv.Tunnels, Tunnel{Name: "wg0", Source: fromKernel, Device: "wg0", Up: true, Tunnel: host.Tunnel{Encapsulation: "wireguard"}})
		}, "tunnel", Note, "wg0", "wireguard is named here, and its ends and path MTUs are not examined", nil},
		{"IPsec", func(inv *Inventory) { inv.IPsec = new(2) }, "tunnel", Note, "host", "IPsec has 2 security associations", nil},
	} {
		t.Run(p.name, p.run)
	}
}

func TestRemotes(t *testing.T) {
	for _, p := range []plant{
		{"no route", func(inv *Inventory) { inv.Tunnels[0].Paths[1] = Path{Remote: inv.Tunnels[0].Remotes[1]} },
			"remotes", Fault, "vxlan0", "no route from 192.0.2.1 to 1 of 2 remotes", []string{"ip route add 192.0.2.3 via GATEWAY"}},
		{"itself", func(inv *Inventory) { inv.Tunnels[0].Paths[0].Local = true },
			"remotes", Fault, "vxlan0", "the remote 192.0.2.2 is this host", []string{"bridge fdb del 00:00:00:00:00:00 dev vxlan0 dst 192.0.2.2"}},
		{"none", func(inv *Inventory) { inv.Tunnels[0].Paths, inv.Tunnels[0].Remotes = nil, nil },
			"remotes", Note, "vxlan0", "no remote", []string{"bridge fdb append 00:00:00:00:00:00 dev vxlan0 dst REMOTE"}},
		{"down", func(inv *Inventory) { inv.Tunnels[0].Up = false },
			"remotes", Warning, "vxlan0", "down", []string{"ip link set dev vxlan0 up"}},
		{"edge in trouble", func(inv *Inventory) {
			inv.Edges[0].Problems = []problem.Problem{problem.Note("port p0 has MTU 1500, …"), problem.Warning("port p0: no interface veth0")}
		},
			"edge", Warning, "a", "port p0: no interface veth0", nil},
		{"edge drops", func(inv *Inventory) { inv.Edges[0].Drops = map[string]uint64{"too-big": 2, "no-remote": 5} },
			"edge", Note, "a", "no-remote 5, too-big 2", nil},
	} {
		t.Run(p.name, p.run)
	}
}

// No encapsulation that the doctor was not told of, no remote that comes with
// the packet and no absent number makes a finding.
func TestUnknownIsNotAFault(t *testing.T) {
	inv := recorded(t, "server")
	inv.Tunnels[0].External, inv.Tunnels[0].Paths, inv.Tunnels[0].Remotes = true, nil, nil
	inv.Machine = Machine{}
	inv.Softnet = nil
	l := inv.on("eth0")
	l.NIC, l.PCI, l.IRQs, l.RPS = &NIC{}, &PCI{Address: l.PCI.Address}, nil, nil
	inv.unknown("everything", "not readable here")
	r := Diagnose(*inv)
	if found := bad(r.Findings); len(found) > 0 {
		t.Errorf("of what was not read it says %+v", found)
	}
	if diff := cmp.Diff([]Unknown{{What: "everything", Why: "not readable here"}}, r.Unknown); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
}
