package config

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/overlay"
)

// exit is a good edge that is a gateway; what follows begins in line 17.
const exit = header + `spec:
  underlay: {interfaces: [eth0], tep: 192.0.2.1}
  remotes:
  - {name: b, addresses: [192.0.2.2, 192.0.2.12]}
  - {name: c, addresses: [192.0.2.3]}
  segments:
  - {name: blue, vni: 1, remotes: [b], gateway: {router: r, addresses: [10.0.0.254/24]}}
  routers:
  - name: r
    uplinks:
    - {name: wan, interface: eth1, addresses: [198.51.100.2/24]}
    - {name: lan, interface: eth2, addresses: [203.0.113.2/24, "2001:db8:5::2/64"]}
  ports: [{name: p0, interface: veth0, segment: blue, labels: {app: web}}]
`

// pair and withPolicy are what most cases need; the policy's fields begin in line 20,
// column 8.
const pair = "  egress:\n    gateways: [{name: gws, members: [a, b]}]\n"

func withPolicy(fields string) string {
	return exit + pair + "    policies:\n    - {" + fields + "}\n"
}

// good is a policy; what follows begins in column 89.
const good = "name: web, router: r, vni: 9, gateways: gws, pool: [198.51.100.10], uplink: wan"

var sameAddr = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
var samePrefix = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })

func parseEdge(t *testing.T, text string) overlay.Edge {
	t.Helper()
	e, err := Parse("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEgress(t *testing.T) {
	a := netip.MustParseAddr
	e := parseEdge(t, exit+`  firewall:
    groups: [{name: g, members: [10.0.0.9]}]
  egress:
    sessions: 1000000
    timeouts: {udp: 30s, closed: 20s}
    log: {enabled: true, rate: 7}
    gateways:
    - {name: gws, mode: active-active, members: [a, 192.0.2.12, 192.0.2.4], replication: {key: a secret of gateways}}
    - {name: far, members: [c], replication: {port: 1000}}
    policies:
    - name: web
      router: r
      vni: 9
      encapsulation: nvgre
      from: [g, 10.0.0.0/25, {segment: blue}, {labels: {app: web}}]
      to: [0.0.0.0/0]
      except: [203.0.113.9/32]
      gateways: gws
      pool: [203.0.113.10-203.0.113.20, 203.0.113.30, "2001:db8:5::10"]
      uplink: lan
      addressPooling: arbitrary
      mapping: endpoint-independent
      filtering: endpoint-independent
      ports: 2000-2009
      limit: 5
    - {name: rest, router: r, vni: 10, remotes: [c], from: [any], gateways: far, pool: [100.64.0.1]}
`)
	web := overlay.Tunnel{Encapsulation: overlay.NVGRE, TTL: 64, DF: overlay.DFSet}
	rest := overlay.Tunnel{Encapsulation: overlay.VXLAN, UDPPort: 4789, TTL: 64, DF: overlay.DFSet}
	timeouts := overlay.DefaultNATTimeouts
	timeouts.UDP, timeouts.Closed = 30*time.Second, 20*time.Second
	want := &overlay.Egress{
		NATSessions: 1000000, Timeouts: timeouts, DNSTimeout: overlay.DefaultDNSTimeout, Log: true, LogRate: 7,
		Groups: []overlay.Group{{Name: "g", Members: []overlay.Member{{Prefix: netip.MustParsePrefix("10.0.0.9/32")}}}},
		Gateways: []overlay.GatewayGroup{
			{Name: "gws", Mode: overlay.ActiveActive, Members: []netip.Addr{a("192.0.2.1"), a("192.0.2.2"), a("192.0.2.4")},
				Replication: &overlay.Replication{Port: overlay.DefaultReplicationPort, Key: []byte("a secret of gateways")}},
			{Name: "far", Mode: overlay.ActiveStandby, Members: []netip.Addr{a("192.0.2.3")}, Replication: &overlay.Replication{Port: 1000}},
		},
		Policies: []overlay.EgressPolicy{
			{Name: "web", Router: "r", VNI: 9, Tunnel: web, Remotes: []netip.Addr{a("192.0.2.2"), a("192.0.2.3"), a("192.0.2.4")},
				From: []overlay.Member{{Group: "g"}, {Prefix: netip.MustParsePrefix("10.0.0.0/25")}, {Segment: "blue"},
					{Labels: map[string]string{"app": "web"}}},
				To: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}, Except: []netip.Prefix{netip.MustParsePrefix("203.0.113.9/32")},
				Gateways: "gws", Uplink: "lan",
				Pool: []overlay.AddrRange{{First: a("203.0.113.10"), Last: a("203.0.113.20")}, {First: a("203.0.113.30"), Last: a("203.0.113.30")},
					{First: a("2001:db8:5::10"), Last: a("2001:db8:5::10")}},
				PerConnection: true, Independent: true, Open: true, Ports: overlay.PortRange{First: 2000, Last: 2009}, Limit: 5, InboundLimit: 5},
			{Name: "rest", Router: "r", VNI: 10, Tunnel: rest, Remotes: []netip.Addr{a("192.0.2.3")}, Gateways: "far",
				Pool: []overlay.AddrRange{{First: a("100.64.0.1"), Last: a("100.64.0.1")}}, Ports: overlay.DefaultNATPorts, Limit: 1000000 / 16},
		},
	}
	if d := cmp.Diff(want, e.Egress, sameAddr, samePrefix); d != "" {
		t.Errorf("egress (-want +got):\n%s", d)
	}
}

