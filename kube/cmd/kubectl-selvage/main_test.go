package main

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/trace"
	"github.com/selvage/selvage/kube/internal/commandline"
	"github.com/selvage/selvage/kube/internal/why"
)

// What is wrong with a command is said before a cluster is asked.
func TestUsage(t *testing.T) {
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	for _, c := range []struct{ args, want string }{
		{"why", `expected "<pod>"`},
		{"why web example.org", `destination "example.org" is no address of IPv4 or IPv6`},
		{"why web fe80::1%eth0", "is no address"},
		{"why deployment/web", "deployment/web is no pod: write the name of one, or pod/NAME"},
		{"trace pod/ 203.0.113.1", "pod/ is no pod"},
		{"stages svc/web", "svc/web is no pod"},
		{"why web -o yaml", `--output must be one of "text","json"`},
		{"why web 203.0.113.1 --kubeconfig none", "way to the cluster: "},
		{"trace web", `expected "<destination>"`},
		{"trace web 203.0.113.1:x", "is no address, and none with a port"},
		{"trace web 203.0.113.1:443 --proto icmp", "icmp has no ports"},
		{"trace web 2001:db8::1 --proto tcp", "tcp needs a port"},
		{"trace web [fe80::1%eth0]:443", "has a zone"},
		{"trace web 203.0.113.1:443 --proto sctp", "--proto must be one of"},
		{"trace web 203.0.113.1:443 --sport 70000", "--sport"},
		{"stages", `expected "<pod>`},
		{"stages web 203.0.113.1", "a destination and --server belong together"},
		{"stages web --server ssh:host", "a destination and --server belong together"},
		{"stages web example.org --server ssh:host", "is no address of IPv4 or IPv6"},
		{"stages web 203.0.113.1 --server host", "--server: place \"host\" has no kind: write ns:NAME, ssh:[USER@]HOST[:PORT], pid:N or addr:ADDRESS, or node:NAME"},
		{"stages web 203.0.113.1 --server addr:203.0.113.1", "nothing can run at addr:203.0.113.1"},
		{"stages web --rounds 0", "--rounds: 0 is not within"},
		{"stages web --slice 1ms", "--slice: 1ms is not within"},
		{"stages web --port 0", "--port: 0 is not within"},
		{"stages web --max-rate fast", "--max-rate"},
		{"stages web --loss-rate 1k", "--loss-rate"},
		{"stages web --max-rate 500M --loss-rate 2G --kubeconfig none", "way to the cluster: "},
	} {
		var out, errs strings.Builder
		status := self.Run(t.Context(), &commands{}, strings.Fields(c.args), &commandline.Streams{Out: &out, Err: &errs})
		if status != commandline.ExitUsage || out.String() != "" || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: status %d\n%s%s", c.args, status, &out, &errs)
		}
	}
}

