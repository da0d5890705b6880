package plan

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// withBad has a second gateway on the same nodes, whose policy has an address.
func withBad(in *Input, addr string) {
	second(in, "eth1", "198.51.100.1")
	bad := &in.Gateways[len(in.Gateways)-1]
	bad.Spec.Addresses = []v1alpha1.AddressRange{v1alpha1.AddressRange(addr), "198.51.100.64/28"}
	bad.Spec.Uplink = in.Gateways[0].Spec.Uplink
	wrong := policy("shop", "wrong", 30, func(s *v1alpha1.EgressPolicySpec) { s.Gateway = bad.Name })
	wrong.Status.Addresses = []string{addr}
	in.Policies = append(in.Policies, wrong)
}

// A policy with an address of somebody else is left out alone: each node's file is taken, and has the others.
func TestAddressesOfOthers(t *testing.T) {
	for addr, words := range map[string]string{
		"127.0.0.1": "a loopback address", "224.0.0.5": "a multicast address", "0.0.0.1": "reserved", "255.255.255.255": "the broadcast address", "169.254.0.9": "valid on one link only",
		"::9": "reserved", "fe80::9": "valid on one link only", "::ffff:198.51.100.9": "reserved", "192.0.0.253": "between a node and its edge", "10.244.7.7": "a network of pods, services or nodes",
		"192.0.2.77": "a network of pods, services or nodes", "192.0.2.2": "the address of node worker-2", "198.51.100.1": "a next hop of EgressGateway out",
	} {
		for _, change := range []func(*Input){func(*Input) {}, asGateway} {
			in := cluster()
			change(&in)
			withBad(&in, addr)
			p := made(t, in)
			if strings.Contains(string(p.Edge), PolicyName("shop", "wrong")) || !strings.Contains(string(p.Edge), PolicyName("shop", "web")) {
				t.Errorf("%s at %s: the file has\n%s", addr, in.Node, p.Edge)
			}
			for _, c := range p.Policies {
				if c.Key == "shop/web" && c.Problem != "" || c.Key == "shop/wrong" && !strings.Contains(c.Problem, words) {
					t.Errorf("%s at %s: %s: %q, want %q of shop/wrong alone", addr, in.Node, c.Key, c.Problem, words)
				}
			}
		}
	}
}

// What only a gateway's node knows of its uplink.
func TestAddressesAtTheUplink(t *testing.T) {
	for addr, words := range map[string]string{
		"198.51.100.3": "on this node the uplink's own", "198.51.100.0": "the network address", "198.51.100.255": "the broadcast address", "2001:db8:51::": "the subnet-router anycast address",
		"2001:db8:51::3": "on this node the uplink's own",
	} {
		in := cluster()
		asGateway(&in)
		withBad(&in, addr)
		p := made(t, in)
		for _, c := range p.Policies {
			if c.Key == "shop/web" && c.Problem != "" || c.Key == "shop/wrong" && !strings.Contains(c.Problem, words) {
				t.Errorf("%s: %s: %q, want %q of shop/wrong alone", addr, c.Key, c.Problem, words)
			}
		}
		if len(p.Uplinks) != 2 || p.Uplinks[0].String() != "198.51.100.3/24" {
			t.Errorf("the uplinks have %v", p.Uplinks)
		}
	}
}

// One family less at an uplink than a bad policy has is no other gateway's problem, and the node's own address is no next hop.
func TestFamilyAndHopOfTheUplink(t *testing.T) {
	in := cluster()
	asGateway(&in)
	in.Host.Uplinks["eth1"] = prefixes("198.51.100.3/24")
	for i := range in.Gateways {
		in.Gateways[i].Spec.Uplink.NextHops = []string{"198.51.100.1", "198.51.100.3"}
	}
	withBad(&in, "2001:db8:77::7")
	p := made(t, in)
	for _, c := range p.Policies {
		if (c.Problem == "") != (c.Key != "shop/wrong") {
			t.Errorf("%s: %q", c.Key, c.Problem)
		}
	}
	if strings.Contains(string(p.Edge), "address: 198.51.100.3") {
		t.Errorf("the node is its own next hop:\n%s", p.Edge)
	}
}
