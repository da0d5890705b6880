// Package places is lab latency between places that exist: what a firewall adds to a round trip and
// to a connection, where commands of the user switch it on and off by turns.
//
// Its invariant: what is added is against the same path without the firewall, in the same round, and
// the firewall is off when the run has ended. Do not use it for firewalls that the lab makes; that
// is package latency.
package places

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// Name is in the results. The command is that of lab latency.
const Name = "latency-places"

// Experiment is this one.
func Experiment() experiment.Experiment {
	return experiment.Experiment{Name: Name, Summarise: summarise, Verdict: verdict, Page: page, Table: table}
}

// Command are the flags of lab latency for places.
type Command struct {
	Client place.Place   `group:"Places" placeholder:"PLACE" help:"Measure between places that exist instead; where the client runs: ns:NAME, ssh:[USER@]HOST[:PORT] or pid:N."`
	Server place.Place   `group:"Places" placeholder:"PLACE" help:"Where the server runs."`
	Path   []turns.Path  `group:"Places" placeholder:"NAME=ADDR" help:"A path through the firewall, by the server's address on it."`
	On     string        `group:"Places" placeholder:"CMD" help:"Command that switches the firewall on."`
	Off    string        `group:"Places" placeholder:"CMD" help:"Command that switches it off, which also succeeds where it is off. It runs at the end, and after a kill."`
	At     *place.Place  `group:"Places" placeholder:"PLACE" help:"Where both commands run; at the server by default."`
	Settle time.Duration `group:"Places" default:"500ms" placeholder:"TIME" help:"Rest after a command; ${default}."`
	turns.Flags
}

// Check says what is missing or wrong.
func (c *Command) Check(rounds int) error {
	errs := []error{
		turns.CheckPlace("--client", c.Client), turns.CheckPlace("--server", c.Server), turns.CheckPaths(c.Path), c.Flags.Check(),
	}
	if c.At != nil {
		errs = append(errs, turns.CheckPlace("--at", *c.At))
	}
	if c.On == "" || c.Off == "" {
		errs = append(errs, errors.New("--on and --off: name the commands that switch the firewall"))
	}
	if rounds < 1 {
		errs = append(errs, fmt.Errorf("--rounds: %d is not 1 or more", rounds))
	}
	if c.Settle < 0 || c.Settle > time.Minute {
		errs = append(errs, fmt.Errorf("--settle: %s is not within 0s … 1m", c.Settle))
	}
	return errors.Join(errs...)
}

// Roles of the places.
const (
	client   = "client"
	server   = "server"
	firewall = "firewall" // where the commands run
)

// States of the firewall are the cases.
const (
	off = "off"
	on  = "on"
)

// instruments are what is measured in each state.
var instruments = []struct{ name, words string }{
	{"rr", "TCP_RR 1024"}, {"rr1", "TCP_RR 1"}, {"crr", "TCP_CRR"},
}

// Run measures, writes result and report and prints the summary.
func (c *Command) Run(ctx context.Context, console *experiment.Console, rounds int, to experiment.Destination) error {
	at := c.Server
	if c.At != nil {
		at = *c.At
	}
	r := &run{Command: c, rounds: rounds}
	plan := turns.Plan{
		Experiment: Experiment(), Flags: &c.Flags, Rounds: rounds,
		Roles: []turns.Role{{Name: client, Place: c.Client}, {Name: server, Place: c.Server}, {Name: firewall, Place: at}},
		Words: "firewall off and on", Prepare: r.prepare, Changes: r.changes, Steps: r.steps,
		Parameters: result.Parameters{
			"on": result.Words(c.On), "off": result.Words(c.Off), "settle": result.Time(c.Settle),
			"order":  result.Words("each round has both states of the firewall, each with all paths, in balanced order"),
			"warmup": result.Time(turns.WarmUp).Explained("of each slice do not count"),
			"loop":   result.Words("closed").Explained("a transaction begins when the last one has ended, so it measures service time"),
		},
	}
	for _, p := range c.Path {
		plan.Targets = append(plan.Targets, result.Target{Name: p.Name, Description: "to " + p.Addr.String()})
	}
	return plan.Run(ctx, console, to)
}

