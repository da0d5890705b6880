package plan

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// session203 is the address that sessions run from.
var session203 = netip.MustParsePrefix("198.51.100.203/24")

// advertised is to a router at the uplink, and to one beyond the node's own. The third is another node's.
func advertised() *v1alpha1.BGP {
	return &v1alpha1.BGP{AS: 65010, Neighbours: []v1alpha1.BGPNeighbour{
		{Address: "2001:db8:f::9", AS: 4200000001, EBGPMultihop: 3, BFD: v1alpha1.Disabled},
		{Address: "198.51.100.1", AS: 65100, BFD: v1alpha1.Enabled},
		{Address: "203.0.113.77", AS: 65100, BFD: v1alpha1.Disabled},
	}}
}

// withBGP is the input of a node of the gateway whose addresses are advertised.
func withBGP(in *Input) {
	asGateway(in)
	in.Host.Uplinks["eth1"] = append(in.Host.Uplinks["eth1"], session203)
	in.Gateways[0].Spec.Uplink.BGP = advertised()
	in.Policies[0].Status.Addresses = []string{"100.64.0.21", "2001:db8:64::21"} // in no network of the uplink
}

// A node that cannot tell its routers does not serve, and says what it lacks. The edge takes its file all the same.
func TestBGPThatCannotBe(t *testing.T) {
	for words, change := range map[string]func(*Input, *v1alpha1.BGP){
		"": func(*Input, *v1alpha1.BGP) {},
		"interface eth1 of this node has one address in the network of BGP neighbour 198.51.100.1": func(in *Input, _ *v1alpha1.BGP) {
			in.Host.Uplinks["eth1"] = prefixes("198.51.100.3/24", "2001:db8:51::3/64")
		},
		"no BGP neighbour of EgressGateway out is in a network of interface eth1": func(_ *Input, b *v1alpha1.BGP) { b.Neighbours = b.Neighbours[2:] },
		"BGP neighbour 198.51.100.1 of EgressGateway out is in VLAN 7":            func(in *Input, _ *v1alpha1.BGP) { in.Gateways[0].Spec.Uplink.VLAN = 7 },
		"or has ebgpMultihop": func(_ *Input, b *v1alpha1.BGP) { // the routers are this node
			b.Neighbours = b.Neighbours[:2]
			b.Neighbours[0].Address, b.Neighbours[1].Address = "192.0.2.3", "198.51.100.203"
		},
	} {
		in := cluster()
		withBGP(&in)
		change(&in, in.Gateways[0].Spec.Uplink.BGP)
		p := made(t, in)
		if got := p.Policies[0].Problem; words == "" && got != "" || !strings.Contains(got, words) {
			t.Errorf("the problem is %q, want %q", got, words)
		}
		if has := strings.Contains(string(p.Edge), "neighbours:"); has != (words == "") {
			t.Errorf("%q: the edge speaks BGP: %t", words, has)
		}
	}
}

// Gateways that advertise differently are of different uplinks, so a node is a member of the older one; the order of neighbours is none.
func TestBGPIsOfTheUplink(t *testing.T) {
	in := cluster()
	withBGP(&in)
	first := in.Gateways[0].Spec.Uplink
	second := *first.DeepCopy()
	n := second.BGP.Neighbours
	n[0], n[1] = n[1], n[0]
	if uplinkOf(first) != uplinkOf(second) {
		t.Error("neighbours in another order are another uplink")
	}
	n[0].AS++
	if uplinkOf(first) == uplinkOf(second) {
		t.Error("a neighbour with another AS is the same uplink")
	}
	if second.BGP = nil; uplinkOf(first) == uplinkOf(second) {
		t.Error("without BGP it is the same uplink")
	}
}

// A session with a password that is not there is none, and the edge keeps what it has; one that cannot be renewed goes on with what it was.
func TestBGPPasswords(t *testing.T) {
	in := cluster()
	withBGP(&in)
	key, others := v1alpha1.SecretKey{Name: "routers", Key: "rack1"}, v1alpha1.SecretKey{Name: "elsewhere", Key: "password"}
	n := in.Gateways[0].Spec.Uplink.BGP.Neighbours
	n[1].PasswordSecret, n[2].PasswordSecret = key, others
	in.Gateways = append(in.Gateways, *in.Gateways[0].DeepCopy()) // of which the node is no member
	in.Gateways[1].Name, in.Gateways[1].Status.Nodes = "other", nil
	in.Gateways[1].Spec.Uplink.BGP.Neighbours[0].PasswordSecret = others
	if list, err := PasswordsOf(in); err != nil || !slices.Equal(list, []v1alpha1.SecretKey{key}) {
		t.Errorf("it needs %v, %v, and not those of other nodes' routers", list, err)
	}
	file := filepath.Join(t.TempDir(), "rack1.7")
	if err := os.WriteFile(file, []byte("of the router"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		has    map[v1alpha1.SecretKey]Password
		wanted Passwords
	}{
		"unread":   {nil, Passwords{Problem: "Secret routers/rack1 has not been read yet", Missing: true}},
		"none":     {map[v1alpha1.SecretKey]Password{key: {Problem: "there is no Secret"}}, Passwords{Problem: "there is no Secret", Missing: true}},
		"good":     {map[v1alpha1.SecretKey]Password{key: {File: file}}, Passwords{Files: []string{file}}},
		"the last": {map[v1alpha1.SecretKey]Password{key: {File: file, Problem: "it is empty"}}, Passwords{Files: []string{file}, Problem: "it is empty"}},
	} {
		in.Passwords = c.has
		p, err := Make(in)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(p.Password, c.wanted) || p.Policies[0].Problem != "" || !p.BGP {
			t.Errorf("%s: %+v, the policy's problem is %q", name, p.Password, p.Policies[0].Problem)
		}
		if !p.Password.Missing {
			takes(t, in, p)
			if n := strings.Count(string(p.Edge), "passwordFile: "+file+"\n"); n != 1 {
				t.Errorf("%s: the file is named %d times:\n%s", name, n, p.Edge)
			}
		}
	}
	if uplinkOf(in.Gateways[0].Spec.Uplink) != uplinkOf(*in.Gateways[0].Spec.Uplink.DeepCopy()) {
		t.Error("a copy is another uplink")
	}
}

// An address written twice is one router.
func TestBGPNeighbourTwice(t *testing.T) {
	in := cluster()
	withBGP(&in)
	b := in.Gateways[0].Spec.Uplink.BGP
	again := b.Neighbours[0]
	again.Address = "2001:db8:f:0::9"
	b.Neighbours = append(b.Neighbours, again)
	if n := strings.Count(string(made(t, in).Edge), "address: 2001:db8:f::9"); n != 1 {
		t.Errorf("it is a neighbour %d times", n)
	}
}
