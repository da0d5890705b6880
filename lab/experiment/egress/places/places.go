// Package places is lab egress between places that exist: what the way over an egress gateway costs
// a node, and which source address the target sees.
//
// Its invariant: what an egress path costs is against the first path in the same round, and a source
// address is what the target itself said. Do not use it for gateways that the lab builds; that is
// package egress.
package places

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/turns"
)

// Name is in the results. The command is that of lab egress.
const Name = "egress-places"

// Experiment is this one.
func Experiment() experiment.Experiment {
	return experiment.Experiment{Name: Name, Summarise: summarise, Verdict: verdict, Page: page, Table: table}
}

// Command are the flags of lab egress for places.
type Command struct {
	Node    place.Place  `group:"Places" placeholder:"PLACE" help:"Measure between places that exist instead; where what uses the egress path runs: ns:NAME, ssh:[USER@]HOST[:PORT] or pid:N."`
	Gateway place.Place  `group:"Places" placeholder:"PLACE" help:"The egress gateway."`
	Target  place.Place  `group:"Places" placeholder:"PLACE" help:"Where the target runs, outside of the gateway."`
	Path    []turns.Path `group:"Places" placeholder:"NAME=ADDR" help:"A path, by the target's IPv4 or IPv6 address that the node reaches over it. The first one is the baseline. Where the name begins with egress, the target must not see the node's own address."`
	turns.Flags
}

// Check says what is missing or wrong.
func (c *Command) Check(rounds int) error {
	errs := []error{
		turns.CheckPlace("--node", c.Node), turns.CheckPlace("--gateway", c.Gateway), turns.CheckPlace("--target", c.Target),
		turns.CheckPaths(c.Path), c.Flags.Check(),
	}
	same := func(a, b place.Place) bool { return a == b && a.Kind != "" }
	if same(c.Node, c.Gateway) || same(c.Node, c.Target) || same(c.Gateway, c.Target) {
		errs = append(errs, errors.New("--node, --gateway and --target: name three different places"))
	}
	if len(c.Path) > 0 && !slices.ContainsFunc(c.Path, func(p turns.Path) bool { return isEgress(p.Name) }) {
		errs = append(errs, errors.New("--path: name the one over the gateway egress, as egress=192.0.2.12, and others of that kind egress6 or egress-NAME"))
	}
	for _, p := range c.Path {
		if strings.HasPrefix(p.Name, fromGateway) {
			errs = append(errs, fmt.Errorf("--path: %s is the name of what the gateway itself does", p.Name))
		}
	}
	if rounds < 1 {
		errs = append(errs, fmt.Errorf("--rounds: %d is not 1 or more", rounds))
	}
	return errors.Join(errs...)
}

// Roles of the places.
const (
	node    = "node"
	gateway = "gateway"
	target  = "target"
)

func roles() []string { return []string{node, gateway, target} }

// fromGateway and the name of an egress path is the target of what the gateway sends to the same
// address.
const fromGateway = "gateway-"

// isEgress says whether a path is held to hide the node's address.
func isEgress(path string) bool { return strings.HasPrefix(path, "egress") }

// Cases.
const (
	source     = "source" // which address the target sees
	tcp        = "tcp"
	tcpReverse = "tcp-reverse" // from the target
	rr         = "rr"
	crr        = "crr"
)

// connections are the source ports of a question for the source address: a pool may have several
// addresses, and one that is full may leave packets as they are.
const connections = 8

// rrSize is a request and a response, in bytes.
const rrSize = 1

// Whose a source address is: metrics of case source, counts of connections.
const (
	seenNode    = "seen_node"
	seenGateway = "seen_gateway"
	seenOther   = "seen_other"
)

// Parameters that end in a path's name: which addresses the target saw, and why the gateway's own way
// there is not measured.
const (
	sourceKey       = "source_"
	gatewayErrorKey = "gateway_error_"
)

