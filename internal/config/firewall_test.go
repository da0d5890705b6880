package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/selvage/selvage/internal/overlay"
)

// ports is a number of destination ports of TCP (6) or UDP (17).
func ports(protocol int, list ...overlay.PortRange) overlay.Service {
	return overlay.Service{Protocol: protocol, Ports: list, ICMPType: -1, ICMPCode: -1}
}

func one(port uint16) overlay.PortRange { return overlay.PortRange{First: port, Last: port} }

func icmpOf(protocol, kind, code int) overlay.Service {
	return overlay.Service{Protocol: protocol, ICMPType: kind, ICMPCode: code}
}

func inGroup(names ...string) (list []overlay.Member) {
	for _, n := range names {
		list = append(list, overlay.Member{Group: n})
	}
	return list
}

func within(prefix string) overlay.Member {
	return overlay.Member{Prefix: netip.MustParsePrefix(prefix)}
}

func between(first, last string) overlay.Member {
	return overlay.Member{Range: overlay.AddrRange{First: netip.MustParseAddr(first), Last: netip.MustParseAddr(last)}}
}

func labelled(name, value string) []overlay.Member {
	return []overlay.Member{{Labels: map[string]string{name: value}}}
}

var equateAddrs = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

func TestLoadFirewall(t *testing.T) {
	got, err := Load("../../examples/firewall.yaml")
	if err != nil {
		t.Fatal(err)
	}
	database := []overlay.Service{ports(tcp, one(5432)), ports(tcp, one(6432))}
	ntp := ports(udp, one(123))
	ntp.SourcePorts = []overlay.PortRange{one(123), {First: 1024, Last: 65535}}
	want := &overlay.Firewall{
		Default: overlay.Drop, NonIP: overlay.Drop, Strict: true,
		Sizes:    overlay.ConnectionSizes{Connections: 131072, HalfOpen: 16384},
		Timeouts: overlay.DefaultTimeouts, LogRate: 100,
		Groups: []overlay.Group{
			{Name: "web", Members: labelled("tier", "web")},
			{Name: "app", Members: labelled("tier", "app")},
			{Name: "db", Members: append(labelled("tier", "db"), within("10.1.3.0/28"))},
			{Name: "admins", Members: []overlay.Member{
				within("10.9.0.0/24"), between("10.8.0.5", "10.8.0.9"), within("fd00:9::/64"), {Port: "storage.20"},
			}},
			{Name: "shop", Members: inGroup("web", "app", "db")},
			{Name: "guests"},
			{Name: "resolvers", Members: []overlay.Member{within("10.1.0.53/32"), within("fd00::53/128")}},
			{Name: "monitors", Members: []overlay.Member{within("10.7.0.0/29")}},
		},
		Rules: []overlay.Rule{
			{
				Section: "emergency", Name: "quarantine", Verdict: overlay.Drop, Direction: overlay.Both,
				From: []overlay.Member{{MAC: &overlay.MAC{2, 0, 0, 0, 0, 0x66}}, within("10.1.2.66/32")},
				Log:  true, Comment: "found scanning, waits for its owner",
			},
			{Section: "infrastructure", Name: "ping", Verdict: overlay.Allow, Direction: overlay.Both,
				Services: []overlay.Service{icmpOf(1, 8, -1), icmpOf(58, 128, -1)}},
			{Section: "infrastructure", Name: "names", Verdict: overlay.Allow, Direction: overlay.Out, To: inGroup("resolvers"),
				Services: []overlay.Service{ports(udp, one(53)), ports(tcp, one(53))}},
			{Section: "infrastructure", Name: "time", Verdict: overlay.Allow, Direction: overlay.Out, Services: []overlay.Service{ntp}},
			{Section: "infrastructure", Name: "ssh", Verdict: overlay.Allow, Direction: overlay.Both, From: inGroup("admins"), To: inGroup("shop"),
				Services: []overlay.Service{ports(tcp, one(22))}, Log: true},
			{Section: "monitoring", Name: "1001", Verdict: overlay.Allow, Direction: overlay.Both, From: inGroup("monitors"), To: inGroup("shop"),
				Services: []overlay.Service{ports(tcp, one(9100), one(9187))}},
			{Section: "monitoring", Name: "1002", Verdict: overlay.Allow, Direction: overlay.Both, From: inGroup("monitors"), To: inGroup("db"), Services: database},
			{Section: "shop", Name: "customers", Verdict: overlay.Allow, Direction: overlay.Both, To: inGroup("web"),
				Services: []overlay.Service{ports(tcp, one(80), one(443)), ports(udp, one(443))}},
			{Section: "shop", Name: "web-to-app", Verdict: overlay.Allow, Direction: overlay.Both, From: inGroup("web"), To: inGroup("app"),
				Services: []overlay.Service{ports(tcp, overlay.PortRange{First: 8000, Last: 8099})}},
			{Section: "shop", Name: "app-to-db", Verdict: overlay.Allow, Direction: overlay.Both, From: inGroup("app"), To: inGroup("db"), Services: database},
			{Section: "shop", Name: "app-speaks-to-nobody-else", Verdict: overlay.LogOnly, Direction: overlay.Out, AppliedTo: inGroup("app")},
			{Section: "shop", Name: "within", Verdict: overlay.Reject, Direction: overlay.Both, From: inGroup("shop"), To: []overlay.Member{{Segment: "shop"}}},
		},
		Defaults: map[string]overlay.Verdict{"backup": overlay.Allow},
	}
	if diff := cmp.Diff(want, got.Firewall, equateAddrs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"tier": "web", "stage": "live"}, got.Ports[0].Labels); diff != "" {
		t.Error(diff)
	}
}

