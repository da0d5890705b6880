package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"

	"github.com/selvage/selvage/internal/program"
	"github.com/selvage/selvage/kube/internal/commandline"
	"github.com/selvage/selvage/kube/internal/containers"
	"github.com/selvage/selvage/kube/internal/plan"
	"github.com/selvage/selvage/kube/internal/stages"
	"github.com/selvage/selvage/kube/internal/why"
	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/place"
)

type stagesCmd struct {
	question
	Destination string            `arg:"" optional:"" name:"destination" help:"Address of the server outside, as the pod reaches it. With --server."`
	Server      string            `placeholder:"PLACE" help:"Where the server outside runs, for the stages gateway and egress: ssh:[USER@]HOST[:PORT], ns:NAME or pid:N of this machine, or node:NAME, a node whose address is no network of the cluster."`
	Gateway     string            `placeholder:"NODE" help:"Node of the gateway; the one that has the pod's address when left out."`
	Rounds      int               `default:"8" help:"Rounds of all stages; ${default}. Fewer say nothing about which stage is slower."`
	Slice       time.Duration     `default:"1s" placeholder:"TIME" help:"Duration of each of a stage's three measurements in a round; ${default}."`
	Port        int               `default:"5300" placeholder:"PORT" help:"Port of the servers, TCP and UDP; ${default}. Policies and firewalls have to let the pod and the nodes reach it."`
	MaxRate     resource.Quantity `placeholder:"RATE" help:"Most that is sent, as 500M or 2G bits a second; no limit when left out."`
	LossRate    resource.Quantity `default:"10M" placeholder:"RATE" help:"Rate of the datagrams whose loss is counted; ${default} bits a second."`
	Image       string            `placeholder:"IMAGE" help:"Image that has selvage-lab of this version; selvage-lab beside the release's image of selvage when left out."`
	Start       time.Duration     `default:"2m" placeholder:"TIME" help:"Most that a container may take to start; ${default}."`
	SSH         string            `name:"ssh" default:"ssh" placeholder:"COMMAND" help:"The ssh program with further arguments, for --server; ${default}."`
	Programs    string            `type:"existingdir" placeholder:"DIR" help:"Directory with selvage-lab-linux-ARCH, for a --server of another architecture."`
}

// Help is what kubectl selvage stages --help says besides.
func (stagesCmd) Help() string {
	return "The lab's agent runs, as no root, in a pod in the network of each of both nodes, in the namespace of Selvage's release, and in an ephemeral container of the pod. " +
		"The pods are deleted at the end, also after Ctrl-C; the ephemeral container ends, and stays in the pod's list. It takes the rights of three roles of " +
		"kube/examples/kubectl-selvage.yaml: kubectl-selvage-why, kubectl-selvage-stages in the namespace of the release, and kubectl-selvage-stages-pod in that of the pod. " +
		"The exit status is 1 when a packet left with an address that is none of the policy's, or a stage fails."
}

// nodePrefix is that of a --server that is a node.
const nodePrefix = "node:"

// Validate says what is wrong before a cluster is asked.
func (c *stagesCmd) Validate() error {
	switch {
	case (c.Destination == "") != (c.Server == ""):
		return errors.New("a destination and --server belong together: the address of the server outside, and the place where it runs")
	case c.Rounds < 1 || c.Rounds > mostRounds:
		return fmt.Errorf("--rounds: %d is not within 1 … %d", c.Rounds, mostRounds)
	case c.Slice < leastSlice || c.Slice > mostSlice:
		return fmt.Errorf("--slice: %s is not within %s … %s", c.Slice, leastSlice, mostSlice)
	case c.Port < 1 || c.Port > 65535:
		return fmt.Errorf("--port: %d is not within 1 … 65535", c.Port)
	case c.MaxRate.Sign() < 0 || c.LossRate.Value() < 1e5 || c.LossRate.Value() > 1e11:
		return errors.New("--max-rate and --loss-rate: write 500M or 2G bits a second; of datagrams 100k … 100G")
	}
	return c.checkServer()
}

