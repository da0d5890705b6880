package agent

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/plan"
)

// What is found again is no reason to write: what the API server gives back of a report is that report.
func TestReportStays(t *testing.T) {
	own, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	at := time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.Local)
	announced := at.Add(1234567)
	p := plan.Plan{
		Gateways: map[string]string{"g_out": "out"}, Remotes: map[netip.Addr]string{own: "n1", other: "n2"},
		Policies: []plan.Policy{{Key: "shop/web", UID: "1", Generation: 3, EdgeName: "p_shop_web", Pods: 2, Gateway: "out", Member: true}},
	}
	f := Found{Status: api.Status{Version: "v1"}, Egress: api.EgressInfo{
		Policies:  []api.EgressPolicyInfo{{Name: "p_shop_web", Gateways: "g_out", Addresses: []api.EgressAddressInfo{{Address: netip.MustParseAddr("198.51.100.20"), Here: true}}}},
		Groups:    []api.GatewayGroupInfo{{Name: "g_out", Members: []api.GatewayInfo{{Address: own, Self: true, State: "serving"}, {Address: other, State: "gone", Why: "it does not answer"}}}},
		Failovers: []api.Failover{{Group: "g_out", Gateway: other, From: "serving", To: "gone", Seen: at, Written: at.Add(345678), Announced: &announced}},
	}}
	first := Report("n1", v1alpha1.EgressNodeStatus{}, p, f)
	if first.Gateways[0].LastFailover == nil {
		t.Fatalf("no failover: %+v", first)
	}
	text, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	var back v1alpha1.EgressNodeStatus
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if again := Report("n1", back, p, f); !equality.Semantic.DeepEqual(again, back) {
		t.Errorf("it was %+v\nand is %+v", back, again)
	}
}

// A router that does not hear of the addresses is named where users look for why a gateway does not do its work.
func TestReportOfBGP(t *testing.T) {
	own, first, second := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.9")
	f := Found{
		Egress: api.EgressInfo{Groups: []api.GatewayGroupInfo{{Name: "g_out", Members: []api.GatewayInfo{{Address: own, Self: true, State: "serving", Why: "it serves"}}}}},
		BGP:    api.BGPInfo{Neighbours: []api.BGPNeighbourInfo{{Address: first, State: "established"}, {Address: second, State: "active", Why: "refused"}}},
	}
	p := plan.Plan{Gateways: map[string]string{"g_out": "out"}, BGP: true}
	if got := Report("n1", v1alpha1.EgressNodeStatus{}, p, f).Gateways[0]; got.Message != "it serves; there is no BGP session with 198.51.100.9" || got.State != v1alpha1.Serving {
		t.Errorf("it is %s: %s", got.State, got.Message)
	}
	f.BGP.Neighbours[1].State = "established"
	if got := Report("n1", v1alpha1.EgressNodeStatus{}, p, f).Gateways[0]; got.Message != "it serves" {
		t.Errorf("with all sessions it says %q", got.Message)
	}
}

// A password that cannot be used is the reason why the node is not ready, whether the edge goes on with the last one or keeps all that it has.
func TestReportOfPasswords(t *testing.T) {
	for _, c := range []struct {
		missing      bool
		failed, want string
	}{
		{false, "", "Secret s/r: there is none; the last password stays in force"},
		{false, "no nft", "Secret s/r: there is none; the last password stays in force; no nft"},
		{true, "Secret s/r: there is none: the edge keeps the configuration that it has", "Secret s/r: there is none: the edge keeps the configuration that it has"},
	} {
		p := plan.Plan{Password: plan.Passwords{Problem: "Secret s/r: there is none", Missing: c.missing}}
		s := Report("n1", v1alpha1.EgressNodeStatus{}, p, Found{Failed: c.failed})
		if got := s.Conditions[0]; got.Status != metav1.ConditionFalse || got.Reason != v1alpha1.ReasonPassword || got.Message != c.want {
			t.Errorf("%+v, want %s", got, c.want)
		}
	}
}

// Own addresses are told while the node gives them, each once, and apart from those that move.
func TestReportOfOwnAddresses(t *testing.T) {
	own, other, addr := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("198.51.100.3")
	uplink := func(name string, server netip.Addr) api.EgressPolicyInfo {
		return api.EgressPolicyInfo{Name: name, Gateways: "g_out", UplinkAddress: true, Addresses: []api.EgressAddressInfo{{Address: addr, Owner: own, Server: server, Here: true}}}
	}
	f := Found{Egress: api.EgressInfo{
		Policies: []api.EgressPolicyInfo{uplink("a", own), uplink("b", own), {Name: "c", Gateways: "g_out", Addresses: []api.EgressAddressInfo{{Address: netip.MustParseAddr("198.51.100.20"), Here: true}}}},
		Groups:   []api.GatewayGroupInfo{{Name: "g_out", Members: []api.GatewayInfo{{Address: other}, {Address: own, Self: true}}}},
	}}
	p := plan.Plan{Gateways: map[string]string{"g_out": "out"}}
	g := Report("n1", v1alpha1.EgressNodeStatus{}, p, f).Gateways[0]
	if strings.Join(g.OwnAddresses, " ") != addr.String() || strings.Join(g.Addresses, " ") != "198.51.100.20" {
		t.Errorf("it has %v, and of its own %v", g.Addresses, g.OwnAddresses)
	}
	f.Egress.Policies = []api.EgressPolicyInfo{uplink("a", netip.Addr{})}
	if g := Report("n1", v1alpha1.EgressNodeStatus{}, p, f).Gateways[0]; len(g.OwnAddresses) > 0 {
		t.Errorf("another one serves, and it has %v", g.OwnAddresses)
	}
}

// What is wrong about addresses is said where users look: of the node, and of the gateway.
func TestReportOfConflicts(t *testing.T) {
	addr := netip.MustParseAddr("198.51.100.20")
	p := plan.Plan{Gateways: map[string]string{"g_out": "out"}, Twin: plan.Twin{Name: "old", Addr: netip.MustParseAddr("192.0.2.1")}}
	f := Found{Egress: api.EgressInfo{
		Policies: []api.EgressPolicyInfo{{Gateways: "g_out", Addresses: []api.EgressAddressInfo{{Address: addr, Here: true, Other: overlay.MAC{2, 0, 0, 0, 0, 9}}}}},
		Groups:   []api.GatewayGroupInfo{{Name: "g_out", Members: []api.GatewayInfo{{Self: true, State: "serving", Why: "it serves"}}}},
	}}
	s := Report("n1", v1alpha1.EgressNodeStatus{}, p, f)
	if c := s.Conditions[0]; c.Status != metav1.ConditionTrue || !strings.HasPrefix(c.Message, "the edge runs; Node old has its address 192.0.2.1 too") {
		t.Errorf("%+v", c)
	}
	if m := s.Gateways[0].Message; m != "it serves; the host with MAC address 02:00:00:00:00:09 has 198.51.100.20 too, and gets packets for it" {
		t.Error(m)
	}
	p.Unknown = "none is known"
	if c := Report("n1", v1alpha1.EgressNodeStatus{}, p, f).Conditions[0]; c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonNetworksUnknown {
		t.Errorf("%+v", c)
	}
}