// sharedKey is a parameter: the roles whose places have the same cores.
const sharedKey = "one_machine"

// Run measures, writes result and report and prints the summary.
func (c *Command) Run(ctx context.Context, console *experiment.Console, rounds int, to experiment.Destination) error {
	r := &run{Command: c, rounds: rounds}
	plan := turns.Plan{
		Experiment: Experiment(), Flags: &c.Flags, Rounds: rounds,
		Roles: []turns.Role{{Name: node, Place: c.Node}, {Name: gateway, Place: c.Gateway}, {Name: target, Place: c.Target}},
		Words: "egress paths", Explore: r.explore, Steps: r.steps,
		Parameters: result.Parameters{
			"order":       result.Words("all cases of a path come together; the paths take turns in balanced order"),
			"warmup":      result.Time(turns.WarmUp).Explained("of each slice do not count"),
			"connections": result.Count(connections).Explained("source ports in each question for the source address"),
			"loop":        result.Words("closed").Explained("a transaction begins when the last one has ended, so it measures service time"),
		},
	}
	for _, p := range c.Path {
		plan.Targets = append(plan.Targets, result.Target{Name: p.Name, Description: "node to " + p.Addr.String()})
	}
	return plan.Run(ctx, console, to)
}

// route is what is measured under one name: a path of the node, or the gateway's own way to the
// address of one.
type route struct {
	name, from string // from is a role
	addr       netip.Addr
}

// run is a run, and what it has found out.
type run struct {
	*Command
	rounds     int
	routes     []route
	parameters result.Parameters // of the result
}

// explore has the node connect over each path, and finds out where the gateway gets to itself.
func (r *run) explore(ctx context.Context, s *turns.Sessions, res *result.Result) error {
	r.parameters = res.Parameters
	if shared := sharing(s); len(shared) > 0 {
		r.parameters[sharedKey] = result.Of(result.Texts(shared))
	}
	for _, p := range r.Path {
		of := route{p.Name, node, p.Addr}
		if _, err := r.ask(ctx, s, of); err != nil {
			return fmt.Errorf("--path %s: from %s to %s port %d: %w: is the port open on this path?", p.Name, s.Of(node), p.Addr, r.Port, err)
		}
		r.routes = append(r.routes, of)
	}
	for _, p := range r.Path {
		of := route{fromGateway + p.Name, gateway, p.Addr}
		if !isEgress(p.Name) {
			continue
		}
		switch _, err := r.ask(ctx, s, of); {
		case s.Err() != nil:
			return s.Err()
		case err != nil:
			r.parameters[gatewayErrorKey+p.Name] = result.Words(err.Error())
		default:
			r.routes = append(r.routes, of)
			res.Targets = append(res.Targets, result.Target{Name: of.name, Description: "gateway to " + p.Addr.String()})
		}
	}
	return ctx.Err()
}

// sharing are the roles whose places are on the machine of another one's.
func sharing(s *turns.Sessions) (names []string) {
	for _, role := range roles() {
		if slices.ContainsFunc(roles(), func(o string) bool { return o != role && s.Of(o).Hello.Machine == s.Of(role).Hello.Machine }) {
			names = append(names, role)
		}
	}
	return names
}

// ask has the target say which addresses connections come from.
func (r *run) ask(ctx context.Context, s *turns.Sessions, of route) ([]measure.Peer, error) {
	trial, err := s.Run(ctx, of.from, target, measure.Role{Instrument: measure.RolePeer, Addr: of.addr, Port: r.Port, Flows: connections})
	if err != nil {
		return nil, err
	}
	return measure.ReadPeers(trial.Client)
}

