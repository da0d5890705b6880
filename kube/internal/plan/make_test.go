package plan

import (
	"flag"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

var update = flag.Bool("update", false, "write what is found to testdata")

// addrs are several addresses.
func addrs(list ...string) (out []netip.Addr) {
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func prefixes(list ...string) (out []netip.Prefix) {
	for _, a := range list {
		out = append(out, netip.MustParsePrefix(a))
	}
	return out
}

// cluster is two workers and two nodes of gateway "out"; worker-1 has pods.
func cluster() Input {
	return Input{
		Node: "worker-1",
		Nodes: []Node{
			{Name: "worker-1", Addresses: addrs("192.0.2.1", "2001:db8::1")}, {Name: "worker-2", Addresses: addrs("192.0.2.2", "2001:db8::2")},
			{Name: "gw-1.example.com", Addresses: addrs("192.0.2.3", "2001:db8::3")}, {Name: "gw-2.example.com", Addresses: addrs("192.0.2.4", "2001:db8::4")},
		},
		Gateways: []v1alpha1.EgressGateway{{
			ObjectMeta: metav1.ObjectMeta{Name: "out"},
			Spec: v1alpha1.EgressGatewaySpec{
				Mode: v1alpha1.ActiveStandby, Addresses: []v1alpha1.AddressRange{"198.51.100.20-198.51.100.29", "2001:db8:51::20"},
				Uplink:   v1alpha1.Uplink{Interface: "eth1", NextHops: []string{"198.51.100.1", "2001:db8:51::1"}},
				Liveness: v1alpha1.Liveness{Interval: metav1.Duration{Duration: 50 * time.Millisecond}, Multiplier: 3},
			},
			Status: v1alpha1.EgressGatewayStatus{Nodes: []v1alpha1.GatewayNode{{Name: "gw-2.example.com"}, {Name: "gw-1.example.com"}}},
		}},
		Policies: []v1alpha1.EgressPolicy{
			policy("shop", "web", 1, func(s *v1alpha1.EgressPolicySpec) {
				s.Pods = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
				s.Except = []v1alpha1.Network{"203.0.113.0/28"}
			}),
		},
		Namespaces: map[string]labels.Set{"shop": {"team": "a"}, "bank": {"team": "b"}, "kube-system": {}},
		Pods: []Pod{
			pod("shop", "web-1", "10.244.1.10", "app=web"), pod("shop", "web-2", "10.244.1.11", "app=web"), pod("shop", "db-1", "10.244.1.12", "app=db"),
			pod("bank", "web-1", "10.244.1.13", "app=web"),
		},
		Host: Host{Underlay: "eth0"},
		Settings: Settings{
			Cluster: prefixes("10.244.0.0/16", "10.96.0.0/12", "192.0.2.0/24", "fd00:10:244::/56"), KeyFile: "key",
			LinkUp: LinkPair{
				Host: "selvage0", Edge: "selvage1", HostAddrs: prefixes("192.0.0.253/30", "fd00:77::1/126"), EdgeAddrs: prefixes("192.0.0.254/30", "fd00:77::2/126"),
			},
		},
	}
}

func policy(namespace, name string, number int32, change func(*v1alpha1.EgressPolicySpec)) v1alpha1.EgressPolicy {
	p := v1alpha1.EgressPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid", Generation: 2},
		Spec:       v1alpha1.EgressPolicySpec{Gateway: "out"},
		Status: v1alpha1.EgressPolicyStatus{VNI: 6160384 + number, Addresses: []string{
			netip.AddrFrom4([4]byte{198, 51, 100, byte(20 + number)}).String(),
		}},
	}
	if change != nil {
		change(&p.Spec)
	}
	return p
}

func pod(namespace, name, addr string, label string) Pod {
	key, value, _ := strings.Cut(label, "=")
	return Pod{Namespace: namespace, Name: name, ServiceAccount: "default", Labels: labels.Set{key: value}, Addresses: addrs(addr), Phase: corev1.PodRunning}
}

// asGateway is the input of a node of the gateway.
func asGateway(in *Input) {
	in.Node, in.Pods = "gw-1.example.com", nil
	in.Host.Uplinks = map[string][]netip.Prefix{"eth1": prefixes("198.51.100.3/24", "2001:db8:51::3/64")}
}

// made is the plan of an input, whose file an edge takes.
func made(t testing.TB, in Input) Plan {
	t.Helper()
	p, err := Make(in)
	if err != nil {
		t.Fatal(err)
	}
	takes(t, in, p)
	return p
}

// takes fails where an edge would refuse the file, or would not know a group.
func takes(t testing.TB, in Input, p Plan) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "edge.yaml")
	for name, text := range map[string]string{path: string(p.Edge), filepath.Join(dir, "key"): "a secret of the gateways"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	edge, err := config.Load(path)
	if err != nil {
		t.Fatalf("the edge refuses it: %v\n%s", err, p.Edge)
	}
	if edge.Name != EdgeName(in.Node) {
		t.Errorf("the edge is called %s", edge.Name)
	}
	for name := range p.Groups {
		if !strings.Contains(string(p.Edge), "name: "+name) {
			t.Errorf("group %s is not in the file", name)
		}
	}
}