// A packet is in words that edges read, of the pod's address of the destination's family.
func TestPacket(t *testing.T) {
	pod := corev1.Pod{Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.244.1.7"}, {IP: "fd00:10:1::7"}}}}
	for _, c := range []struct{ destination, proto, want string }{
		{"203.0.113.1:443", "", "tcp 10.244.1.7:5000 > 203.0.113.1:443 syn"},
		{"[2001:db8::1]:53", "udp", "udp [fd00:10:1::7]:5000 > [2001:db8::1]:53"},
		{"::ffff:203.0.113.1", "", "icmp 10.244.1.7 > 203.0.113.1"},
		{"2001:db8::1", "icmp", "icmp fd00:10:1::7 > 2001:db8::1"},
	} {
		cmd := traceCmd{Destination: c.destination, Proto: c.proto, Sport: 5000}
		to, err := cmd.destination()
		if err != nil {
			t.Errorf("%s: %v", c.destination, err)
			continue
		}
		words := cmd.packet(pod, to)
		if _, err := trace.Parse(words); err != nil || words != c.want {
			t.Errorf("%s: %s %v, want %s", c.destination, words, err, c.want)
		}
	}
}

// The answer has the way of the packet, edge by edge, and what is wrong.
func TestTraced(t *testing.T) {
	answer := traced{
		Why:   why.Answer{Summary: "pod shop/web leaves", Pod: why.Pod{Node: "n1"}, Steered: true},
		Edges: []hop{{"n1", api.TraceInfo{Packet: "tcp a > b", Steps: []api.TraceStep{{Stage: "drop", What: "no gateway"}}, Verdict: "dropped"}}}, Problems: []string{"the packet does not leave"},
	}
	var b strings.Builder
	if err := answer.text(&b); err != nil {
		t.Fatal(err)
	}
	want := "pod shop/web leaves\nnode n1 leads the packet to its edge\n\nedge of node n1\nin: tcp a > b\n  drop  no gateway\nverdict: dropped\n\nproblem: the packet does not leave\n"
	if b.String() != want {
		t.Errorf("it is\n%s\nwant\n%s", &b, want)
	}
	b.Reset()
	if err := writeJSON(&b, answer); err != nil {
		t.Fatal(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(b.String()), &fields); err != nil || fields["why"] == nil || fields["edges"] == nil || fields["problems"] == nil || fields["leavesAs"] != nil {
		t.Errorf("%v\n%s", err, &b)
	}
}

// The image of the lab is that of the same release.
func TestLabImage(t *testing.T) {
	for edge, want := range map[string]string{
		"ghcr.io/selvage/selvage:v1.2": "ghcr.io/selvage/selvage-lab:v1.2", "registry:5000/selvage": "registry:5000/selvage-lab", "selvage:1": "selvage-lab:1",
		"ghcr.io/selvage/selvage@sha256:00": "", "example.org/edge:1": "",
	} {
		got, err := labImage(edge)
		if got != want || (err == nil) != (want != "") || err != nil && !strings.Contains(err.Error(), "by --image") {
			t.Errorf("%s: %q, %v", edge, got, err)
		}
	}
}

// Stages are measured to the node that has an address of the pod's family, by its address of the destination's.
func TestGatewayNode(t *testing.T) {
	m := measuring{stagesCmd: &stagesCmd{}, answer: why.Answer{Addresses: []string{"2001:db8::20"}, Gateway: &why.Gateway{Name: "out", Nodes: []why.GatewayNode{
		{Name: "gw1", Addresses: []string{"198.51.100.20"}}, {Name: "gw2", Addresses: []string{"2001:db8::20"}}, {Name: "gw3"},
	}}}}
	if got, err := m.gatewayNode(); got != "gw2" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	m.stagesCmd.Gateway = "gw3"
	if got, err := m.gatewayNode(); got != "gw3" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	m.stagesCmd.Gateway = "n1"
	if _, err := m.gatewayNode(); !errors.As(err, new(commandline.UsageError)) {
		t.Errorf("%v", err)
	}
	m.stagesCmd.Gateway, m.answer.Addresses = "", nil
	if _, err := m.gatewayNode(); err == nil || !strings.Contains(err.Error(), "no node of gateway out has an address of the policy now") {
		t.Errorf("%v", err)
	}
	node := corev1.Node{Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeExternalIP, Address: "198.51.100.1"}, {Type: corev1.NodeInternalIP, Address: "192.0.2.1"}, {Type: corev1.NodeInternalIP, Address: "fd00::1"},
	}}}
	for to, want := range map[netip.Addr]string{{}: "192.0.2.1", netip.MustParseAddr("203.0.113.1"): "192.0.2.1", netip.MustParseAddr("2001:db8::1"): "fd00::1"} {
		if got, err := addressOf([]corev1.Node{node}, "", to); err != nil || got.String() != want {
			t.Errorf("to %s: %s, %v", to, got, err)
		}
	}
}

// A node is known by its InternalIP alone.
func TestNodeOf(t *testing.T) {
	n := corev1.Node{Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "n1"}, {Type: corev1.NodeExternalIP, Address: "198.51.100.1"}, {Type: corev1.NodeInternalIP, Address: "192.0.2.1"},
	}}}
	n.Name = "n1"
	for address, want := range map[string]string{"192.0.2.1": "n1", "198.51.100.1": "", "192.0.2.2": ""} {
		if got := nodeOf([]corev1.Node{n}, netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %q", address, got)
		}
	}
	if got := nodeOf([]corev1.Node{n}, netip.Addr{}); got != "" {
		t.Errorf("no address: %q", got)
	}
}
