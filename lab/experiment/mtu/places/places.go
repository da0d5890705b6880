// Package places is lab mtu between places that exist: what size of packet each path carries both
// ways, who is told of larger ones, whether TCP falls into a black hole, and what it carries by MTU.
//
// Its invariant: transfers come before searches, whose messages teach the kernels the path's MTU. Do
// not use it for networks that the lab builds; that is package mtu.
package places

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
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

// Name is in the results. The command is that of lab mtu.
const Name = "mtu-places"

// Experiment is this one.
func Experiment() experiment.Experiment {
	return experiment.Experiment{Name: Name, Summarise: summarise, Verdict: verdict, Page: page, Table: table}
}

// Command are the flags of lab mtu for places.
type Command struct {
	Client   place.Place  `group:"Places" placeholder:"PLACE" help:"Measure between places that exist instead; where the client runs: ns:NAME, ssh:[USER@]HOST[:PORT] or pid:N."`
	Server   place.Place  `group:"Places" placeholder:"PLACE" help:"Where the server runs."`
	Path     []turns.Path `group:"Places" placeholder:"NAME=ADDR" help:"A path, by the server's IPv4 or IPv6 address on it. The first one is the baseline."`
	Inner    []Inner      `group:"Places" placeholder:"SIDE:IFACE" help:"Interface whose MTU is changed by turns, of the client, the server or both: both:eth1. Never one that carries the SSH session."`
	InnerMTU []int        `name:"inner-mtu" group:"Places" placeholder:"BYTES" help:"MTUs that the interfaces of --inner get by turns, besides the one that they have."`
	turns.Flags
}

// Inner is an interface at one side or both.
type Inner struct {
	Client, Server bool
	Interface      string
}

// UnmarshalText reads SIDE:IFACE.
func (i *Inner) UnmarshalText(text []byte) error {
	side, name, _ := strings.Cut(string(text), ":")
	i.Client, i.Server, i.Interface = side == client || side == "both", side == server || side == "both", name
	if !i.Client && !i.Server || name == "" || strings.ContainsAny(name, ":/ ") {
		return fmt.Errorf("%q is not SIDE:IFACE with the side client, server or both, such as both:eth1", text)
	}
	return nil
}

// MTUs that can be asked for. Below IPv6's least the kernel takes its addresses away.
const leastMTU, mostMTU = 1280, 65535

// Check says what is missing or wrong.
func (c *Command) Check(rounds int) error {
	errs := []error{
		turns.CheckPlace("--client", c.Client), turns.CheckPlace("--server", c.Server), turns.CheckPaths(c.Path), c.Flags.Check(),
	}
	if rounds < 1 {
		errs = append(errs, fmt.Errorf("--rounds: %d is not 1 or more", rounds))
	}
	if (len(c.Inner) > 0) != (len(c.InnerMTU) > 0) {
		errs = append(errs, errors.New("--inner and --inner-mtu: name interfaces and MTUs, or neither"))
	}
	for i, mtu := range c.InnerMTU {
		if mtu < leastMTU || mtu > mostMTU {
			errs = append(errs, fmt.Errorf("--inner-mtu: %d is not within %d … %d bytes", mtu, leastMTU, mostMTU))
		}
		if slices.Contains(c.InnerMTU[:i], mtu) {
			errs = append(errs, fmt.Errorf("--inner-mtu: %d is named twice", mtu))
		}
	}
	return errors.Join(errs...)
}

// Roles of the places.
const (
	client = "client"
	server = "server"
)

// Cases. Transfers with another MTU are mtuPrefix and it, "mtu-1400".
const (
	tcp       = "tcp"
	size      = "size"
	reverse   = "-reverse"
	mtuPrefix = "mtu-"
)

// ipVersion is a sample's metric: 4 or 6.
const ipVersion = "ip_version"

func versionOf(addr netip.Addr) float64 {
	if addr.Is4() {
		return 4
	}
	return 6
}

// flows are the source ports from which the largest size is searched: members of a LAG or of ECMP
// may differ.
const flows = 16

