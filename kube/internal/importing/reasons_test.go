package importing_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/selvage/selvage/kube/internal/importing"
	"github.com/selvage/selvage/kube/internal/importing/source"
)

// Manifests that rows of reasons need beside their own.
const (
	egw = `
apiVersion: egressgateway.spidernet.io/v1beta1
kind: EgressGateway
metadata: {name: gw}
spec: {ippools: {ipv4: [203.0.113.10-203.0.113.12]}, nodeSelector: {selector: {matchLabels: {egress: "yes"}}}}
---`
)

func egp(name, spec string) string {
	return fmt.Sprintf("\napiVersion: egressgateway.spidernet.io/v1beta1\nkind: EgressPolicy\nmetadata: {namespace: ns, name: %s}\n%s\n---", name, spec)
}

func cegp(name, spec string) string {
	return fmt.Sprintf("\napiVersion: cilium.io/v2\nkind: CiliumEgressGatewayPolicy\nmetadata: {name: %s}\nspec: {destinationCIDRs: [198.51.100.0/24], %s}\n---", name, spec)
}

const (
	web       = "podSelector: {matchLabels: {app: web}}"
	ciliumGW  = "egressGateway: {nodeSelector: {matchLabels: {egress: 'yes'}}, egressIP: 203.0.113.20}"
	ciliumWeb = "selectors: [{" + web + "}], "
)

// networks is a list of many networks that cannot be joined.
func networks(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("10.%d.%d.0/25", i/256, i%256))
	}
	return strings.Join(all, ", ")
}

// hosts is a list of addresses, each but the next to the one before.
func hosts(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("203.0.%d.%d", i/100, 2*(i%100)+1))
	}
	return strings.Join(all, ", ")
}