func TestFiles(t *testing.T) {
	for name, change := range map[string]func(*Input){
		"source":  func(*Input) {},
		"gateway": asGateway,
		"both": func(in *Input) {
			pods := in.Pods
			asGateway(in)
			in.Pods = pods
		},
		"ipv6":   func(in *Input) { in.Settings.TunnelIP = IPv6 },
		"nobody": func(in *Input) { in.Pods = nil },
		"active-active": func(in *Input) {
			asGateway(in)
			in.Gateways[0].Spec.Mode, in.Gateways[0].Spec.Replication = v1alpha1.ActiveActive, v1alpha1.Disabled
			in.Gateways[0].Spec.Uplink.VLAN = 7
		},
		"bgp": withBGP,
		"bgp-alone": func(in *Input) {
			withBGP(in)
			in.Settings.TunnelIP, in.Gateways[0].Status.Nodes = IPv6, in.Gateways[0].Status.Nodes[1:]
		},
		"options": func(in *Input) {
			limit := int32(100)
			in.Policies[0].Spec.Mapping, in.Policies[0].Spec.Limit, in.Policies[0].Spec.To = v1alpha1.EndpointIndependent, &limit, []v1alpha1.Network{"203.0.113.0/24", "::/0"}
			in.Settings.UDPPort = 4790
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := cluster()
			change(&in)
			got := made(t, in).Edge
			file := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil || string(want) != string(got) {
				t.Errorf("%v; run go test -update and look at the difference; it is now\n%s", err, got)
			}
		})
	}
}

// Which pods go where.
func TestSteering(t *testing.T) {
	in := cluster()
	low, account := int32(5), pod("shop", "job-1", "10.244.1.20", "app=job")
	account.ServiceAccount = "robot"
	done, host, none := pod("shop", "web-3", "10.244.1.14", "app=web"), pod("shop", "web-4", "192.0.2.1", "app=web"), pod("shop", "web-5", "10.244.1.15", "app=web")
	done.Phase, host.HostNetwork, none.Addresses = corev1.PodSucceeded, true, nil
	in.Pods = append(in.Pods, account, done, host, none)
	in.Policies = append(in.Policies,
		policy("shop", "robots", 2, func(s *v1alpha1.EgressPolicySpec) { s.ServiceAccounts, s.Priority = []string{"robot"}, &low }),
		policy("shop", "unknown-gateway", 3, func(s *v1alpha1.EgressPolicySpec) { s.Gateway = "none" }),
		policy("bank", "node", 4, func(s *v1alpha1.EgressPolicySpec) { s.WhenNoGateway = v1alpha1.NoGatewayNode }))
	pending := policy("shop", "pending", 5, nil)
	pending.Status = v1alpha1.EgressPolicyStatus{}
	in.Policies = append(in.Policies, pending)
	all := policy("", "all", 6, nil)
	in.ClusterPolicies = []v1alpha1.ClusterEgressPolicy{{ObjectMeta: all.ObjectMeta, Status: all.Status, Spec: v1alpha1.ClusterEgressPolicySpec{
		Namespaces: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}, EgressPolicySpec: all.Spec,
	}}}
	p := made(t, in)
	var got []string
	for _, s := range p.Steering {
		line := s.Policy
		for _, a := range s.Pods {
			line += " " + strings.TrimPrefix(a.String(), "10.244.1.")
		}
		if s.NodeWhenGone {
			line += " or by the node"
		}
		got = append(got, line)
	}
	shop := "10 11 12 20"
	want := []string{"shop/robots 20", "bank/node 13 or by the node", "shop/pending " + shop, "shop/unknown-gateway " + shop, "shop/web 10 11", "all 13"}
	if !slices.Equal(got, want) {
		t.Errorf("steered are %q, want %q", got, want)
	}
	problems := map[string]string{}
	for _, c := range p.Policies {
		if c.Problem != "" {
			problems[c.Key] = c.Problem
			if _, ok := p.Groups[c.EdgeName]; ok {
				t.Errorf("%s is in the edge's file", c.Key)
			}
		}
	}
	if len(problems) != 2 || !strings.Contains(problems["shop/pending"], "no addresses") || !strings.Contains(problems["shop/unknown-gateway"], "no EgressGateway none") {
		t.Errorf("problems %v", problems)
	}
}