// steps are the samples: in each round all routes, of each all cases.
func (r *run) steps(s *turns.Sessions) []turns.Step {
	var steps []turns.Step
	for i, order := range stats.Balanced(r.routes, r.rounds) {
		for _, of := range order {
			if of.from == node {
				steps = append(steps, turns.Step{
					Step: experiment.Step{Round: i + 1, CaseName: source, Target: of.name, Planned: 100 * time.Millisecond},
					Take: func(ctx context.Context) (result.Sample, error) { return r.takeSource(ctx, s, of) },
				})
			}
			for _, caseName := range []string{tcp, tcpReverse, rr, crr} {
				steps = append(steps, turns.Step{
					Step: experiment.Step{Round: i + 1, CaseName: caseName, Target: of.name, Planned: r.Slice + turns.WarmUp},
					Take: func(ctx context.Context) (result.Sample, error) { return r.take(ctx, s, of, caseName) },
				})
			}
		}
	}
	return steps
}

// roleOf is the instrument of a case.
func (r *run) roleOf(of route, caseName string) measure.Role {
	role := measure.Role{Addr: of.addr, Port: r.Port, Rate: int64(r.MaxRate)}
	switch caseName {
	case rr:
		role.Instrument, role.Size, role.Duration, role.Warmup = measure.RoleRR, rrSize, r.Slice, turns.WarmUp
	case crr:
		role.Instrument, role.Duration, role.Warmup = measure.RoleCRR, r.Slice, turns.WarmUp
	default:
		role.Instrument, role.Streams, role.Duration, role.Reverse = measure.RoleBulk, 1, r.Slice+turns.WarmUp, caseName == tcpReverse
	}
	return role
}

func (r *run) take(ctx context.Context, s *turns.Sessions, of route, caseName string) (result.Sample, error) {
	trial, err := s.Run(ctx, of.from, target, r.roleOf(of, caseName))
	if err != nil {
		return result.Sample{}, err
	}
	sample, err := trial.Sample("")
	if err == nil {
		maps.Copy(sample.Metrics, turns.CostPerGB(sample, roles()...))
	}
	return sample, err
}

// takeSource asks for source addresses, counts whose they are and takes down new ones.
func (r *run) takeSource(ctx context.Context, s *turns.Sessions, of route) (result.Sample, error) {
	began := time.Now()
	peers, err := r.ask(ctx, s, of)
	if err != nil {
		return result.Sample{}, err
	}
	sample := result.Sample{Metrics: map[string]float64{seenNode: 0, seenGateway: 0, seenOther: 0}}
	addresses := map[string][]netip.Addr{node: addrsOf(s.Of(node)), gateway: addrsOf(s.Of(gateway))}
	seen, _ := r.parameters[sourceKey+of.name].Value.(result.Texts)
	for _, p := range peers {
		metric, words := whose(p, addresses[node], addresses[gateway])
		sample.Metrics[metric]++
		if line := p.Seen.String() + " " + words; len(seen) < mostSources && !slices.Contains(seen, line) {
			seen = append(seen, line)
		}
	}
	r.parameters[sourceKey+of.name] = result.Of(seen)
	sample.Duration = time.Since(began).Seconds()
	return sample, nil
}

// mostSources bounds the addresses that are taken down for a path.
const mostSources = 32

// whose is the metric that counts a connection, by whose address the target saw, and that in words.
// An address that both places have, as of a bridge of containers, is the node's only if the
// connection left from it.
func whose(p measure.Peer, ofNode, ofGateway []netip.Addr) (metric, words string) {
	switch {
	case p.Seen == p.Local:
		return seenNode, "of the node"
	case slices.Contains(ofGateway, p.Seen):
		return seenGateway, "of the gateway"
	case slices.Contains(ofNode, p.Seen):
		return seenNode, "of the node"
	}
	return seenOther, "of neither"
}

// addrsOf are the addresses of a place's interfaces.
func addrsOf(s *agent.Session) []netip.Addr {
	var addrs []netip.Addr
	for _, i := range s.Hello.Interfaces {
		for _, text := range i.Addrs {
			if prefix, err := netip.ParsePrefix(text); err == nil {
				addrs = append(addrs, prefix.Addr().WithZone(""))
			}
		}
	}
	return addrs
}