// reasons are inputs, what the report has to have, and how many gateways and policies come out.
var reasons = []struct {
	name, in, want string
	gateways       int
	policies       int
}{
	{"no gateway of that name", egp("p", "spec: {egressGatewayName: x, appliedTo: {"+web+"}}"), "EgressPolicy ns/p: it is not carried: its gateway x is not among the objects, or is not carried; read it too", 0, 0},
	{"no default gateway", egw + egp("p", "spec: {appliedTo: {"+web+"}}"), "EgressPolicy ns/p: it is not carried: it names no gateway, and there is no default one; set egressGatewayName", 1, 0},
	{"default of the namespace", egw + egp("p", "spec: {appliedTo: {"+web+"}}") + "\napiVersion: v1\nkind: Namespace\nmetadata: {name: ns, labels: {spidernet.io/egressgateway-default: gw}}", "", 1, 1},
	{"no namespace", egw + strings.Replace(egp("p", "spec: {egressGatewayName: gw, appliedTo: {"+web+"}}"), "namespace: ns, ", "", 1), "EgressPolicy default/p: metadata.namespace: it has none, and default is taken", 1, 1},
	{"priority", egw + egp("p", "spec: {egressGatewayName: gw, appliedTo: {"+web+"}, priority: 100}"), "EgressPolicy ns/p: priority 100 is not carried: EgressGateway ignores it, and here it would take effect: the lowest is asked first; set priority where policies overlap", 1, 1},
	{"podSubnet", egw + egp("p", "spec: {egressGatewayName: gw, appliedTo: {podSubnet: [10.0.0.0/8]}}"), `EgressPolicy ns/p: appliedTo.podSubnet ["10.0.0.0/8"] is not carried: EgressGateway does not implement it either; select pods by labels`, 1, 0},
	{"no selector", egw + egp("p", "spec: {egressGatewayName: gw, appliedTo: {podSelector: {}}}"), "EgressPolicy ns/p: it is not carried: it has no podSelector, so it selects nothing there; select pods by labels", 1, 0},
	{"namespaceSelector", egw + egp("p", "spec: {egressGatewayName: gw, appliedTo: {"+web+", namespaceSelector: {matchLabels: {a: b}}}}"), `EgressPolicy ns/p: appliedTo.namespaceSelector {"matchLabels":{"a":"b"}} is not carried: an EgressPolicy is of its own namespace, there too`, 1, 1},
	{"node's address", egw + egp("p", "spec: {egressGatewayName: gw, egressIP: {useNodeIP: true}, appliedTo: {"+web+"}}"), "EgressPolicy ns/p: egressIP.useNodeIP true: pods get the address of the uplink of the gateway's node, not the one of its default route; have partners allow those of all nodes of the gateway", 1, 1},
	{"allocator", egw + egp("p", "spec: {egressGatewayName: gw, egressIP: {allocatorPolicy: rr}, appliedTo: {"+web+"}}"), "EgressPolicy ns/p: egressIP.allocatorPolicy rr is not carried: each policy has an address of its own", 1, 1},
	{"status differs", egw + egp("p", "spec: {egressGatewayName: gw, egressIP: {ipv4: 203.0.113.10}, appliedTo: {"+web+"}}\nstatus: {eip: {ipv4: 203.0.113.11}}"), "EgressPolicy ns/p: egressIP.ipv4 203.0.113.10 is not carried: its status has 203.0.113.11, with which its packets leave", 1, 1},
	{"bad address", egw + egp("p", "spec: {egressGatewayName: gw, egressIP: {ipv4: 203.0.113.300}, appliedTo: {"+web+"}}"), `EgressPolicy ns/p: it is not carried: its address "203.0.113.300": it is no IPv4 or IPv6 address; correct it`, 1, 0},
	{"address of no pool", egw + egp("p", "spec: {egressGatewayName: gw, egressIP: {ipv4: 203.0.113.99}, appliedTo: {"+web+"}}"), "EgressPolicy ns/p: its address 203.0.113.99 is not among those of its gateway, and is added there", 1, 1},
	{"bad selector", egw + egp("p", "spec: {egressGatewayName: gw, appliedTo: {podSelector: {matchExpressions: [{key: a, operator: Near}]}}}"), "EgressPolicy ns/p: it is not carried: appliedTo.podSelector is not valid:", 1, 0},
	{"bits of a host", egw + egp("p", "spec: {egressGatewayName: gw, appliedTo: {"+web+"}, destSubnet: [198.51.100.9/24]}"), "EgressPolicy ns/p: destSubnet 198.51.100.9/24: it is written as 198.51.100.0/24", 1, 1},
	{"bad network", egw + egp("p", "spec: {egressGatewayName: gw, appliedTo: {"+web+"}, destSubnet: [198.51.100.0/40]}"), `EgressPolicy ns/p: it is not carried: destSubnet has "198.51.100.0/40": it is no network of IPv4 or IPv6; correct it`, 1, 0},
	{"networks that join", egw + egp("p", "spec: {egressGatewayName: gw, appliedTo: {"+web+"}, destSubnet: ["+networks(300)+", 10.0.0.0/8]}"), "EgressPolicy ns/p: destSubnet with 301 networks: they are written as 1 that are the same addresses", 1, 1},
	{"too many networks", egw + egp("p", "spec: {egressGatewayName: gw, appliedTo: {"+web+"}, destSubnet: ["+networks(300)+"]}"), "EgressPolicy ns/p: it is not carried: destSubnet has 300 networks, and 256 fit; name fewer and larger networks", 1, 0},
	{"unknown field", egw + egp("p", "spec: {egressGatewayName: gw, appliedTo: {"+web+", nodeSelector: {a: b}}}"), `EgressPolicy ns/p: appliedTo.nodeSelector {"a":"b"} is not carried: the field is unknown; look whether it changes which packets leave, or how`, 1, 1},
	{"wrong type", egw + egp("p", "spec: {egressGatewayName: [gw]}"), "EgressPolicy ns/p: it is not carried: stdin, document 2: json: cannot unmarshal", 1, 0},
	{"bad name", egw + egp("P_1", "spec: {egressGatewayName: gw}"), "EgressPolicy ns/P_1: it is not carried: its name is not valid:", 1, 0},
	{"twice", egw + egw, "EgressGateway gw: it is not carried: stdin, document 2 has it after stdin; keep one of the two", 1, 0},
	{"deleted", egw + "\napiVersion: cilium.io/v2\nkind: CiliumEgressGatewayPolicy\nmetadata: {name: e, deletionTimestamp: '2026-01-01T00:00:00Z'}", "CiliumEgressGatewayPolicy e: it is not carried: it is being deleted", 1, 0},
	{"labels and owners", egw + "\napiVersion: cilium.io/v2\nkind: CiliumEgressGatewayPolicy\nmetadata: {name: e, labels: {a: b}, ownerReferences: [{apiVersion: v1, kind: Team, name: t, uid: u}]}\nspec: {destinationCIDRs: [198.51.100.0/24], " + ciliumWeb + ciliumGW + "}",
		"CiliumEgressGatewayPolicy e: metadata.labels a: b is not carried: it may be of a tool that owns the object; add it where your tools want it\nCiliumEgressGatewayPolicy e: metadata.ownerReferences Team t is not carried: it makes this object; have it make the new one", 2, 1},
	{"no object", egw + "\napiVersion: [v1]\nkind: Pod\n---", "stdin, document 2: it is not carried: it is no object of Kubernetes:", 1, 0},
	{"too many exceptions", cegp("c", ciliumWeb+ciliumGW+", excludedCIDRs: ["+strings.ReplaceAll(networks(100), "10.", "172.")+"]"), "CiliumEgressGatewayPolicy c: it is not carried: it has 300 exceptions, and 256 fit; name fewer and larger networks", 1, 0},
	{"version", egw + "\napiVersion: cilium.io/v3\nkind: CiliumEgressGatewayPolicy\nmetadata: {name: e}", "CiliumEgressGatewayPolicy e: it is not carried: version cilium.io/v3 is not read; convert it to a newer one", 1, 0},
	{"kind", egw + "\napiVersion: cilium.io/v2alpha1\nkind: CiliumEgressNATPolicy\nmetadata: {name: e}", "CiliumEgressNATPolicy e: it is not carried: the kind is not read; convert it to cilium.io/v2 CiliumEgressGatewayPolicy first", 1, 0},
	{"gateway without a pool that can be read", strings.Replace(egw, "203.0.113.12", "203.0.113.1", 1), "EgressGateway gw: ippools.ipv4 203.0.113.10-203.0.113.1 is not carried: its last address is before the first; correct it", 1, 0},
	{"fields of a gateway", strings.Replace(egw, "spec: {", "spec: {clusterDefault: true, ", 1), "EgressGateway gw: clusterDefault true is not carried: each policy names its gateway; policies that are written later have to name it", 1, 0},
	{"policy of nodes", strings.Replace(egw, "nodeSelector: {", "nodeSelector: {policy: doing, ", 1), "EgressGateway gw: nodeSelector.policy doing is not carried: EgressGateway never reads it", 1, 0},
	{"default address", strings.Replace(egw, "ippools: {", "ippools: {ipv6DefaultEIP: '2001:db8::1', ", 1), "EgressGateway gw: ippools.ipv6DefaultEIP 2001:db8::1 is not carried: a gateway has no address that policies share", 1, 0},
	{"host bits of a pool", strings.Replace(egw, "203.0.113.10-203.0.113.12", "203.0.113.10/30", 1), "EgressGateway gw: ippools.ipv4 203.0.113.10/30: it is written as 203.0.113.8/30", 1, 0},
	{"all nodes", strings.Replace(egw, `matchLabels: {egress: "yes"}`, "", 1), "EgressGateway gw: it selects all nodes of the cluster, and a gateway has 16 at most; label those that are to translate: --nodes", 1, 0},
	{"one family", egw, "EgressGateway gw: it has no IPv6 address; where pods have one, their packets leave there by their node, and here they do not leave", 1, 0},
	{"fails open", egw, "EgressGateway of spidernet: while no node of a gateway is ready, packets leave there with the address of their node; here they are dropped; whenNoGateway: Node has them leave by their node", 1, 0},
	{"too many ranges", strings.Replace(egw, "203.0.113.10-203.0.113.12", hosts(65), 1) + egp("p", "spec: {egressGatewayName: gw, appliedTo: {"+web+"}}"),
		"EgressGateway gw: it is not carried: gateway gw has 65 ranges of addresses, and 64 fit; divide it\nEgressPolicy ns/p: it is not carried: its gateway is not carried", 0, 0},
	{"the router in the pool", strings.Replace(egw, "203.0.113.10-203.0.113.12", "203.0.113.0/30", 1), "EgressGateway gw: the address 203.0.113.1 of a next hop is taken out of 203.0.113.0/30", 1, 0},
	{"extra networks", egw + "\napiVersion: egressgateway.spidernet.io/v1beta1\nkind: EgressClusterInfo\nmetadata: {name: default}\nspec: {extraCidr: [192.0.2.0/24], autoDetect: {podCidrMode: k8s}}",
		"EgressClusterInfo default: extraCidr 192.0.2.0/24 is not carried: policies have no network that is left out for the whole cluster; give it to all policies: --except 192.0.2.0/24", 1, 0},
	{"one address, one policy", egw + egp("a", "spec: {egressGatewayName: gw, appliedTo: {"+web+"}}\nstatus: {eip: {ipv4: 203.0.113.10}}") + egp("b", "spec: {egressGatewayName: gw, appliedTo: {podSelector: {matchLabels: {app: db}}}}\nstatus: {eip: {ipv4: 203.0.113.10}}"),
		"EgressPolicy ns/b: it is one policy with EgressPolicy ns/a, for both have the address 203.0.113.10", 1, 1},
	{"one address, two policies", egw + egp("a", "spec: {egressGatewayName: gw, appliedTo: {"+web+"}}\nstatus: {eip: {ipv4: 203.0.113.10}}") + egp("b", "spec: {egressGatewayName: gw, destSubnet: [198.51.100.0/24], appliedTo: {"+web+"}}\nstatus: {eip: {ipv4: 203.0.113.10}}"),
		"EgressPolicy ns/b: address 203.0.113.10 is not carried: EgressPolicy ns/a has it, an address is of one policy alone, and one policy cannot say what both do; have partners allow the address that it gets instead, or make the labels of their pods alike", 1, 2},
	{"no address left", strings.Replace(egw, "-203.0.113.12", "", 1) + egp("a", "spec: {egressGatewayName: gw, appliedTo: {"+web+"}}\nstatus: {eip: {ipv4: 203.0.113.10}}") + egp("b", "spec: {egressGatewayName: gw, egressIP: {allocatorPolicy: rr}, appliedTo: {"+web+"}}"),
		"EgressPolicy ns/b: it is not carried: gateway gw has no address left for it, and each policy has its own; give the gateway more: --address ADDR@gw", 1, 1},

	{"no destinations", strings.Replace(cegp("c", ciliumWeb+ciliumGW), "198.51.100.0/24", "", 1), "CiliumEgressGatewayPolicy c: it is not carried: it has no destinationCIDRs, so it selects nothing there", 0, 0},
	{"no gateway", cegp("c", ciliumWeb), "CiliumEgressGatewayPolicy c: it is not carried: it has no egressGateway", 0, 0},
	{"interface and address", cegp("c", ciliumWeb+"egressGateway: {interface: eth1, egressIP: 203.0.113.9}"), "CiliumEgressGatewayPolicy c: it is not carried: egressGateway has interface and egressIP, so Cilium ignores the policy", 0, 0},
	{"bad egressIP", cegp("c", ciliumWeb+"egressGateway: {egressIP: x}"), `CiliumEgressGatewayPolicy c: it is not carried: egressGateway.egressIP "x": it is no IPv4 or IPv6 address; correct it`, 0, 0},
	{"long name of an interface", cegp("c", ciliumWeb+"egressGateway: {interface: sixteen-byte-nam}"), "CiliumEgressGatewayPolicy c: egressGateway.interface sixteen-byte-nam is not carried: a name has 15 bytes at most; correct it\nCiliumEgressGatewayPolicy c: it is not carried: none of its gateways is carried", 0, 0},
	{"gateways that do not go together", cegp("c", ciliumWeb+ciliumGW+", egressGateways: [{nodeSelector: {matchLabels: {zone: b}}, egressIP: 203.0.113.21}]"), "is not carried: a policy has one gateway, and this one's nodes or interface do not go with those of the first; label the nodes of all alike, and name the label", 1, 1},
	{"gateways that do", cegp("c", ciliumWeb+ciliumGW+", egressGateways: [{nodeSelector: {matchLabels: {egress: too}}, egressIP: 203.0.113.21}]"), "CiliumEgressGatewayPolicy c: there pods are divided among gateways, each with its address; here among the addresses, and any node may have any of them; have partners allow all", 1, 1},
	{"pods of nodes", cegp("c", "selectors: [{"+web+", nodeSelector: {matchLabels: {a: b}}}], "+ciliumGW), `CiliumEgressGatewayPolicy c: selectors[0] is not carried: nodeSelector {"matchLabels":{"a":"b"}}: policies do not select pods by their nodes, and the policy would select more pods without it; label those pods, and select by the label` + "\nCiliumEgressGatewayPolicy c: it is not carried: none of its selectors is carried", 0, 0},
	{"nodes alone", cegp("c", "selectors: [{nodeSelector: {}}, {}], "+ciliumGW), "nodeSelector needs podSelector there\nCiliumEgressGatewayPolicy c: selectors[1] {\"namespaceSelector\":null,\"podSelector\":null,\"nodeSelector\":null} is not carried: it selects nothing there", 0, 0},
	{"reserved label", cegp("c", "selectors: [{podSelector: {matchLabels: {'reserved:host': ''}}}], "+ciliumGW), `CiliumEgressGatewayPolicy c: selectors[0] is not carried: podSelector {"key":"reserved:host","operator":"In","values":[""]}: labels of source reserved are Cilium's own, and the policy would select more pods without it`, 0, 0},
	{"Cilium's own label", cegp("c", "selectors: [{podSelector: {matchLabels: {io.cilium.k8s.policy.name: x}}}], "+ciliumGW), "the label is Cilium's own, and the policy would select more pods without it", 0, 0},
	{"not an account", cegp("c", "selectors: [{podSelector: {matchExpressions: [{key: io.cilium.k8s.policy.serviceaccount, operator: NotIn, values: [x]}]}}], "+ciliumGW), "a policy names service accounts, once, and does not exclude any, and the policy would select more pods without it", 0, 0},
	{"too many accounts", cegp("c", "selectors: [{podSelector: {matchExpressions: [{key: io.cilium.k8s.policy.serviceaccount, operator: In, values: ["+hosts(65)+"]}]}}], "+ciliumGW), "a policy has 64 service accounts at most, and the policy would select more pods without it", 0, 0},
	{"cluster", cegp("c", "selectors: [{podSelector: {matchLabels: {io.cilium.k8s.policy.cluster: east}}}], "+ciliumGW), "is not carried: policies are of their own cluster; leave the policy out if it is another one's", 1, 1},
	{"any account", cegp("c", "selectors: [{podSelector: {matchExpressions: [{key: io.cilium.k8s.policy.serviceaccount, operator: Exists}]}}], "+ciliumGW), "it is left out, for each pod has it", 1, 1},
	{"selectors as one", cegp("c", "selectors: [{"+web+"}, {podSelector: {matchLabels: {app: db}}}], "+ciliumGW), "CiliumEgressGatewayPolicy c: selectors (2): they are written as 1, which select the same pods", 1, 1},
	{"selectors with one address", cegp("c", "selectors: [{"+web+"}, {podSelector: {matchLabels: {tier: db}}}], "+ciliumGW), "CiliumEgressGatewayPolicy c: address 203.0.113.20 is not carried: another of its selectors has it, an address is of one policy alone", 1, 1},
	{"selectors without an address", cegp("c", "selectors: [{"+web+"}, {podSelector: {matchLabels: {tier: db}}}], egressGateway: {nodeSelector: {matchLabels: {a: b}}, interface: eth1}"), "CiliumEgressGatewayPolicy c: its selectors are 2 policies, each with an address of its own; have partners allow all", 1, 2},
	{"longest prefix", cegp("c", ciliumWeb+ciliumGW) + strings.Replace(cegp("d", ciliumWeb+"egressGateway: {nodeSelector: {matchLabels: {egress: 'yes'}}, egressIP: 203.0.113.21}"), "100.0/24", "100.0/25", 1), "Cilium: it takes the policy with the longest destination prefix; here priority decides, and was chosen by the shortest prefix of each policy; check policies with several destinations for the same pods", 1, 2},
	{"behaviour of Cilium", cegp("c", ciliumWeb+ciliumGW), "CiliumEgressGatewayPolicy c: there the first of the nodes by name translates alone; here the others take over when it is gone\nCiliumEgressGatewayPolicy c: there egress addresses are on an interface of the node; here the gateway has interface and addresses to itself; choose an interface that the node itself needs not, and remove the egress addresses from it\n" +
		"Cilium: it selects by security identities, which leave some labels out; here all labels of pods and namespaces count\nCilium: while Cilium routes packets of pods in BPF, they pass Selvage's policy routing by; set bpf.hostLegacyRouting=true among the values of its chart", 1, 1},
	{"more addresses than a gateway has", cegps(150), "Cilium: e0 has 150 ranges of addresses, and 64 fit: it is 3 gateways", 3, 150},
	{"addresses of two gateways", cegps(70) + cegp("f", "selectors: [{podSelector: {matchLabels: {a: c}}}], egressGateways: ["+gateway("203.0.0.1")+", "+gateway("203.0.0.139")+"]"), "CiliumEgressGatewayPolicy f: address 203.0.0.139 is not carried: gateway e0-cilium has it, and the policy is of e0; have partners allow the address that it gets instead", 2, 70},
	{"too many egressIPs", cegp("c", ciliumWeb+"egressGateways: ["+gateways(66)+"]"), "egressIP 203.0.0.129 is not carried: a policy has 64 addresses at most", 1, 1},
}