// A member without the uplink stays a node whose pods leave by the others.
func TestUplinkIsMissing(t *testing.T) {
	in := cluster()
	asGateway(&in)
	in.Host.Uplinks = nil
	in.Policies[0].Status.Addresses = append(in.Policies[0].Status.Addresses, "2001:db8:51::20")
	p := made(t, in)
	in.Host.Uplinks = map[string][]netip.Prefix{"eth1": prefixes("198.51.100.3/24")}
	made(t, in)
	in.Host.Uplinks["eth0"], in.Gateways[0].Spec.Uplink.Interface = prefixes("192.0.2.3/24"), "eth0"
	if p := made(t, in); !strings.Contains(p.Policies[0].Problem, "has the node's own address") {
		t.Errorf("policies %+v", p.Policies)
	}
	if len(p.Policies) != 1 || !strings.Contains(p.Policies[0].Problem, "interface eth1") {
		t.Errorf("policies %+v", p.Policies)
	}
}

// Answers would not find a pod of a network that is not known, and what it sends to another such pod would leave the cluster: it is held, alone.
func TestPodOfNoNetwork(t *testing.T) {
	in := cluster()
	in.Pods = append(in.Pods, pod("shop", "web-3", "172.20.0.9", "app=web"))
	steered, held := map[string]bool{}, map[string]bool{}
	p := made(t, in)
	for _, s := range p.Steering {
		for _, a := range s.Pods {
			map[bool]map[string]bool{false: steered, true: held}[s.Held][a.String()] = true
		}
	}
	if len(steered) == 0 || len(held) == 0 {
		t.Errorf("steered are %v, held %v", steered, held)
	}
	for a := range held {
		if steered[a] || strings.HasPrefix(a, "10.") || slices.Contains(p.Groups[p.Policies[0].EdgeName], netip.MustParseAddr(a)) {
			t.Errorf("%s is steered or in a known network", a)
		}
	}
	if !strings.Contains(p.Policies[0].Problem, "agent.clusterNetworks") {
		t.Errorf("policies %+v", p.Policies)
	}
	in.NetworksUnknown, in.Settings.Cluster = "none is", nil
	if p = made(t, in); len(p.Groups[p.Policies[0].EdgeName]) > 0 || !strings.HasSuffix(p.Policies[0].Problem, "none is") {
		t.Errorf("policies %+v, groups %v", p.Policies, p.Groups)
	}
}

// A policy that the edge does not have is not overtaken by a later one, and the node holds its packets.
func TestHeld(t *testing.T) {
	held := func(in Input, key string) (list []string) {
		for _, s := range made(t, in).Steering {
			if s.Policy == key && s.Held {
				list = append(list, strings.Join(Texts(s.To), " "))
			}
		}
		return list
	}
	in := cluster()
	in.Policies = append(in.Policies, policy("shop", "earlier", 2, func(s *v1alpha1.EgressPolicySpec) { s.Gateway = "none" }))
	if got := held(in, "shop/earlier"); !slices.Equal(got, []string{""}) {
		t.Errorf("without a gateway %q is held, want everything", got)
	}
	in.Policies[1] = policy("shop", "earlier", 2, func(s *v1alpha1.EgressPolicySpec) { s.To = []v1alpha1.Network{"203.0.113.0/24", "::/0"} })
	if got := held(in, "shop/earlier"); !slices.Equal(got, []string{"::/0"}) {
		t.Errorf("without an address of IPv6 %q is held, want ::/0", got)
	}
	if got := held(in, "shop/web"); got != nil {
		t.Errorf("%q of a good policy is held", got)
	}
}