// site has what members refer to; what follows begins in line 12.
const site = blue + `  routers: [{name: r, l3: {vni: 9, mac: "02:00:00:00:00:09"}, uplinks: [{name: wan, interface: eth1, addresses: [198.51.100.2/24]}]}]
  ports:
  - {name: p0, interface: veth0, segment: blue, labels: {tier: web}}
  - {name: rack, interface: eth2, vlans: [{vlan: 10, segment: blue}]}
`

func parseFirewall(t *testing.T, text string) *overlay.Firewall {
	t.Helper()
	got, err := Parse("f", []byte(site+text))
	if err != nil {
		t.Fatal(err)
	}
	return got.Firewall
}

func TestFirewallDefaults(t *testing.T) {
	want := &overlay.Firewall{
		Default: overlay.Allow, NonIP: overlay.Allow, Sizes: overlay.ConnectionSizes{Connections: 131072, HalfOpen: 16384},
		Timeouts: overlay.DefaultTimeouts, LogRate: 100,
	}
	if diff := cmp.Diff(want, parseFirewall(t, "  firewall: {}\n")); diff != "" {
		t.Error(diff)
	}
	if got := parseFirewall(t, ""); got != nil {
		t.Errorf("a firewall that nobody asked for: %+v", got)
	}
}

func TestFirewallSettings(t *testing.T) {
	got := parseFirewall(t, `  firewall:
    {default: reject, connections: 16777216, halfOpen: 4096, logRate: 0, timeouts: {established: 1h, closed: 10s, udp: 20s}}
`)
	timeouts := overlay.DefaultTimeouts
	timeouts.Established, timeouts.Closed, timeouts.UDP = time.Hour, 10*time.Second, 20*time.Second
	want := &overlay.Firewall{
		Default: overlay.Reject, NonIP: overlay.Allow, Timeouts: timeouts,
		Sizes: overlay.ConnectionSizes{Connections: 16777216, HalfOpen: 4096},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMembers(t *testing.T) {
	group := "  firewall: {groups: [{name: g, members: [10.0.0.1]}, {name: fe.80, members: [10.0.0.1]}], sections: [{name: s, rules: [{name: r, action: allow, from: ["
	for text, want := range map[string]overlay.Member{
		`10.0.0.5`:                within("10.0.0.5/32"),
		`"2001:db8::5"`:           within("2001:db8::5/128"),
		`0.0.0.0/0`:               within("0.0.0.0/0"),
		`"::/0"`:                  within("::/0"),
		`224.0.0.0/4`:             within("224.0.0.0/4"),
		`10.0.0.5-10.0.0.5`:       between("10.0.0.5", "10.0.0.5"),
		`10.0.0.250 - 10.0.1.4`:   between("10.0.0.250", "10.0.1.4"),
		`"fd00::1-fd00::ffff"`:    between("fd00::1", "fd00::ffff"),
		`"02:00:00:00:00:0A"`:     {MAC: &overlay.MAC{2, 0, 0, 0, 0, 10}},
		`aa-bb-cc-dd-ee-0f`:       {MAC: &overlay.MAC{0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0x0f}},
		`aabb.ccdd.ee0f`:          {MAC: &overlay.MAC{0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0x0f}},
		`"ff:ff:ff:ff:ff:ff"`:     {MAC: &overlay.MAC{255, 255, 255, 255, 255, 255}},
		`g`:                       {Group: "g"},
		`fe.80`:                   {Group: "fe.80"},
		`{group: g}`:              {Group: "g"},
		`{segment: blue}`:         {Segment: "blue"},
		`{segment: r-l3}`:         {Segment: "r-l3"},
		`{segment: wan}`:          {Segment: "wan"},
		`{port: p0}`:              {Port: "p0"},
		`{port: rack}`:            {Port: "rack"},
		`{port: rack.10}`:         {Port: "rack.10"},
		`{labels: {a.b/c: "1"}}`:  {Labels: map[string]string{"a.b/c": "1"}},
		`{labels: {a: "", b: x}}`: {Labels: map[string]string{"a": "", "b": "x"}},
	} {
		t.Run(text, func(t *testing.T) {
			got := parseFirewall(t, group+text+"]}]}]}\n").Rules[0]
			if diff := cmp.Diff([]overlay.Member{want}, got.From, equateAddrs); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := parseFirewall(t, group+"any]}]}]}\n").Rules[0]; got.From != nil {
		t.Errorf("any is %v", got.From)
	}
}

func TestServices(t *testing.T) {
	rule := `  firewall: {services: [{name: web, members: [tcp/80, udp/443]}], sections: [{name: s, rules: [{name: r, action: allow, services: [`
	source := ports(tcp)
	source.SourcePorts = []overlay.PortRange{{First: 1024, Last: 65535}}
	for text, want := range map[string][]overlay.Service{
		`tcp/443`:                        {ports(tcp, one(443))},
		`tcp`:                            {ports(tcp)},
		`"udp/53,5353"`:                  {ports(udp, one(53), one(5353))},
		`"sctp/1-2, 7"`:                  {ports(sctp, overlay.PortRange{First: 1, Last: 2}, one(7))},
		`tcp/0-65535`:                    {ports(tcp, overlay.PortRange{First: 0, Last: 65535})},
		`icmp`:                           {icmpOf(1, -1, -1)},
		`icmp/8`:                         {icmpOf(1, 8, -1)},
		`icmp/3/4`:                       {icmpOf(1, 3, 4)},
		`icmpv6/128`:                     {icmpOf(58, 128, -1)},
		`gre`:                            {icmpOf(47, -1, -1)},
		`ip/47`:                          {icmpOf(47, -1, -1)},
		`ip/0`:                           {icmpOf(0, -1, -1)},
		`web`:                            {ports(tcp, one(80)), ports(udp, one(443))},
		`web, tcp/22`:                    {ports(tcp, one(80)), ports(udp, one(443)), ports(tcp, one(22))},
		`{protocol: tcp, ports: [1-2]}`:  {ports(tcp, overlay.PortRange{First: 1, Last: 2})},
		`{protocol: 6, ports: [9, "8"]}`: {ports(tcp, one(9), one(8))},
		`{protocol: tcp, sourcePorts: [1024-65535]}`:  {source},
		`{protocol: icmpv6, type: 1, code: 0}`:        {icmpOf(58, 1, 0)},
		`{protocol: 0}`:                               {icmpOf(0, -1, -1)},
		`{protocol: icmp}, {protocol: icmp, type: 0}`: {icmpOf(1, -1, -1), icmpOf(1, 0, -1)},
	} {
		t.Run(text, func(t *testing.T) {
			got := parseFirewall(t, rule+text+"]}]}]}\n").Rules[0]
			if diff := cmp.Diff(want, got.Services, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A rule whose source and destination have a family in common can match.
func TestFamilies(t *testing.T) {
	for _, vports := range []string{
		`from: [10.0.0.0/24, "fd00::/64"], to: [10.0.0.0/24, "fd00::/64"]`, `from: [10.0.0.0/24], to: [10.0.1.0/24, "fd00::/64"]`,
		`from: [10.0.0.0/24], to: [{segment: blue}]`, `from: [10.0.0.0/24, "02:00:00:00:00:01"], to: ["fd00::/64"]`, `to: ["fd00::/64"]`,
	} {
		parseFirewall(t, "  firewall: {sections: [{name: s, rules: [{name: r, action: allow, "+vports+"}]}]}\n")
	}
}

func TestRuleOrder(t *testing.T) {
	got := parseFirewall(t, `  firewall:
    sections:
    - {name: last, priority: 9, rules: [{name: z, action: drop}]}
    - name: b
      rules:
      - {name: second, priority: 1, action: allow}
      - {name: first, action: allow}
      - {name: third, priority: 1, action: allow}
      - {name: gone, action: allow, disabled: true}
    - {name: c, rules: [{name: first, action: drop}]}
    - {name: empty}
`)
	var order []string
	for _, r := range got.Rules {
		order = append(order, r.Section+"/"+r.Name)
	}
	if want := []string{"b/first", "b/second", "b/third", "c/first", "last/z"}; !slices.Equal(order, want) {
		t.Errorf("asked in the order %v, want %v", order, want)
	}
}

func TestInclude(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("good.yaml", "sections: [{name: more, rules: [{name: r, action: allow, from: [g], services: [web]}]}]\n")
	write("empty.yaml", "")
	write("same.json", `{"groups": [{"name": "g", "members": ["10.0.0.2"]}],`+"\n"+` "sections": [{"name": "s", "rules": [{"name": "r", "action": "alow"}]}], "rules": []}`)
	edge := func(files string) string {
		return write("edge.yaml", under+"  firewall:\n    include: ["+files+"]\n    groups: [{name: g, members: [10.0.0.1]}]\n"+
			"    services: [{name: web, members: [tcp/80]}]\n    sections: [{name: s, rules: [{name: first, action: drop}]}]\n")
	}
	got, err := Load(edge("good.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if r := got.Firewall.Rules; len(r) != 2 || r[0].Section != "s" || r[1].Section != "more" || len(r[1].Services) != 1 {
		t.Errorf("rules %+v", r)
	}
	if got, err = Load(edge(filepath.Join(dir, "good.yaml"))); err != nil || len(got.Firewall.Rules) != 2 {
		t.Errorf("by an absolute path: %v", err)
	}
	_, err = Load(edge("same.json, nowhere.json, empty.yaml"))
	if err == nil {
		t.Fatal("it takes mistakes in included files")
	}
	want := strings.Join([]string{
		`edge.yaml:7:26: spec.firewall.include[1]: open nowhere.json: no such file or directory; paths are relative to the directory of this file`,
		`same.json:1:22: groups[0].name: group "g" already exists (edge.yaml:8:21); names of groups are unique`,
		`same.json:2:24: sections[0].name: section "s" already exists (edge.yaml:10:23); names of sections are unique`,
		`same.json:2:63: sections[0].rules[0].action: "alow" is not supported; write allow or drop or reject or log-only`,
		`same.json:2:75: rules: unknown field; fields here: groups, services, sections`,
		`empty.yaml:1:1: the file is empty; see examples/policy.json for a configuration`,
	}, "\n")
	if got := strings.ReplaceAll(err.Error(), dir+"/", ""); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// isName is the pattern, written out.
func TestNamePatterns(t *testing.T) {
	for _, text := range []string{"a", "Z9", "a.b-c_d", "", "9", ".a", "a b", "ä", "a/b", strings.Repeat("a", 63), strings.Repeat("a", 64)} {
		if isName(text) != objectNamePattern.MatchString(text) {
			t.Errorf("%q: isName says %v", text, isName(text))
		}
	}
}