// Run measures, writes result and report and prints the summary.
func (c *Command) Run(ctx context.Context, console *experiment.Console, rounds int, to experiment.Destination) error {
	r := &run{Command: c, rounds: rounds, local: map[string]netip.Addr{}}
	plan := turns.Plan{
		Experiment: Experiment(), Flags: &c.Flags, Rounds: rounds,
		Roles: []turns.Role{{Name: client, Place: c.Client}, {Name: server, Place: c.Server}},
		Words: "path MTUs", Prepare: r.prepare, Changes: r.changes, Steps: r.steps,
		Parameters: result.Parameters{
			"order":  result.Words("transfers of a case alternate between the paths in balanced order; the searches for the largest packet come last"),
			"warmup": result.Time(turns.WarmUp).Explained("of each transfer do not count"),
			"flows":  result.Count(flows).Explained("source ports in each search"),
		},
	}
	for _, p := range c.Path {
		plan.Targets = append(plan.Targets, result.Target{Name: p.Name, Description: "to " + p.Addr.String()})
	}
	return plan.Run(ctx, console, to)
}

// run is a run, and what it has found out.
type run struct {
	*Command
	rounds int
	now    int                   // MTU of the interfaces of --inner, 0 for the one that they had
	local  map[string]netip.Addr // of the client, by path
}

// inner are the changes of one side for an MTU, 0 for the one that each interface had.
func (r *run) inner(s *agent.Session, ofClient bool, mtu int) ([]agent.Change, error) {
	var changes []agent.Change
	for _, i := range r.Inner {
		if ofClient && !i.Client || !ofClient && !i.Server {
			continue
		}
		at := slices.IndexFunc(s.Hello.Interfaces, func(o agent.Interface) bool { return o.Name == i.Interface })
		if at < 0 {
			return nil, fmt.Errorf("--inner: %s has no interface %s", s, i.Interface)
		}
		change := agent.Change{Interface: i.Interface, MTU: mtu}
		if mtu == 0 {
			change.MTU = s.Hello.Interfaces[at].MTU
		}
		changes = append(changes, change)
	}
	return changes, nil
}

// setAll has the interfaces of both sides get an MTU; each is told to say what it would be.
func (r *run) setAll(ctx context.Context, s *turns.Sessions, mtu int, dryRun bool, say func(at *agent.Session, line string)) error {
	for _, role := range []string{client, server} {
		session := s.Of(role)
		changes, err := r.inner(session, role == client, mtu)
		if err != nil {
			return err
		}
		if len(changes) == 0 {
			continue
		}
		lines, err := session.Set(ctx, changes, dryRun)
		if err != nil {
			return err
		}
		for _, line := range lines {
			say(session, line)
		}
	}
	return nil
}

func (r *run) changes(ctx context.Context, s *turns.Sessions, out io.Writer) error {
	for _, mtu := range r.InnerMTU {
		err := r.setAll(ctx, s, mtu, true, func(at *agent.Session, line string) { fmt.Fprintf(out, "%s: would set %s\n", at, line) })
		if err != nil {
			return err
		}
	}
	return nil
}

// prepare refuses what cannot be changed before anything is measured.
func (r *run) prepare(ctx context.Context, s *turns.Sessions, _ *result.Result, p *experiment.Progress) error {
	for _, mtu := range r.InnerMTU {
		err := r.setAll(ctx, s, mtu, false, func(at *agent.Session, line string) { p.Note("%s: by turns %s", at, line) })
		if err != nil {
			return err
		}
	}
	return r.use(ctx, s, 0)
}

// use has the interfaces of --inner get an MTU, unless they have it.
func (r *run) use(ctx context.Context, s *turns.Sessions, mtu int) error {
	if len(r.Inner) == 0 {
		return nil
	}
	err := r.setAll(ctx, s, mtu, false, func(*agent.Session, string) {})
	r.now = mtu
	return err
}