// checkServer is Validate of the server outside.
func (c *stagesCmd) checkServer() error {
	if c.Destination == "" {
		return nil
	}
	if a, err := netip.ParseAddr(c.Destination); err != nil || a.Zone() != "" {
		return fmt.Errorf("destination %q is no address of IPv4 or IPv6", c.Destination)
	}
	if strings.HasPrefix(c.Server, nodePrefix) {
		return nil
	}
	p, err := place.Parse(c.Server)
	if err == nil && p.Kind == place.Address {
		err = fmt.Errorf("nothing can run at %s", p)
	}
	if err != nil {
		return fmt.Errorf("--server: %w, or node:NAME", err)
	}
	return nil
}

const (
	mostRounds            = 1000
	leastSlice, mostSlice = 200 * time.Millisecond, 10 * time.Second
	// instrumentMost is the longest time of an instrument: a slice and what it begins with.
	instrumentMost = mostSlice + 5*time.Second
	// podMost bounds what a pod on a node lives beyond the time that is planned.
	podMost = 15 * time.Minute
)

// Run measures.
func (c *stagesCmd) Run(ctx context.Context, s *commandline.Streams) error {
	var to netip.Addr
	if c.Destination != "" {
		to = netip.MustParseAddr(c.Destination).Unmap()
	}
	k, err := c.connect(ctx, true)
	if err != nil {
		return err
	}
	o, err := k.objects(ctx, to)
	if err != nil {
		return err
	}
	answer := why.Explain(o, to)
	if answer.Way != why.ByGateway || answer.Gateway == nil {
		return fmt.Errorf("%s\nthere is no gateway to measure (kubectl selvage why says more)", answer.Summary)
	}
	run := &measuring{stagesCmd: c, cluster: k, answer: answer, to: to, streams: s, agents: stages.Agents{}}
	report, err := run.measure(ctx)
	closed := run.close(ctx)
	if err != nil {
		return errors.Join(err, closed)
	}
	if c.Output == "json" {
		err = writeJSON(s.Out, report)
	} else {
		err = report.Text(s.Out)
	}
	if err == nil && closed == nil && len(report.Problems) > 0 {
		return commandline.ErrPrinted
	}
	return errors.Join(err, closed) // what was not removed hides nothing of the answer
}

// measuring is a run.
type measuring struct {
	*stagesCmd
	cluster    *cluster
	answer     why.Answer
	to         netip.Addr
	streams    *commandline.Streams
	gateway    string
	containers *containers.Containers
	agents     stages.Agents
}

func (m *measuring) progress(format string, args ...any) {
	fmt.Fprintf(m.streams.Err, "kubectl-selvage: "+format+"\n", args...)
}

// close ends and removes what was made.
func (m *measuring) close(ctx context.Context) error {
	if m.containers == nil {
		return nil
	}
	return errors.Join(m.agents.Close(), m.containers.Close(ctx))
}

// measure makes the containers, which close removes.
func (m *measuring) measure(ctx context.Context) (report stages.Report, err error) {
	if m.gateway, err = m.gatewayNode(); err != nil {
		return report, err
	}
	nodes, err := m.cluster.nodes(ctx)
	if err != nil {
		return report, err
	}
	address, err := addressOf(nodes, m.gateway, m.to)
	if err != nil {
		return report, err
	}
	if err := m.prepare(ctx); err != nil {
		return report, err
	}
	if err := m.open(ctx); err != nil {
		return report, err
	}
	figures := stages.Run(ctx, stages.List(m.oneNode(), address, m.to), stages.Options{
		Rounds: m.Rounds, Slice: m.Slice, Port: m.Port, Rate: m.MaxRate.Value(), LossRate: m.LossRate.Value(),
	}, m.agents.Instrument, m.progress)
	if err := errors.Join(ctx.Err(), m.agents.Err()); err != nil {
		return report, fmt.Errorf("not measured to the end: %w", err)
	}
	return stages.Make(m.facts(ctx, nodes, address), figures), nil
}

