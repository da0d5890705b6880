package filter_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/experiment/latency/filter"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/testlab"
)

func prefixes(list ...string) (members []overlay.Member) {
	for _, text := range list {
		members = append(members, overlay.Member{Prefix: netip.MustParsePrefix(text)})
	}
	return members
}

func service(protocol int, ports ...overlay.PortRange) overlay.Service {
	return overlay.Service{Protocol: protocol, Ports: ports, ICMPType: -1, ICMPCode: -1}
}

// threeTiers is a policy with most of what can be said.
func threeTiers() overlay.Firewall {
	rule := func(name string, verdict overlay.Verdict, from, to []overlay.Member, services ...overlay.Service) overlay.Rule {
		return overlay.Rule{Section: "tiers", Name: name, Verdict: verdict, Direction: overlay.Both, From: from, To: to, Services: services}
	}
	echo := overlay.Service{Protocol: 1, ICMPType: 8, ICMPCode: -1}
	return overlay.Firewall{
		Default: overlay.Drop, NonIP: overlay.Allow, Strict: true, LogRate: 7, Timeouts: overlay.DefaultTimeouts,
		Sizes:  overlay.ConnectionSizes{Connections: 2048, HalfOpen: 1024},
		Groups: []overlay.Group{{Name: "web", Members: prefixes("10.0.0.0/25", "fd00::/65")}},
		Rules: []overlay.Rule{
			rule("ping", overlay.Allow, nil, nil, echo),
			rule("telnet", overlay.Drop, nil, prefixes("10.0.0.0/24"), service(6, overlay.PortRange{First: 23, Last: 23})),
			rule("web", overlay.Allow, prefixes("192.0.2.0/24"), []overlay.Member{{Group: "web"}},
				service(6, overlay.PortRange{First: 80, Last: 80}, overlay.PortRange{First: 8000, Last: 8009}), service(17)),
			rule("all", overlay.Allow, []overlay.Member{{Group: "web"}}, []overlay.Member{{Group: "web"}}),
		},
	}
}

func TestNftables(t *testing.T) {
	text, err := filter.Nftables(threeTiers())
	if err != nil {
		t.Fatal(err)
	}
	_, rules, _ := strings.Cut(text, "policy drop;\n")
	want := `		ct state established,related accept
		ct state invalid drop
		icmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert } accept
		icmp type 8 accept
		ip daddr 10.0.0.0/24 tcp dport 23 drop
		ip saddr 192.0.2.0/24 ip daddr 10.0.0.0/25 tcp dport { 80, 8000-8009 } accept
		ip saddr 192.0.2.0/24 ip daddr 10.0.0.0/25 meta l4proto udp accept
		ip saddr 10.0.0.0/25 ip daddr 10.0.0.0/25 counter name passed accept
		ip6 saddr fd00::/65 ip6 daddr fd00::/65 counter name passed accept
	}
}
`
	if diff := cmp.Diff(want, rules); diff != "" {
		t.Error(diff)
	}
}

func TestOVSFlows(t *testing.T) {
	fw := threeTiers()
	fw.Rules = fw.Rules[1:] // flows here know no ICMP types
	text, err := filter.OVSFlows(fw)
	if err != nil {
		t.Fatal(err)
	}
	_, flows, _ := strings.Cut(text, "ct_state=+trk+rel,actions=NORMAL\n")
	const base = ",table=1,priority=59999,ct_state=+trk+new,"
	want := `cookie=0x0` + base + `tcp,nw_dst=10.0.0.0/24,tp_dst=0x17/0xffff,actions=drop
cookie=0x0,table=1,priority=59998,ct_state=+trk+new,tcp,nw_src=192.0.2.0/24,nw_dst=10.0.0.0/25,tp_dst=0x50/0xffff,actions=ct(commit),NORMAL
cookie=0x0,table=1,priority=59998,ct_state=+trk+new,tcp,nw_src=192.0.2.0/24,nw_dst=10.0.0.0/25,tp_dst=0x1f40/0xfff8,actions=ct(commit),NORMAL
cookie=0x0,table=1,priority=59998,ct_state=+trk+new,tcp,nw_src=192.0.2.0/24,nw_dst=10.0.0.0/25,tp_dst=0x1f48/0xfffe,actions=ct(commit),NORMAL
cookie=0x0,table=1,priority=59998,ct_state=+trk+new,udp,nw_src=192.0.2.0/24,nw_dst=10.0.0.0/25,actions=ct(commit),NORMAL
cookie=0x5e1,table=1,priority=59998,ct_state=+trk+new,ip,nw_src=10.0.0.0/25,nw_dst=10.0.0.0/25,actions=ct(commit),NORMAL
cookie=0x5e1,table=1,priority=59998,ct_state=+trk+new,ipv6,ipv6_src=fd00::/65,ipv6_dst=fd00::/65,actions=ct(commit),NORMAL
table=1,priority=1,ct_state=+trk+new,actions=drop
table=1,priority=0,actions=drop
`
	if diff := cmp.Diff(want, flows); diff != "" {
		t.Error(diff)
	}
}

