package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/observe"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/trace"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/commandline"
	"github.com/selvage/selvage/kube/internal/plan"
	"github.com/selvage/selvage/kube/internal/why"
)

type traceCmd struct {
	question
	Destination string `arg:"" name:"destination" help:"Address outside the cluster, with a port or without: 203.0.113.1:443, [2001:db8::1]:443, 203.0.113.1."`
	Proto       string `enum:",tcp,udp,icmp" default:"" placeholder:"PROTOCOL" help:"tcp, udp or icmp; when left out, tcp with a port and icmp without."`
	Sport       uint16 `placeholder:"PORT" default:"49152" help:"Source port of tcp and udp."`
}

// traced is the answer. Its JSON is for programs: fields stay, and new ones may come.
type traced struct {
	Why   why.Answer `json:"why"`
	Edges []hop      `json:"edges"`
	// LeavesAs is the address with which the packet leaves the last edge, "" when it does not.
	LeavesAs string   `json:"leavesAs,omitempty"`
	Problems []string `json:"problems"`
}

// hop is what an edge does with the packet.
type hop struct {
	Node  string        `json:"node"`
	Trace api.TraceInfo `json:"trace"`
}

// Run asks the edge of the pod's node, and that of the gateway to which it sends the packet.
func (c *traceCmd) Run(ctx context.Context, s *commandline.Streams) error {
	to, err := c.destination()
	if err != nil {
		return commandline.UsageError{Err: err}
	}
	k, err := c.connect(ctx, true)
	if err != nil {
		return err
	}
	o, err := k.objects(ctx, to.Addr())
	if err != nil {
		return err
	}
	t := traced{Why: why.Explain(o, to.Addr()), Edges: []hop{}}
	t.Problems = slices.Clone(t.Why.Problems)
	if t.Why.Steered {
		if err := k.follow(ctx, &t, c.packet(o.Pod, to)); err != nil {
			t.Problems = append(t.Problems, err.Error())
		}
	}
	if c.Output == "json" {
		err = writeJSON(s.Out, t)
	} else {
		err = t.text(s.Out)
	}
	if err == nil && len(t.Problems) > 0 {
		err = commandline.ErrPrinted
	}
	return err
}

// destination is that of the packet, and completes its protocol.
func (c *traceCmd) destination() (netip.AddrPort, error) {
	to, err := netip.ParseAddrPort(c.Destination)
	port := err == nil
	if !port {
		addr, err := netip.ParseAddr(c.Destination)
		if err != nil {
			return to, fmt.Errorf("destination %q is no address, and none with a port, as in 203.0.113.1:443 or [2001:db8::1]:443", c.Destination)
		}
		to = netip.AddrPortFrom(addr, 0)
	}
	if c.Proto == "" {
		c.Proto = map[bool]string{true: "tcp", false: "icmp"}[port]
	}
	switch {
	case to.Addr().Zone() != "":
		return to, fmt.Errorf("destination %q has a zone: it is not outside the cluster", c.Destination)
	case port && c.Proto == "icmp":
		return to, errors.New("icmp has no ports: leave that of the destination out")
	case !port && c.Proto != "icmp":
		return to, fmt.Errorf("%s needs a port: write it behind the destination, as in 203.0.113.1:443", c.Proto)
	}
	return netip.AddrPortFrom(to.Addr().Unmap(), to.Port()), nil
}

// packet is the pod's, in the words of an edge. A connection of TCP begins.
func (c *traceCmd) packet(pod corev1.Pod, to netip.AddrPort) string {
	var from netip.Addr
	for _, a := range plan.PodOf(&pod).Addresses {
		if a.Is4() == to.Addr().Is4() {
			from = a
			break
		}
	}
	switch c.Proto {
	case "icmp":
		return fmt.Sprintf("icmp %s > %s", from, to.Addr())
	case "udp":
		return fmt.Sprintf("udp %s > %s", netip.AddrPortFrom(from, c.Sport), to)
	}
	return fmt.Sprintf("tcp %s > %s syn", netip.AddrPortFrom(from, c.Sport), to)
}

// routed is the TTL of a packet that the first edge has routed.
const routed = "63"

// nodeMAC stands for that of the node's end of the pair, which no table asks for.
const nodeMAC = "02:00:00:00:00:01"

// follow asks the edge of the pod's node what it does with a packet, and then that of the gateway. A packet that comes to one by a tunnel
// is in the segment of the policy.
func (k *cluster) follow(ctx context.Context, t *traced, packet string) error {
	frame, err := k.ask(ctx, t, t.Why.Pod.Node, packet, "--port", plan.PodPort, "--src-mac", nodeMAC)
	if err != nil {
		return err
	}
	src, dst := trace.Addrs(frame)
	nodes, err := k.nodes(ctx)
	if err != nil {
		return err
	}
	if gateway := nodeOf(nodes, dst); gateway != "" && nodeOf(nodes, src) == t.Why.Pod.Node {
		segment := overlay.EgressPolicy{Name: plan.PolicyName(t.Why.Policy.Names())}.SegmentName()
		if frame, err = k.ask(ctx, t, gateway, packet, "--remote", src.String(), "--segment", segment, "--src-mac", overlay.EgressMAC.String(), "--ttl", routed); err != nil {
			return err
		}
		src, _ = trace.Addrs(frame)
	}
	last, known := t.Edges[len(t.Edges)-1], t.Why.Policy.Addresses
	if t.Why.Policy.AddressType == string(v1alpha1.AddressNode) {
		known = t.Why.Addresses
	}
	switch {
	case !src.IsValid():
		return fmt.Errorf("the packet does not leave the edge of node %s: %s", last.Node, last.Trace.Verdict)
	case !slices.Contains(known, src.String()):
		return fmt.Errorf("the packet leaves the edge of node %s as %s, which is no address of the policy", last.Node, src)
	}
	t.LeavesAs = src.String()
	return nil
}

// ask has an edge trace a packet, and is the frame that leaves it.
func (k *cluster) ask(ctx context.Context, t *traced, node, packet string, argv ...string) ([]byte, error) {
	out, err := k.edges.Ask(ctx, node, append([]string{"trace", "-o", "json", packet}, argv...)...)
	if err != nil {
		return nil, err
	}
	h := hop{Node: node}
	if err := json.Unmarshal(out, &h.Trace); err != nil {
		return nil, fmt.Errorf("node %s: what its edge says of the packet: %w", node, err)
	}
	t.Edges = append(t.Edges, h)
	return hex.DecodeString(h.Trace.Out)
}

// nodeOf is the node with an address, "" when there is none.
func nodeOf(nodes []corev1.Node, a netip.Addr) string {
	for i := range nodes {
		if slices.Contains(plan.NodeOf(&nodes[i]).Addresses, a) {
			return nodes[i].Name
		}
	}
	return ""
}

// text writes the answer for people.
func (t *traced) text(w io.Writer) error {
	lead := "node " + t.Why.Pod.Node + " leads the packet to its edge"
	if !t.Why.Steered {
		lead = "the packet does not come to an edge"
	}
	if _, err := fmt.Fprintf(w, "%s\n%s\n", t.Why.Summary, lead); err != nil {
		return err
	}
	for _, h := range t.Edges {
		fmt.Fprintf(w, "\nedge of node %s\n", h.Node)
		if err := observe.Trace(observe.Writer{Writer: w}, h.Trace); err != nil {
			return err
		}
	}
	if t.LeavesAs != "" {
		fmt.Fprintf(w, "\nit leaves as %s\n", t.LeavesAs)
	}
	for i, p := range t.Problems {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "problem: %s\n", p)
	}
	return nil
}