// oneNode reports whether the pod is on the gateway's node.
func (m *measuring) oneNode() bool { return m.answer.Pod.Node == m.gateway }

// gatewayNode is the one that has an address with which the pod leaves.
func (m *measuring) gatewayNode() (string, error) {
	g := m.answer.Gateway
	if m.stagesCmd.Gateway != "" {
		if !slices.ContainsFunc(g.Nodes, func(n why.GatewayNode) bool { return n.Name == m.stagesCmd.Gateway }) {
			return "", commandline.UsageError{Err: fmt.Errorf("--gateway: node %s is none of gateway %s", m.stagesCmd.Gateway, g.Name)}
		}
		return m.stagesCmd.Gateway, nil
	}
	for _, n := range g.Nodes {
		if slices.ContainsFunc(n.Addresses, func(a string) bool { return slices.Contains(m.answer.Addresses, a) }) {
			return n.Name, nil
		}
	}
	return "", fmt.Errorf("no node of gateway %s has an address of the policy now (kubectl selvage why says more); --gateway names a node to measure to", g.Name)
}

// addressOf is that of a node in the nodes' network, of the destination's family where it has one.
func addressOf(nodes []corev1.Node, name string, to netip.Addr) (found netip.Addr, err error) {
	i := slices.IndexFunc(nodes, func(n corev1.Node) bool { return n.Name == name })
	if i < 0 {
		return found, fmt.Errorf("node %s is not there", name)
	}
	own := plan.NodeOf(&nodes[i]).Addresses
	if len(own) == 0 {
		return found, fmt.Errorf("node %s has no InternalIP", name)
	}
	if same := slices.IndexFunc(own, func(a netip.Addr) bool { return a.Is4() == to.Is4() }); to.IsValid() && same >= 0 {
		return own[same], nil
	}
	return own[0], nil
}

// prepare finds out what containers take, and whether they are allowed.
func (m *measuring) prepare(ctx context.Context) error {
	release, ok := m.cluster.edges.Release()
	if !ok {
		return errors.New("no agent of Selvage is there: --selvage-namespace says where")
	}
	image, err := m.Image, error(nil)
	if image == "" {
		if image, err = labImage(release.Image); err != nil {
			return err
		}
	}
	client, err := kubernetes.NewForConfig(m.cluster.config)
	if err != nil {
		return err
	}
	const eachRound = 4*3 + 4 // seconds of a slice, and what starting takes
	m.containers = containers.New(client, containers.Options{
		Namespace: release.Namespace, Image: image, PullSecrets: release.PullSecrets, Command: stages.Command(m.MaxRate.Value(), instrumentMost),
		Start: m.Start, Life: podMost + time.Duration(m.Rounds*eachRound)*max(m.Slice, time.Second),
	})
	if err := m.containers.Allowed(ctx, m.cluster.Namespace); err != nil {
		return err
	}
	return m.containers.Tidy(ctx)
}

// labImage is the lab's of the same release.
func labImage(edge string) (string, error) {
	name, tag := edge, ""
	if i := strings.LastIndexByte(edge, ':'); i > strings.LastIndexByte(edge, '/') {
		name, tag = edge[:i], edge[i:]
	}
	if strings.Contains(edge, "@") || !strings.HasSuffix(name, "/selvage") && name != "selvage" {
		return "", fmt.Errorf("the image of the lab is not known from that of the edges, %s: name it by --image", edge)
	}
	return name + "-lab" + tag, nil
}

