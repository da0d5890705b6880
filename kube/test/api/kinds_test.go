package api

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/test/tier"
)

const goodGateway = `{nodes: {matchLabels: {egress: "yes"}}, addresses: [198.51.100.20-198.51.100.29, 198.51.100.64/28, "2001:db8::20"],
  uplink: {interface: eth1, nextHops: [198.51.100.1]}}`

// withBGP is the good gateway, and how its addresses are advertised.
func withBGP(b string) string { return strings.TrimSuffix(goodGateway, "}}") + `, bgp: ` + b + `}}` }

// What the API server takes, and what it says of what it refuses.
func TestKinds(t *testing.T) {
	tier.Slow(t)
	c := clientBy(t, server.Admin())
	for name, o := range map[string]struct{ kind, spec, refused string }{
		"gateway":                  {"EgressGateway", goodGateway, ""},
		"gateway without nodes":    {"EgressGateway", `{addresses: [198.51.100.20], uplink: {interface: eth1, nextHops: [198.51.100.1]}}`, "spec.nodes: Required value"},
		"gateway without any":      {"EgressGateway", `{nodes: {}, uplink: {interface: eth1, nextHops: [198.51.100.1]}}`, ""},
		"empty addresses":          {"EgressGateway", `{nodes: {}, addresses: [], uplink: {interface: eth1, nextHops: [198.51.100.1]}}`, "should have at least 1 items"},
		"no address":               {"EgressGateway", `{nodes: {}, addresses: [all], uplink: {interface: eth1, nextHops: [198.51.100.1]}}`, "must be an address, a range FIRST-LAST, or a network"},
		"half a range":             {"EgressGateway", `{nodes: {}, addresses: [198.51.100.20-], uplink: {interface: eth1, nextHops: [198.51.100.1]}}`, "must be an address"},
		"next hop of words":        {"EgressGateway", `{nodes: {}, addresses: [198.51.100.20], uplink: {interface: eth1, nextHops: [router]}}`, "must be addresses"},
		"too fast":                 {"EgressGateway", strings.TrimSuffix(goodGateway, "}") + `, liveness: {interval: 1ms}}`, "must be from 10ms to 10s"},
		"no such mode":             {"EgressGateway", strings.TrimSuffix(goodGateway, "}") + `, mode: Both}`, `supported values: "ActiveStandby", "ActiveActive"`},
		"bgp":                      {"EgressGateway", withBGP(`{as: 65010, neighbours: [{address: 198.51.100.1, as: 65100, bfd: Enabled}, {address: "2001:db8::9", as: 4200000001, ebgpMultihop: 2}]}`), ""},
		"bgp without neighbours":   {"EgressGateway", withBGP(`{as: 65010, neighbours: []}`), "should have at least 1 items"},
		"bgp to a link":            {"EgressGateway", withBGP(`{as: 65010, neighbours: [{address: "fe80::1", as: 65100}]}`), "must be the unicast address of a router"},
		"bgp to words":             {"EgressGateway", withBGP(`{as: 65010, neighbours: [{address: router, as: 65100}]}`), "must be the unicast address of a router"},
		"bgp to one twice":         {"EgressGateway", withBGP(`{as: 65010, neighbours: [{address: 198.51.100.1, as: 65100}, {address: 198.51.100.1, as: 65101}]}`), "Duplicate value"},
		"bgp of no AS":             {"EgressGateway", withBGP(`{as: 4294967295, neighbours: [{address: 198.51.100.1, as: 65100}]}`), "less than or equal to 4294967294"},
		"bgp of AS_TRANS":          {"EgressGateway", withBGP(`{as: 23456, neighbours: [{address: 198.51.100.1, as: 65100}]}`), "must not be 23456"},
		"bgp with a password":      {"EgressGateway", withBGP(`{as: 65010, neighbours: [{address: 198.51.100.1, as: 65100, passwordSecret: {name: routers}}, {address: 198.51.100.9, as: 65100, passwordSecret: {name: rack.1, key: r_1}}]}`), ""},
		"bgp with a password here": {"EgressGateway", withBGP(`{as: 65010, neighbours: [{address: 198.51.100.1, as: 65100, password: geheim}]}`), "unknown field"},
		"a Secret without a name":  {"EgressGateway", withBGP(`{as: 65010, neighbours: [{address: 198.51.100.1, as: 65100, passwordSecret: {key: a}}]}`), "passwordSecret.name: Required value"},
		"a Secret elsewhere":       {"EgressGateway", withBGP(`{as: 65010, neighbours: [{address: 198.51.100.1, as: 65100, passwordSecret: {name: ../routers}}]}`), "passwordSecret.name: Invalid value"},
		"a key of a path":          {"EgressGateway", withBGP(`{as: 65010, neighbours: [{address: 198.51.100.1, as: 65100, passwordSecret: {name: routers, key: a/b}}]}`), "passwordSecret.key: Invalid value"},
		"policy":                   {"EgressPolicy", `{gateway: out}`, ""},
		"policy with all":          {"EgressPolicy", `{gateway: out, pods: {matchLabels: {app: web}}, serviceAccounts: [robot], to: [203.0.113.0/24], except: ["2001:db8::/32"], priority: 5, whenNoGateway: Node, mapping: EndpointIndependent, limit: 10, address: {type: Fixed, fixed: [198.51.100.20]}}`, ""},
		"no gateway":               {"EgressPolicy", `{}`, "spec.gateway: Required value"},
		"a network with a host":    {"EgressPolicy", `{gateway: out, to: [203.0.113.1/24]}`, "must be a network without bits of a host"},
		"fixed without addresses":  {"EgressPolicy", `{gateway: out, address: {type: Fixed}}`, "fixed addresses are given with type Fixed, and only then"},
		"pool with addresses":      {"EgressPolicy", `{gateway: out, address: {type: Pool, fixed: [198.51.100.20]}}`, "fixed addresses are given with type Fixed, and only then"},
		"address of the node":      {"EgressPolicy", `{gateway: out, address: {type: Node}}`, ""},
		"node with addresses":      {"EgressPolicy", `{gateway: out, address: {type: Node, fixed: [198.51.100.20]}}`, "fixed addresses are given with type Fixed, and only then"},
		"node with a count":        {"EgressPolicy", `{gateway: out, address: {type: Node, count: 2}}`, "count only with type Pool"},
		"fixed with a count":       {"EgressPolicy", `{gateway: out, address: {type: Fixed, fixed: [198.51.100.20], count: 2}}`, "count only with type Pool"},
		"no such address":          {"EgressPolicy", `{gateway: out, address: {type: Any}}`, `supported values: "Pool", "Fixed", "Node"`},
		"priority below":           {"EgressPolicy", `{gateway: out, priority: -1}`, "greater than or equal to 0"},
		"cluster policy":           {"ClusterEgressPolicy", `{gateway: out, namespaces: {matchLabels: {team: a}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(`{apiVersion: selvage.dev/v1alpha1, kind: `+o.kind+`, metadata: {generateName: k-}, spec: `+o.spec+`}`), u); err != nil {
				t.Fatal(err)
			}
			if o.kind == "EgressPolicy" {
				u.SetNamespace("default")
			}
			err := c.Create(t.Context(), u, client.FieldValidation(metav1.FieldValidationStrict))
			if o.refused == "" && err != nil || o.refused != "" && (err == nil || !strings.Contains(err.Error(), o.refused)) {
				t.Fatalf("%v, want %q", err, o.refused)
			}
			if err == nil {
				t.Cleanup(func() { remove(t, c, u) })
			}
		})
	}
}

// What is left out has its value in the object.
func TestDefaults(t *testing.T) {
	tier.Slow(t)
	c := clientBy(t, server.Admin())
	g := &v1alpha1.EgressGateway{ObjectMeta: metav1.ObjectMeta{Name: "defaults"}, Spec: v1alpha1.EgressGatewaySpec{
		Addresses: []v1alpha1.AddressRange{"198.51.100.20"}, Uplink: v1alpha1.Uplink{Interface: "eth1", NextHops: []string{"198.51.100.1"}},
	}}
	p := &v1alpha1.EgressPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "defaults"}, Spec: v1alpha1.EgressPolicySpec{Gateway: "defaults"}}
	for _, o := range []client.Object{g, p} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		defer remove(t, c, o)
	}
	if g.Spec.Mode != v1alpha1.ActiveStandby || g.Spec.Liveness.Interval.Duration.String() != "50ms" || g.Spec.Liveness.Multiplier != 3 || g.Spec.Replication != v1alpha1.Enabled {
		t.Errorf("gateway %+v", g.Spec)
	}
	if p.Spec.WhenNoGateway != v1alpha1.NoGatewayDrop || *p.Spec.Priority != 1000 || p.Spec.Address.Type != v1alpha1.AddressPool {
		t.Errorf("policy %+v", p.Spec)
	}
}