// steps are the samples: in each round transfers both ways over all paths, as it is and with each
// MTU; then the searches.
func (r *run) steps(s *turns.Sessions) []turns.Step {
	var names, mtus []string
	for _, p := range r.Path {
		names = append(names, p.Name)
	}
	for _, mtu := range append([]int{0}, r.InnerMTU...) {
		mtus = append(mtus, strconv.Itoa(mtu))
	}
	var steps []turns.Step
	paths := stats.Balanced(names, r.rounds)
	for i, order := range stats.Balanced(mtus, r.rounds) {
		for _, text := range order {
			mtu, _ := strconv.Atoi(text) // it was made above
			for _, name := range paths[i] {
				steps = append(steps, r.transfers(s, i+1, name, mtu)...)
			}
		}
	}
	for _, back := range []bool{false, true} {
		for _, name := range names {
			path, caseName := r.path(name), size
			if back {
				caseName += reverse
			}
			steps = append(steps, turns.Step{
				Step: experiment.Step{Round: 1, CaseName: caseName, Target: name, Planned: 2 * time.Second},
				Take: func(ctx context.Context) (result.Sample, error) { return r.search(ctx, s, path, back) },
			})
		}
	}
	return steps
}

func (r *run) path(name string) turns.Path {
	return r.Path[slices.IndexFunc(r.Path, func(p turns.Path) bool { return p.Name == name })]
}

// transfers are those over a path with an MTU: both ways as it is, else to the server.
func (r *run) transfers(s *turns.Sessions, round int, name string, mtu int) []turns.Step {
	cases := []string{tcp, tcp + reverse}
	if mtu != 0 {
		cases = []string{mtuPrefix + strconv.Itoa(mtu)}
	}
	var steps []turns.Step
	for _, caseName := range cases {
		role := measure.Role{
			Instrument: measure.RoleBulk, Addr: r.path(name).Addr, Port: r.Port, Duration: r.Slice + turns.WarmUp, Rate: int64(r.MaxRate), Streams: 1,
			Reverse: strings.HasSuffix(caseName, reverse),
		}
		steps = append(steps, turns.Step{
			Step: experiment.Step{Round: round, CaseName: caseName, Target: name, Planned: role.Duration},
			Take: func(ctx context.Context) (result.Sample, error) {
				if mtu != r.now {
					if err := r.use(ctx, s, mtu); err != nil {
						return result.Sample{}, turns.Fatal{Cause: err}
					}
				}
				trial, err := s.Run(ctx, client, server, role)
				if err != nil {
					return result.Sample{}, err
				}
				sample, err := trial.Sample("")
				if err == nil {
					sample.Metrics[ipVersion] = versionOf(role.Addr)
				}
				return sample, err
			},
		})
	}
	return steps
}

// search looks for the largest packet that arrives, to the server or back.
func (r *run) search(ctx context.Context, s *turns.Sessions, path turns.Path, back bool) (result.Sample, error) {
	if r.now != 0 {
		if err := r.use(ctx, s, 0); err != nil {
			return result.Sample{}, turns.Fatal{Cause: err}
		}
	}
	from, to, addr := client, server, path.Addr
	if back {
		if from, to, addr = server, client, r.local[path.Name]; !addr.IsValid() {
			return result.Sample{}, errors.New("the client's address on this path is not known, as the search to the server failed")
		}
	}
	began := time.Now()
	role := measure.Role{Instrument: measure.RoleSize, Addr: addr, Port: r.Port, Size: largestOf(s.Of(from)), Flows: flows}
	trial, err := s.Run(ctx, from, to, role)
	if err != nil {
		return result.Sample{}, err
	}
	found, err := measure.ReadSize(trial.Client)
	if err != nil {
		return result.Sample{}, err
	}
	if !back {
		r.local[path.Name] = found.Flows[0].Local
	}
	sample := found.Sample()
	sample.Duration, sample.CPU = time.Since(began).Seconds(), nil
	if sample.Metrics[measure.LargestBest] == 0 {
		return sample, fmt.Errorf("no packet to %s port %d was answered: is UDP let through, and is there no NAT on the way?", addr, r.Port)
	}
	return sample, nil
}

// largestOf is the most that a place can send: the largest MTU of its interfaces, without that of
// loopback.
func largestOf(s *agent.Session) int {
	most := 1500
	for _, i := range s.Hello.Interfaces {
		if i.Up && i.Name != "lo" {
			most = max(most, min(i.MTU, largestProbe))
		}
	}
	return most
}

// largestProbe bounds the search: no link that is built for IP carries more.
const largestProbe = 9216