// open makes the containers, and sessions with all places.
func (m *measuring) open(ctx context.Context) error {
	onNode := func(node string) func() (containers.Container, error) {
		return func() (containers.Container, error) { return m.containers.OnNode(ctx, node) }
	}
	type end struct {
		role, name string
		make       func() (containers.Container, error)
	}
	ends := []end{
		{stages.OfGateway, "gateway's node " + m.gateway, onNode(m.gateway)},
		{stages.OfPod, "pod " + m.cluster.Namespace + "/" + m.Pod, func() (containers.Container, error) {
			return m.containers.InPod(ctx, m.cluster.Namespace, m.Pod)
		}},
	}
	if !m.oneNode() {
		ends = append(ends, end{stages.OfNode, "pod's node " + m.answer.Pod.Node, onNode(m.answer.Pod.Node)})
	}
	if node, is := strings.CutPrefix(m.Server, nodePrefix); is {
		if node == m.gateway || node == m.answer.Pod.Node {
			return commandline.UsageError{Err: fmt.Errorf("--server: node %s is the pod's or the gateway's: name another one", node)}
		}
		ends = append(ends, end{stages.OfServer, "server's node " + node, onNode(node)})
	}
	for _, e := range ends {
		m.progress("start the lab's agent: %s", e.name)
		c, err := e.make()
		if err != nil {
			return err
		}
		if m.agents[e.role], err = stages.Attach(ctx, m.cluster.config, c, e.name, program.Version()); err != nil {
			delete(m.agents, e.role)
			return err
		}
	}
	return m.openServer(ctx)
}

// openServer has a session with a server that is no node.
func (m *measuring) openServer(ctx context.Context) error {
	if m.Server == "" || m.agents[stages.OfServer] != nil {
		return nil
	}
	p, err := place.Parse(m.Server)
	if err != nil {
		return err
	}
	m.progress("start the lab's agent: %s", p)
	o := place.Connection{SSH: m.SSH, Sudo: place.NoSudo, Programs: m.Programs}.Options(program.Version(), nil)
	o.Limits = agent.Limits{Rate: m.MaxRate.Value(), Time: instrumentMost}
	session, err := place.Open(ctx, p, o)
	if err == nil {
		m.agents[stages.OfServer] = session
	}
	return err
}

// facts are what the report takes besides the figures.
func (m *measuring) facts(ctx context.Context, nodes []corev1.Node, address netip.Addr) stages.Facts {
	f := stages.Facts{
		Pod: m.cluster.Namespace + "/" + m.Pod, Node: m.answer.Pod.Node, Gateway: m.gateway, Server: m.Server, Own: map[netip.Addr]string{},
		Notes: append(slices.Clone(m.answer.Notes), m.answer.Problems...),
	}
	for _, text := range m.answer.Addresses {
		if a, err := netip.ParseAddr(text); err == nil {
			f.Expected = append(f.Expected, a)
		}
	}
	own := func(role, words string) {
		if m.agents[role] != nil {
			for _, a := range m.agents.Addresses(role) {
				f.Own[a] = words
			}
		}
	}
	own(stages.OfGateway, "of the gateway's node")
	own(stages.OfNode, "of the pod's node")
	own(stages.OfPod, "of the pod itself")
	if m.oneNode() {
		f.Notes = append(f.Notes, "the pod is on the gateway's node: there is no way between nodes")
	} else {
		f.Offloads = append(f.Offloads, m.agents.Offloads(ctx, stages.OfNode, "pod's node", address))
		if own, err := addressOf(nodes, m.answer.Pod.Node, address); err == nil {
			f.Offloads = append(f.Offloads, m.agents.Offloads(ctx, stages.OfGateway, "gateway's node", own))
		}
	}
	if m.to.IsValid() {
		f.Offloads = append(f.Offloads, m.agents.Offloads(ctx, stages.OfGateway, "gateway's node, to the server", m.to))
	} else {
		f.Notes = append(f.Notes, "stages gateway and egress, and the source address, take a server outside: name its address and --server")
	}
	return f
}