func TestNodeThatCannotBe(t *testing.T) {
	for words, change := range map[string]func(*Input){
		"no such node":                   func(in *Input) { in.Node = "worker-9" },
		"no InternalIP of IPv6":          func(in *Input) { in.Settings.TunnelIP, in.Nodes[0].Addresses = IPv6, addrs("192.0.2.1") },
		"worker-1: it has no InternalIP": func(in *Input) { in.Nodes[0].Addresses = nil },
	} {
		in := cluster()
		change(&in)
		if _, err := Make(in); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, want %q", err, words)
		}
	}
}

func TestEdgeNames(t *testing.T) {
	long := strings.Repeat("a", 60)
	names := map[string]bool{}
	for _, node := range []string{"a", "a.b", "a-b", "10.0.0.1", "a.c", long + "-.x", strings.Repeat("b", 63), strings.Repeat("b", 63) + ".x"} {
		name := EdgeName(node)
		if names[name] || !label.MatchString(name) {
			t.Errorf("node %s becomes %s", node, name)
		}
		names[name] = true
	}
	names = map[string]bool{}
	for _, words := range [][]string{{"p", "a", "b.c"}, {"p", "a.b", "c"}, {"p", long, long}, {"p", long, long + "b"}, {"p", long + "_", long}, {"c", "a"}, {"n", "a"}} {
		name := edgeName(words[0], words[1:]...)
		if names[name] || len(name) > nameMost {
			t.Errorf("%v becomes %s", words, name)
		}
		names[name] = true
	}
}

// FuzzMake: whatever the objects, an edge takes the file, the order of objects does not matter, and each pod of a policy that
// drops is steered.
func FuzzMake(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		in := random(rand.New(rand.NewPCG(seed, 1)))
		p, err := Make(in)
		if err != nil {
			t.Fatal(err)
		}
		takes(t, in, p)
		shuffle := rand.New(rand.NewPCG(seed, 2))
		shuffled(shuffle, in.Nodes)
		shuffled(shuffle, in.Pods)
		shuffled(shuffle, in.Policies)
		shuffled(shuffle, in.Gateways)
		again, err := Make(in)
		if err != nil || string(again.Edge) != string(p.Edge) || len(again.Steering) != len(p.Steering) {
			t.Fatalf("%v; in another order it is\n%s\ninstead of\n%s", err, again.Edge, p.Edge)
		}
		for _, c := range in.Policies {
			for _, pod := range in.Pods {
				if pod.Namespace == c.Namespace && Selects(c.Spec.Pods)(pod.Labels) && pod.Leaves() && !steered(p, c.Namespace+"/"+c.Name, pod.Addresses[0]) {
					t.Fatalf("pod %s/%s of policy %s is not steered", pod.Namespace, pod.Name, c.Name)
				}
			}
		}
	})
}

func steered(p Plan, key string, a netip.Addr) bool {
	return slices.ContainsFunc(p.Steering, func(s Steer) bool { return s.Policy == key && slices.Contains(s.Pods, a) })
}