// cegps are policies with an address each, of one gateway.
func cegps(n int) string {
	var b strings.Builder
	for at, address := range strings.Split(hosts(n), ", ") {
		b.WriteString(cegp(fmt.Sprintf("e%d", at), ciliumWeb+"egressGateway: "+gateway(address)))
	}
	return b.String()
}

func gateway(address string) string {
	return "{nodeSelector: {matchLabels: {a: b}}, egressIP: " + address + "}"
}

// gateways is a list of gateways with one selector.
func gateways(n int) string {
	var all []string
	for address := range strings.SplitSeq(hosts(n), ", ") {
		all = append(all, gateway(address))
	}
	return strings.Join(all, ", ")
}

func convertText(t *testing.T, in string, except bool) (importing.Result, string) {
	t.Helper()
	objects, err := source.Read(strings.NewReader(in), "stdin")
	if err != nil {
		t.Fatal(err)
	}
	o := given()
	o.Nodes, o.Addresses = all("egress=yes"), all("203.0.113.240-203.0.113.243")
	if except {
		o.Except = strings.Split(strings.ReplaceAll(networks(200), "/25", "/26"), ", ")
	}
	return written(t, objects, o)
}

func TestReasons(t *testing.T) {
	for _, c := range reasons {
		t.Run(c.name, func(t *testing.T) {
			r, out := convertText(t, c.in, c.name == "too many exceptions")
			for want := range strings.SplitSeq(c.want, "\n") {
				if !strings.Contains(report(r), want) {
					t.Errorf("the report has no %q:\n%s", want, report(r))
				}
			}
			if p := len(r.Policies) + len(r.ClusterPolicies); len(r.Gateways) != c.gateways || p != c.policies {
				t.Errorf("%d gateways and %d policies; want %d and %d:\n%s\n%s", len(r.Gateways), p, c.gateways, c.policies, out, report(r))
			}
			for _, doc := range documents(out) {
				if why := refused(t, doc); len(why) > 0 {
					t.Errorf("%v:\n%s", why, doc)
				}
			}
		})
	}
}