// The defaults of the file are those of the model.
func TestEgressDefaults(t *testing.T) {
	want := &overlay.Egress{NATSessions: overlay.DefaultNATSessions, Timeouts: overlay.DefaultNATTimeouts, DNSTimeout: overlay.DefaultDNSTimeout, LogRate: overlay.DefaultNATLogRate}
	if d := cmp.Diff(want, parseEdge(t, exit+"  egress: {}\n").Egress); d != "" {
		t.Error(d)
	}
	if e := parseEdge(t, exit); e.Egress != nil {
		t.Errorf("without egress and nat: %+v", e.Egress)
	}
}

// An uplink that translates by itself needs no spec.egress.
func TestUplinkNAT(t *testing.T) {
	a := netip.MustParseAddr
	e := parseEdge(t, under+`  routers:
  - name: r
    uplinks:
    - name: wan
      interface: eth1
      addresses: [198.51.100.2/24, "2001:db8::2/64"]
      nat:
        masquerade: true
        required: true
        limit: 9
        portForwards:
        - {protocol: tcp, port: 8080, to: 10.0.0.5, toPort: 80}
        - {protocol: udp, port: 5000-5009, to: "fd00::5"}
        - {protocol: udp, address: 198.51.100.2, port: 5000-5009, to: 10.0.0.6, toPort: 65526}
    - {name: lan, interface: eth2, addresses: [203.0.113.2/24], nat: {ports: 4000-5000}}
    - {name: dmz, interface: eth3, addresses: [192.0.2.130/25]}
`)
	want := []*overlay.UplinkNAT{
		{Masquerade: true, Required: true, Limit: 9, InboundLimit: 9, Ports: overlay.DefaultNATPorts, PortForwards: []overlay.PortForward{
			{Protocol: 6, Addr: a("198.51.100.2"), Ports: overlay.PortRange{First: 8080, Last: 8080}, To: a("10.0.0.5"), ToPort: 80},
			{Protocol: 17, Addr: a("2001:db8::2"), Ports: overlay.PortRange{First: 5000, Last: 5009}, To: a("fd00::5"), ToPort: 5000},
			{Protocol: 17, Addr: a("198.51.100.2"), Ports: overlay.PortRange{First: 5000, Last: 5009}, To: a("10.0.0.6"), ToPort: 65526},
		}},
		{Ports: overlay.PortRange{First: 4000, Last: 5000}, Limit: overlay.DefaultNATSessions / 16},
		nil,
	}
	for i, u := range e.Routers[0].Uplinks {
		if d := cmp.Diff(want[i], u.NAT, sameAddr); d != "" {
			t.Errorf("%s:\n%s", u.Name, d)
		}
	}
	if e.Egress == nil || e.Egress.NATSessions != overlay.DefaultNATSessions || e.Egress.Timeouts != overlay.DefaultNATTimeouts {
		t.Errorf("egress %+v, want the defaults", e.Egress)
	}
}

// An edge may be called by its name, which may begin with a digit, or by any of its addresses.
func TestGatewayMembers(t *testing.T) {
	const edge = "apiVersion: selvage.dev/v1alpha2\nkind: Edge\nmetadata: {name: 9-gw}\nspec:\n  underlay: {teps: [{name: x, address: 192.0.2.1, interface: eth0}, {name: y, address: 192.0.2.11, interface: eth1}]}\n"
	for _, own := range []string{"9-gw", "192.0.2.1", "192.0.2.11"} {
		e := parseEdge(t, edge+"  egress: {gateways: [{name: g, members: [192.0.2.9, "+own+"]}]}\n")
		if got := e.Egress.Gateways[0].Members; len(got) != 2 || got[1] != netip.MustParseAddr("192.0.2.1") {
			t.Errorf("%s: members %v", own, got)
		}
	}
}

// A pool may be the uplink's own address, which port forwards do not make one of a pool.
func TestEgressUplinkAddress(t *testing.T) {
	e := parseEdge(t, withPolicy("name: web, router: r, vni: 9, gateways: gws, pool: [uplink], uplink: wan, from: ['fd00::/64'], to: ['2001:db8:7::/48']"))
	if p := e.Egress.Policies[0]; !p.UplinkAddress || p.Pool != nil || p.Uplink != "wan" {
		t.Errorf("%+v", p)
	}
	forwards := `nat: {portForwards: [{protocol: tcp, address: 198.51.100.9, port: 80, to: 10.0.0.1}]}`
	_, err := Parse("f", []byte(strings.Replace(withPolicy("name: web, router: r, vni: 9, gateways: gws, pool: [uplink], uplink: wan"),
		"addresses: [198.51.100.2/24]", "addresses: [198.51.100.2/24], "+forwards, 1)))
	if err == nil || !strings.Contains(err.Error(), `198.51.100.9 is neither an address of uplink "wan" nor in a pool at it`) {
		t.Errorf("a forward of an address that nobody has: %v", err)
	}
}