func shuffled[T any](r *rand.Rand, list []T) {
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

// random is a cluster with some of everything.
func random(r *rand.Rand) Input {
	in := cluster()
	if r.IntN(2) == 0 {
		asGateway(&in)
	}
	in.Pods = nil
	for i := range r.IntN(20) {
		p := pod([]string{"shop", "bank", "gone"}[r.IntN(3)], "p"+string(rune('a'+i)), netip.AddrFrom4([4]byte{10, 244, 1, byte(i)}).String(), []string{"app=web", "app=db"}[r.IntN(2)])
		p.HostNetwork = r.IntN(8) == 0
		in.Pods = append(in.Pods, p)
	}
	second := *in.Gateways[0].DeepCopy()
	second.Name, second.Status.Nodes = "second", nil
	second.Spec.Uplink.Interface = []string{"eth1", "eth2"}[r.IntN(2)]
	in.Host.Uplinks = map[string][]netip.Prefix{"eth1": prefixes("198.51.100.3/24", "2001:db8:51::3/64"), "eth2": prefixes("198.51.100.4/24")}
	for _, n := range []string{"gw-1.example.com", "deleted", "gw-2.example.com"} {
		if r.IntN(2) == 0 {
			second.Status.Nodes = append(second.Status.Nodes, v1alpha1.GatewayNode{Name: n})
		}
	}
	if r.IntN(4) == 0 {
		in.Nodes = append(in.Nodes, Node{Name: "stale", Addresses: in.Nodes[r.IntN(4)].Addresses})
	}
	for _, g := range []*v1alpha1.EgressGateway{&in.Gateways[0], &second} {
		if r.IntN(2) == 0 {
			g.Spec.Uplink.BGP = advertised()
		}
	}
	if r.IntN(2) == 0 {
		in.Host.Uplinks["eth1"] = append(in.Host.Uplinks["eth1"], session203)
	}
	if r.IntN(4) == 0 {
		second.Spec.Uplink.NextHops = []string{"198.51.100.1", "198.51.100.3"} // the node's own, too
	}
	in.Gateways = append(in.Gateways, second)
	oddPolicies(r, &in)
	for i := range r.IntN(8) {
		in.Policies = append(in.Policies, policy([]string{"shop", "bank"}[r.IntN(2)], "r"+string(rune('a'+i)), int32(10+i), func(s *v1alpha1.EgressPolicySpec) {
			s.Gateway = []string{"out", "second", "none"}[r.IntN(3)]
			priority := int32(r.IntN(3))
			s.Priority = &priority
			if r.IntN(2) == 0 {
				s.Pods = &metav1.LabelSelector{MatchLabels: map[string]string{"app": []string{"web", "db", "other"}[r.IntN(3)]}}
			}
			if r.IntN(3) == 0 {
				s.To = [][]v1alpha1.Network{{"203.0.113.0/24", "203.0.113.0/28"}, {"::/0"}, {"::/0", "0.0.0.0/0"}}[r.IntN(3)]
			}
		}))
	}
	return in
}

// oddPolicies are what the API server takes, a node has at most, and no edge would.
func oddPolicies(r *rand.Rand, in *Input) {
	for i := range r.IntN(3) {
		odd := policy("shop", "odd"+string(rune('a'+i)), int32(50+i), func(s *v1alpha1.EgressPolicySpec) { s.Gateway = []string{"out", "second"}[r.IntN(2)] })
		odd.Status.Addresses = []string{[]string{
			"127.0.0.1", "224.0.0.1", "0.0.0.0", "0.0.0.9", "255.255.255.255", "169.254.0.1", "::", "::5", "::ffff:198.51.100.9", "fe80::1", "ff02::1", "192.0.0.252", "192.0.0.254",
			"198.51.100.0", "198.51.100.1", "198.51.100.3", "198.51.100.255", "2001:db8:51::", "2001:db8:51::3", "2001:db8:77::1", "10.244.1.1", "192.0.2.3", "203.0.113.9", "nonsense",
		}[r.IntN(24)], []string{"198.51.100.77", "2001:DB8:51::77", "2001:db8:51:0::77"}[r.IntN(3)], "2001:db8:51::77"}
		odd.Status.VNI += []int32{0, 0, 0, -6160384, -50 - int32(i) - 1, 1 << 30}[r.IntN(6)]
		in.Policies = append(in.Policies, odd)
	}
}

func BenchmarkMake(b *testing.B) {
	in := cluster()
	for i := range 1000 {
		in.Nodes = append(in.Nodes, Node{Name: "node-" + netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}).String(), Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})}})
	}
	for i := range 500 {
		p := policy("shop", "p"+string(rune('a'+i%26))+string(rune('a'+i/26)), int32(i), nil)
		p.Spec.Pods = &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Name}}
		p.Status.Addresses = []string{netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)}).String()}
		in.Policies = append(in.Policies, p)
	}
	for i := range 110 {
		in.Pods = append(in.Pods, pod("shop", "x", netip.AddrFrom4([4]byte{10, 244, 1, byte(i)}).String(), "app=web"))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Make(in); err != nil {
			b.Fatal(err)
		}
	}
}
