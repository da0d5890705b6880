package proxmox

import (
	"flag"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/config"
)

var update = flag.Bool("update", false, "write what is expected anew")

// full is files with everything that Proxmox VE 8 and 9 know.
var full = map[string]string{
	"controllers.cfg": `evpn: fabric
	asn 65000
	peers 192.0.2.1,192.0.2.2 192.0.2.3
	nodes pve1,pve2
	peer-group-name ONE
	bgp-mode auto
	ebgp-multihop 3

evpn: dci
	asn 65010
	peers 203.0.113.9
	bgp-mode external
	route-map-out only-ours

bgp: bgppve2
	asn 65002
	ebgp 1
	ebgp-multihop 2
	loopback lo
	node pve2
	peers 198.51.100.1
	route-map-in x

isis: isispve2
	isis-domain d
	isis-ifaces eth0
	isis-net 49.0001.1921.6800.1002.00
	node pve2
`,
	"zones.cfg": `# edited by hand
evpn: red
	controller fabric
	vrf-vxlan 1000
	advertise-subnets 1
	bridge-disable-mac-learning 1
	disable-arp-nd-suppression 1
	exitnodes pve1,edge
	exitnodes-local-routing 1
	exitnodes-primary pve1
	ipam netbox
	mac BC:24:11:00:00:01
	mtu 1400
	nodes pve1,pve2
	rt-import 65001:1000,65002:1000
	secondary-controllers dci
	vxlan-port 4790

evpn: blue
	controller fabric
	vrf-vxlan 2000

vxlan: flat
	peers 192.0.2.1,192.0.2.2

vlan: office
	bridge vmbr0
`,
	"vnets.cfg": `vnet: red1
	zone red
	tag 1001
	alias the first one
	isolate-ports 1

vnet: blue1
	zone blue
	tag 2001

vnet: flat1
	zone flat
	tag 3001
	vlanaware 1

vnet: office1
	zone office
	tag 10
`,
	"subnets.cfg": `subnet: red-10.1.0.0-24
	vnet red1
	gateway 10.1.0.1
	snat 1
	dhcp-range start-address=10.1.0.100,end-address=10.1.0.120
	dhcp-range start-address=10.1.0.130,end-address=10.1.0.140
	dhcp-dns-server 10.1.0.2
	dnszoneprefix red

subnet: red-fd00:1::-64
	vnet red1
	gateway fd00:1::1

subnet: blue-10.2.0.0-24
	vnet blue1
	gateway 10.2.0.1

subnet: flat-10.3.0.0-24
	vnet flat1
	gateway 10.3.0.1
`,
}

func directory(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func options() Options {
	return Options{Name: "edge", TEP: netip.MustParseAddr("192.0.2.1"), Interface: "eth0"}
}

// All that is configured is carried over or noted, and makes a configuration.
func TestImport(t *testing.T) {
	exit := &Exit{Interface: "eth1", Addresses: []netip.Prefix{netip.MustParsePrefix("203.0.113.2/24"), netip.MustParsePrefix("2001:db8:5::2/64")},
		Gateways: []netip.Addr{netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("2001:db8:5::1")}}
	for name, change := range map[string]func(*Options){
		"member":   func(*Options) {},
		"exit":     func(o *Options) { o.Zones, o.Exit = []string{"red"}, exit },
		"vxlan":    func(o *Options) { o.Zones = []string{"flat"} },
		"stranger": func(o *Options) { o.TEP = netip.MustParseAddr("192.0.2.9") },
		"ipv6": func(o *Options) {
			o.TEP, o.Zones, o.Peers = netip.MustParseAddr("2001:db8::1"), []string{"blue"}, []netip.Addr{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			change(&o)
			dir := directory(t, full)
			result, err := Import(dir, o)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := config.Parse(name, []byte(result.YAML)); err != nil {
				t.Errorf("it makes no configuration: %v\n%s", err, result.YAML)
			}
			got := strings.ReplaceAll(result.YAML, dir, "DIR") + "---\n" + strings.Join(result.Notes, "\n") + "\n"
			file := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("it is\n%s\nand not\n%s", got, want)
			}
		})
	}
}