// What the lab writes for an edge is the policy that an edge reads.
func TestEdgePolicy(t *testing.T) {
	fw := threeTiers()
	fw.Rules[0].AppliedTo = []overlay.Member{{Labels: map[string]string{"tier": "web"}}, {Port: "access"}, {Segment: "lab"}}
	rules, err := filter.EdgePolicy(fw)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "edge.yaml")
	site := topo.Site{Local: netip.MustParseAddr("192.0.2.1"), Remote: netip.MustParseAddr("192.0.2.2"), Access: []string{"p0", "p1"}}
	text := dut.SelvageHalf{}.Config("edge", site) + filter.EdgeFirewall(fw, "policy.json")
	// A configuration has to have a port with the label that a rule names.
	text = strings.Replace(text, "    - name: access\n", "    - name: access\n      labels: {tier: web}\n", 1)
	for file, content := range map[string][]byte{name: []byte(text), filepath.Join(dir, "policy.json"): rules} {
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	edge, err := config.Load(name)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if len(edge.Ports) != 2 || edge.Ports[1].Interface != "p1" {
		t.Errorf("ports %+v", edge.Ports)
	}
	if diff := cmp.Diff(&fw, edge.Firewall, cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{}), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

// What a bridge or a flow cannot tell is refused, not left out.
func TestFirewallsThatCannot(t *testing.T) {
	for name, change := range map[string]func(*overlay.Firewall){
		"direction":  func(fw *overlay.Firewall) { fw.Rules[1].Direction = overlay.In },
		"applied to": func(fw *overlay.Firewall) { fw.Rules[1].AppliedTo = []overlay.Member{{Port: "p0"}} },
		"port":       func(fw *overlay.Firewall) { fw.Rules[1].From = []overlay.Member{{Port: "p0"}} },
		"default":    func(fw *overlay.Firewall) { fw.Default = overlay.Reject },
		"segment":    func(fw *overlay.Firewall) { fw.Defaults = map[string]overlay.Verdict{"lab": overlay.Allow} },
	} {
		fw := threeTiers()
		fw.Rules = fw.Rules[1:]
		change(&fw)
		_, nft := filter.Nftables(fw)
		_, ovs := filter.OVSFlows(fw)
		if nft == nil || ovs == nil {
			t.Errorf("%s: errors %v and %v", name, nft, ovs)
		}
	}
}

// A policy of nftables comes into force at once, counts what it lets pass, and goes.
func TestFirewallKernel(t *testing.T) {
	t.Parallel()
	n := testlab.TwoHosts(t, topo.TwoHostsOptions{})
	half := filter.Kernel{}
	path, err := n.Build(t.Context(), half, half)
	if err != nil {
		t.Fatalf("%v\n%s", err, n.Picture())
	}
	answers := func(port int, want bool) {
		t.Helper()
		if got, err := n.Client.Answers(n.Pairs[0], port, map[bool]time.Duration{true: 5 * time.Second, false: 100 * time.Millisecond}[want]); err != nil || got != want {
			t.Errorf("port %d answers: %t (%v), want %t\n%s", port, got, err, want, n.Picture())
		}
	}
	fw := threeTiers()
	fw.Rules = []overlay.Rule{fw.Rules[1], {
		Section: "tiers", Name: "open", Verdict: overlay.Allow, Direction: overlay.Both,
		From: prefixes("10.0.0.0/24"), Services: []overlay.Service{service(6, overlay.PortRange{First: 20, Last: 30})},
	}}
	answers(23, true)
	if err := filter.Police(t.Context(), path, &fw); err != nil {
		t.Fatal(err)
	}
	if passed, err := filter.Passed(t.Context(), path); err != nil || passed != 0 {
		t.Errorf("%d passed before anything was sent (%v)", passed, err)
	}
	answers(22, true)
	answers(23, false) // by the first rule
	answers(99, false) // by the default
	if passed, err := filter.Passed(t.Context(), path); err != nil || passed != 1 {
		t.Errorf("%d passed of one (%v)", passed, err)
	}
	if err := filter.Police(t.Context(), path, nil); err != nil {
		t.Fatal(err)
	}
	answers(23, true)
}