// TestEveryReason finds the reasons in the source: each has to be in a report of TestReasons.
func TestEveryReason(t *testing.T) {
	var reports strings.Builder
	for _, c := range reasons {
		r, _ := convertText(t, c.in, c.name == "too many exceptions")
		reports.WriteString(report(r))
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	verb := regexp.MustCompile(`%[a-z]`)
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is {
				return true
			}
			name, is := call.Fun.(*ast.SelectorExpr)
			reason := map[string]int{"lost": 3, "changed": 3, "lostPolicy": 3, "differs": 1, "noGateway": 1}[fmt.Sprint(nameOf(name, is))]
			if reason == 0 || len(call.Args) <= reason {
				return true
			}
			for _, s := range literals(call.Args[reason]) {
				found++
				for part := range strings.SplitSeq(verb.ReplaceAllString(s, "\x00"), "\x00") {
					if !strings.Contains(reports.String(), strings.TrimSpace(part)) {
						t.Errorf("%s: no row of TestReasons has %q", file, s)
						break
					}
				}
			}
			return true
		})
	}
	if found < 50 {
		t.Errorf("%d reasons are found", found)
	}
}

func nameOf(s *ast.SelectorExpr, is bool) string {
	if !is {
		return ""
	}
	return s.Sel.Name
}

// literals are the strings in an expression.
func literals(e ast.Expr) (all []string) {
	ast.Inspect(e, func(n ast.Node) bool {
		if lit, is := n.(*ast.BasicLit); is && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && len(s) > 3 {
				all = append(all, s)
			}
		}
		return true
	})
	return all
}