// What is wrong has its place, and is never left out.
func TestImportErrors(t *testing.T) {
	for _, c := range []struct {
		name, file, old, now string
		change               func(*Options)
		want                 string
	}{
		{"Unknown", "zones.cfg", "mtu 1400", "new-thing 7", nil, `zones.cfg:13: evpn "red": the property "new-thing" is unknown`},
		{"UnknownType", "zones.cfg", "vlan: office", "wifi: office", nil, `zones.cfg:26: a zone of type "wifi" is unknown`},
		{"NoHeader", "vnets.cfg", "vnet: blue1", "blue1", nil, `vnets.cfg:7: "blue1" is not "TYPE: NAME"`},
		{"Twice", "vnets.cfg", "tag 2001", "tag 2001\n\ttag 2002", nil, `vnets.cfg:9: vnet "blue1": tag is there twice`},
		{"TwoSections", "vnets.cfg", "vnet: flat1", "vnet: red1", nil, `there are two sections "red1"`},
		{"NoZone", "vnets.cfg", "zone blue", "zone green", nil, `vnets.cfg:8: vnet "blue1": there is no zone "green"`},
		{"NoVNet", "subnets.cfg", "vnet blue1", "vnet blue2", nil, `subnets.cfg:15: subnet "blue-10.2.0.0-24": there is no VNet "blue2"`},
		{"NoController", "zones.cfg", "controller fabric\n\tvrf-vxlan 2000", "controller none\n\tvrf-vxlan 2000", nil, `there is no controller "none"`},
		{"NoTag", "vnets.cfg", "tag 2001", "alias x", nil, `vnets.cfg:7: vnet "blue1": it has no tag`},
		{"LargeTag", "vnets.cfg", "tag 2001", "tag 16777216", nil, `tag "16777216" is not a number from 1 to 16777215`},
		{"Gateway", "subnets.cfg", "gateway 10.2.0.1", "gateway 10.9.0.1", nil, `10.9.0.1 is not in 10.2.0.0/24`},
		{"Subnet", "subnets.cfg", "subnet: blue-10.2.0.0-24", "subnet: blue", nil, `it is not ZONE-ADDRESS-LENGTH`},
		{"MAC", "zones.cfg", "BC:24:11:00:00:01", "BC:24:11", nil, `"BC:24:11" is not a MAC address`},
		{"Name", "vnets.cfg", "vnet: blue1", "vnet: blue1},{x", nil, `"blue1},{x" is no name of a vnet`},
		{"Fabric", "controllers.cfg", "peers 192.0.2.1,192.0.2.2 192.0.2.3", "fabric f1", nil, `name their addresses by --peer`},
		{"Alone", "controllers.cfg", "peers 192.0.2.1,192.0.2.2 192.0.2.3", "peers 192.0.2.1", nil, `there is no peer besides 192.0.2.1`},
		{"External", "controllers.cfg", "bgp-mode auto", "bgp-mode external", nil, `controllers.cfg:6: evpn "fabric": bgp-mode external has the nodes take sessions from another AS`},
		{"RouteMap", "controllers.cfg", "ebgp-multihop 3", "route-map-in only-ours", nil, `controllers.cfg:7: evpn "fabric": route-map-in only-ours chooses the routes`},
		{"Secondary", "controllers.cfg", "bgp-mode external\n", "bgp-mode internal\n", nil, `sessions of dci are not of bgp-mode external`},
		{"TwoControllers", "zones.cfg", "controller fabric\n\tvrf-vxlan 2000", "controller dci\n\tvrf-vxlan 2000", nil, `the controller dci is another than fabric`},
		{"NoSuchZone", "", "", "", func(o *Options) { o.Zones = []string{"green"} }, `there is no zone "green"; there are red, blue, flat, office`},
		{"Office", "", "", "", func(o *Options) { o.Zones = []string{"office"} }, `a zone without tunnels stays with its node`},
		{"TwoExits", "", "", "", func(o *Options) { o.Exit = &Exit{} }, `choose one zone of type evpn by --zone`},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := maps.Clone(full)
			if c.file != "" {
				files[c.file] = strings.Replace(full[c.file], c.old, c.now, 1)
				if files[c.file] == full[c.file] {
					t.Fatalf("no %q in %s", c.old, c.file)
				}
			}
			o := options()
			if c.change != nil {
				c.change(&o)
			}
			if _, err := Import(directory(t, files), o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it says %v, and not %s", err, c.want)
			}
		})
	}
	if _, err := Import(t.TempDir(), options()); err == nil || !strings.Contains(err.Error(), "there is no zone") {
		t.Errorf("an empty directory: %v", err)
	}
}

// Each property that the API of Proxmox VE 9 lists for a kind of section is known, but for those of other types.
func TestAPI(t *testing.T) {
	text, err := os.ReadFile("testdata/api.txt")
	if err != nil {
		t.Fatal(err)
	}
	others := strings.Fields("bridge tag vlan-protocol dp-id isis-domain isis-ifaces isis-net")
	for line := range strings.Lines(string(text)) {
		what, names, is := strings.Cut(line, ": ")
		if !is || line[0] == '#' {
			continue
		}
		for _, name := range strings.Fields(names) {
			is := slices.Contains(others, name) && what != "vnet"
			for kind, known := range properties {
				is = is || strings.HasPrefix(kind, what+" ") && slices.Contains(known, name)
			}
			if !is {
				t.Errorf("%s of a %s is unknown", name, what)
			}
		}
	}
}

// FuzzImport: whatever zones.cfg has, the result is an error with its place or a text with one edge.
func FuzzImport(f *testing.F) {
	f.Add(full["zones.cfg"])
	f.Fuzz(func(t *testing.T, text string) {
		files := maps.Clone(full)
		files["zones.cfg"] = text
		result, err := Import(directory(t, files), options())
		if err == nil && strings.Count(result.YAML, "kind: Edge\n") != 1 {
			t.Errorf("%q makes %s", text, result.YAML)
		}
	})
}