// run is a run and what state the firewall is in.
type run struct {
	*Command
	rounds int
	state  string
}

// commands are the user's.
func (c *Command) commands() agent.Switch { return agent.Switch{On: c.On, Off: c.Off} }

func (r *run) changes(_ context.Context, s *turns.Sessions, out io.Writer) error {
	_, err := fmt.Fprintf(out, "%s: would run %q and %q by turns, the latter at the end\n", s.Of(firewall), r.On, r.Off)
	return err
}

// prepare tries the commands: off twice, as the second one shows that it also succeeds where it is
// off, which it has to after a kill; then on and off.
func (r *run) prepare(ctx context.Context, s *turns.Sessions, res *result.Result, p *experiment.Progress) error {
	for _, state := range []string{off, off, on, off} {
		took, err := s.Of(firewall).Turn(ctx, r.commands(), state == on)
		if err != nil {
			return fmt.Errorf("--%s: %w", state, err)
		}
		res.Parameters[state+"_took"] = result.Time(took.Round(time.Millisecond))
	}
	r.state = off
	p.Note("--on took %s, --off %s", res.Parameters["on_took"], res.Parameters["off_took"])
	return nil
}

// steps are the samples: in each round both states, in each state all paths.
func (r *run) steps(s *turns.Sessions) []turns.Step {
	var names []string
	for _, p := range r.Path {
		names = append(names, p.Name)
	}
	var steps []turns.Step
	paths := stats.Balanced(names, r.rounds)
	for i, states := range stats.Balanced([]string{off, on}, r.rounds) {
		for _, state := range states {
			for _, name := range paths[i] {
				path := r.Path[slices.IndexFunc(r.Path, func(p turns.Path) bool { return p.Name == name })]
				for _, instrument := range instruments {
					steps = append(steps, turns.Step{
						Step: experiment.Step{Round: i + 1, CaseName: state, Target: name, Planned: r.Slice + turns.WarmUp},
						Take: func(ctx context.Context) (result.Sample, error) { return r.take(ctx, s, state, instrument.name, path) },
					})
				}
			}
		}
	}
	return steps
}

// take switches the firewall if it has to be, and takes a slice.
func (r *run) take(ctx context.Context, s *turns.Sessions, state, instrument string, path turns.Path) (result.Sample, error) {
	if state != r.state {
		if _, err := s.Of(firewall).Turn(ctx, r.commands(), state == on); err != nil {
			return result.Sample{}, turns.Fatal{Cause: fmt.Errorf("--%s: %w", state, err)}
		}
		r.state = state
		if err := experiment.Sleep(ctx, r.Settle); err != nil {
			return result.Sample{}, err
		}
	}
	role := measure.Role{Instrument: measure.RoleRR, Addr: path.Addr, Port: r.Port, Duration: r.Slice, Warmup: turns.WarmUp, Rate: int64(r.MaxRate), Size: 1}
	switch instrument {
	case "rr":
		role.Size = rrSize
	case "crr":
		role.Instrument = measure.RoleCRR
	}
	trial, err := s.Run(ctx, client, server, role)
	if err != nil {
		return result.Sample{}, err
	}
	sample, err := trial.Sample(instrument + "_")
	if err == nil && instrument == "rr1" {
		sample.Latency, sample.Metrics = nil, renamed(sample.Metrics)
	}
	return sample, err
}

// rrSize is a request and a response of the NSX firewall study, in bytes.
const rrSize = 1024

// renamed are the metrics of transactions of a byte, beside those of rrSize.
func renamed(metrics map[string]float64) map[string]float64 {
	named := map[string]float64{}
	for name, v := range metrics {
		if rest, ok := strings.CutPrefix(name, "rr_"); ok {
			name = "rr1_" + rest
		}
		named[name] = v
	}
	return named
}
