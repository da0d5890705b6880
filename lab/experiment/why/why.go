// Package why is the experiment that says why a path is slow and proves it: it proposes causes from evidence, flips
// each that it may, measures by pairs, flips it back, and says which share of the loss each explains.
//
// Its invariant: a cause is proved only by slices with and without it in the same rounds, and everything that was flipped
// is as it was when the run has ended, however it ends (lab/agent). Do not use it for paths that are not slow: it says so.
package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/why/cause"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/turns"
)

// Name is in the results.
const Name = "why"

// Experiment is this one.
func Experiment() experiment.Experiment {
	return experiment.Experiment{Name: Name, Command: func() any { return new(commands) }, Summarise: summarise, Metrics: metrics, Verdict: verdict, Page: page, Table: table}
}

// Command is the command line.
type Command struct {
	Client  place.Place   `group:"Places" required:"" placeholder:"PLACE" help:"Where the client runs: ssh:[USER@]HOST[:PORT], ns:NAME or pid:N."`
	Server  place.Place   `group:"Places" required:"" placeholder:"PLACE" help:"Where the server runs."`
	Path    []turns.Path  `group:"Places" required:"" placeholder:"NAME=ADDR" help:"The slow path by the server's address on it, then one beside it that is not slow, if there is one."`
	May     []string      `group:"Places" placeholder:"SETTING" help:"Settings that may be flipped for a second at a time: offload, gro, mtu, rss, qdisc, netfilter, bridge-netfilter, conntrack, ring, pause, governor. By default none: causes are proposed and not proved."`
	Streams int           `group:"Places" default:"1" placeholder:"N" help:"TCP streams at a time. Causes that only several show, such as rss, need 8; ${default}."`
	Rounds  int           `default:"8" help:"Rounds of each step, 8 at least for a proof."`
	Settle  time.Duration `group:"Places" default:"50ms" placeholder:"TIME" help:"Rest after a setting was flipped; ${default}."`

	experiment.Destination
	turns.Flags
}

// commands is the command as kong reads it.
type commands struct {
	Why Command `cmd:"" help:"Say why a path is slow: propose causes, flip each that --may names and measure what it gains."`
}

// Validate says what is missing or wrong.
func (c *Command) Validate() error {
	errs := []error{turns.CheckPlace("--client", c.Client), turns.CheckPlace("--server", c.Server), turns.CheckPaths(c.Path), c.Flags.Check()}
	if len(c.Path) > 2 {
		errs = append(errs, fmt.Errorf("--path: %d are more than the slow path and one beside it", len(c.Path)))
	}
	for _, name := range c.May {
		if !slices.ContainsFunc(cause.Settings(), func(s cause.Setting) bool { return s.Name == name }) {
			errs = append(errs, fmt.Errorf("--may: there is no setting %s; choose from %s", name, settingNames()))
		}
	}
	if c.Rounds < 1 {
		errs = append(errs, fmt.Errorf("--rounds: %d is not 1 or more", c.Rounds))
	}
	if c.Streams < 1 || c.Streams > mostStreams {
		errs = append(errs, fmt.Errorf("--streams: %d is not within 1 … %d", c.Streams, mostStreams))
	}
	if c.Settle < 0 || c.Settle > time.Minute {
		errs = append(errs, fmt.Errorf("--settle: %s is not within 0s … 1m", c.Settle))
	}
	return errors.Join(errs...)
}

func settingNames() string {
	var names []string
	for _, s := range cause.Settings() {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}

// Cases of samples: the figure that the loss is greatest in is measured.
const (
	caseTCP = "tcp"
	caseRR  = "rr"
)

// Run measures, writes result and report and prints the summary.
func (c *Command) Run(ctx context.Context, console *experiment.Console) error {
	r := &run{Command: c, alone: map[int]string{}}
	plan := turns.Plan{
		Experiment: Experiment(), Flags: &c.Flags, Rounds: c.Rounds,
		Roles: []turns.Role{{Name: cause.Client, Place: c.Client}, {Name: cause.Server, Place: c.Server}},
		Words: "what " + c.Path[0].Name + " loses", Explore: r.explore, Prepare: r.prepare, Changes: r.changes, Steps: r.steps, More: r.more,
		Parameters: result.Parameters{
			"streams": result.Count(c.Streams), "may": result.Words(cmp.Or(strings.Join(c.May, ", "), "nothing")), "settle": result.Time(c.Settle),
			"order":  result.Words("each round has the path as it is, the one beside it and the path with each cause flipped, in balanced order"),
			"warmup": result.Time(turns.WarmUp).Explained("of each slice do not count"),
		},
	}
	for _, p := range c.Path {
		plan.Targets = append(plan.Targets, result.Target{Name: p.Name, Description: "to " + p.Addr.String()})
	}
	return plan.Run(ctx, console, c.Destination)
}

// candidate is a cause that is flipped.
type candidate struct {
	cause.Cause
	number int // from 1, as in names of targets
}

// run is a run and what state the ends are in.
type run struct {
	*Command
	kind       string // case that is measured
	candidates []candidate
	base       []int // numbers of the causes that stay flipped
	flipped    []int // numbers of those that are flipped now
	stage      int
	done       int            // rounds
	again      bool           // a stage was measured twice, which is once a run
	only       []int          // numbers of the causes that are measured again, nil being all
	alone      map[int]string // what causes gained, by number, before another one was flipped
}

func (r *run) may(c cause.Cause) bool { return len(c.Flips) > 0 && slices.Contains(r.May, c.Setting) }

// changes prints what may be flipped.
func (r *run) changes(ctx context.Context, s *turns.Sessions, out io.Writer) error {
	e, err := r.read(ctx, s)
	if err != nil {
		return err
	}
	for _, c := range cause.Propose(e) {
		verb := "would not flip"
		if r.may(c) {
			verb = "would flip by turns"
		}
		fmt.Fprintf(out, "%s %s: %s: %s\n", c.Setting, c.Object, verb, strings.Join(c.Commands(), "; "))
	}
	return nil
}

// prepare tries what is to be flipped, once: what cannot be is not measured.
func (r *run) prepare(ctx context.Context, s *turns.Sessions, res *result.Result, p *experiment.Progress) error {
	for _, c := range slices.Clone(r.candidates) {
		err := r.turn(ctx, s, c, true)
		if back := r.turn(ctx, s, c, false); back != nil {
			return fmt.Errorf("%s of %s: %w", c.Setting, c.Object, errors.Join(err, back))
		}
		if err == nil {
			p.Note("%s of %s is flipped by turns: %s", c.Setting, c.Object, c.Why)
			continue
		}
		p.Note("%s of %s cannot be flipped: %v", c.Setting, c.Object, err)
		r.candidates = slices.DeleteFunc(r.candidates, func(o candidate) bool { return o.number == c.number })
		res.Causes[c.number-1].Why += fmt.Sprintf("; it cannot be flipped: %v", err)
		res.Causes[c.number-1].Target, res.Causes[c.number-1].Against = "", ""
	}
	return nil
}

// turn flips a cause, or takes that back.
func (r *run) turn(ctx context.Context, s *turns.Sessions, c candidate, on bool) error {
	for _, f := range c.Flips {
		session := s.Of(f.Role)
		if f.Switch.On != "" {
			if _, err := session.Turn(ctx, f.Switch, on); err != nil {
				return err
			}
			continue
		}
		change := f.Change
		if !on {
			change = f.Back
		}
		if _, err := session.Set(ctx, []agent.Change{change}, false); err != nil {
			return err
		}
	}
	return nil
}

// enter has those causes flipped, and no others.
func (r *run) enter(ctx context.Context, s *turns.Sessions, want []int) error {
	if slices.Equal(r.flipped, want) {
		return nil
	}
	// First back, since some settings cannot be while others are flipped.
	for _, on := range []bool{false, true} {
		for _, c := range r.candidates {
			is, be := slices.Contains(r.flipped, c.number), slices.Contains(want, c.number)
			if is == be || be != on {
				continue
			}
			if err := r.turn(ctx, s, c, on); err != nil {
				return turns.Fatal{Cause: fmt.Errorf("%s of %s: %w", c.Setting, c.Object, err)}
			}
		}
	}
	r.flipped = slices.Clone(want)
	return experiment.Sleep(ctx, r.Settle)
}

// targetOf is the slow path with causes flipped.
func (r *run) targetOf(flipped []int) string {
	name := r.Path[0].Name
	for _, n := range flipped {
		name += fmt.Sprintf("-%d", n)
	}
	return name
}

// state is what a slice is measured in.
type state struct {
	path    turns.Path
	flipped []int
}

// states are those of a stage, by target.
func (r *run) states() (names []string, by map[string]state) {
	by = map[string]state{}
	add := func(name string, s state) { names, by[name] = append(names, name), s }
	add(r.targetOf(r.base), state{r.Path[0], r.base})
	if r.stage == 1 && len(r.Path) > 1 {
		add(r.Path[1].Name, state{r.Path[1], nil})
	}
	for _, c := range r.candidates {
		if !slices.Contains(r.base, c.number) && (r.only == nil || slices.Contains(r.only, c.number)) {
			flipped := append(slices.Clone(r.base), c.number)
			add(r.targetOf(flipped), state{r.Path[0], flipped})
		}
	}
	return names, by
}

func (r *run) steps(s *turns.Sessions) []turns.Step {
	r.stage++
	return r.measured(s)
}

// measured are the samples of the stage.
func (r *run) measured(s *turns.Sessions) []turns.Step {
	names, by := r.states()
	before := r.done
	r.done += r.Rounds
	var steps []turns.Step
	for i, order := range stats.Balanced(names, r.Rounds) {
		for _, name := range order {
			steps = append(steps, turns.Step{
				Step: experiment.Step{Round: before + i + 1, CaseName: r.kind, Target: name, Planned: r.Slice + turns.WarmUp + r.Settle},
				Take: func(ctx context.Context) (result.Sample, error) {
					if err := r.enter(ctx, s, by[name].flipped); err != nil {
						return result.Sample{}, err
					}
					return r.slice(ctx, s, by[name].path)
				},
			})
		}
	}
	return steps
}

// slice measures the figure of the run over a path.
func (r *run) slice(ctx context.Context, s *turns.Sessions, path turns.Path) (result.Sample, error) {
	trial, err := r.try(ctx, s, measure.Role{Instrument: instrumentOf(r.kind), Addr: path.Addr, Streams: r.Streams, Size: sizeOf(r.kind), Duration: r.Slice, Warmup: turns.WarmUp})
	if err != nil {
		return result.Sample{}, err
	}
	return trial.Sample("")
}

func instrumentOf(kind string) string {
	if kind == caseRR {
		return measure.RoleRR
	}
	return measure.RoleBulk
}

// sizeOf is a request and its response in bytes; 0 of a transfer is the default write.
func sizeOf(kind string) int {
	if kind == caseRR {
		return 1
	}
	return 0
}

// mostStreams bound what a run asks of the ends.
const mostStreams = 256

// try has an instrument run between the ends.
func (r *run) try(ctx context.Context, s *turns.Sessions, role measure.Role) (*turns.Trial, error) {
	role.Port = r.Port
	if role.Rate == 0 || r.MaxRate > 0 && role.Rate > int64(r.MaxRate) {
		role.Rate = int64(r.MaxRate)
	}
	return s.Run(ctx, cause.Client, cause.Server, role)
}

// mostStages is how many causes may come on top of each other.
const mostStages = 3

// more has the best cause of the last stage stay flipped, and the others tried on top of it: the second may only show
// when the first is gone.
func (r *run) more(ctx context.Context, s *turns.Sessions, res *result.Result) ([]turns.Step, error) {
	assess(res)
	best := r.best(res.Causes)
	if best < 0 && !r.again {
		if r.again, r.only = true, r.undecided(res); r.only != nil {
			return r.measured(s), nil
		}
	}
	r.only = nil
	if best < 0 || r.stage == mostStages {
		return nil, r.end(ctx, s, res)
	}
	for i, c := range res.Causes {
		if c.Proved && i != best && c.Against == r.targetOf(r.base) {
			r.alone[i+1] = fmt.Sprintf("; without the flip of %s it gains %s too, so it may be the same cost", res.Causes[best].Setting, percent(c))
		}
	}
	r.base = append(r.base, best+1)
	if r.explained(res) { // the others add nothing; those that gained alone have to show whether they are the same cost
		r.candidates = slices.DeleteFunc(r.candidates, func(c candidate) bool {
			return !slices.Contains(r.base, c.number) && !res.Causes[c.number-1].Proved
		})
	}
	left := false
	for _, c := range r.candidates {
		if slices.Contains(r.base, c.number) {
			continue
		}
		left = true
		res.Causes[c.number-1].Target, res.Causes[c.number-1].Against = r.targetOf(append(slices.Clone(r.base), c.number)), r.targetOf(r.base)
	}
	if !left {
		return nil, r.end(ctx, s, res)
	}
	res.Targets = append(res.Targets, r.described(res)...)
	return r.steps(s), nil
}

// A cause is measured again whose gain is as large as that, though it may be chance: of the most that gain so much.
const (
	leastUndecided = 0.05
	mostUndecided  = 2
)

// undecided are the causes of this stage that gain much and not surely, the largest gains first.
func (r *run) undecided(res *result.Result) (numbers []int) {
	by := map[int]float64{}
	for i, c := range res.Causes {
		if c.Target == "" || c.Proved || c.Against != r.targetOf(r.base) {
			continue
		}
		if gain := stats.Center(gains(*res, c.Target, c.Against)).Median; gain > math.Log1p(leastUndecided) {
			numbers, by[i+1] = append(numbers, i+1), gain
		}
	}
	slices.SortFunc(numbers, func(a, b int) int { return cmp.Compare(by[b], by[a]) })
	return numbers[:min(len(numbers), mostUndecided)]
}

// Shares of a loss after which nothing is left that could be proved: surely, and where the interval agrees.
const nearlyAll, mostOfIt = 0.95, 0.75

// explained says whether the causes that stay flipped explain nearly all that is lost against the path beside it.
func (r *run) explained(res *result.Result) bool {
	if _, beside := lossOf(*res); !beside {
		return false // what is lost is what causes gain
	}
	sum, rest := 0.0, 1.0
	for _, n := range r.base {
		c := res.Causes[n-1]
		sum, rest = sum+c.Share, rest-c.Hi
	}
	return sum >= nearlyAll || sum >= mostOfIt && rest <= 0
}

// best is the index of the proved cause of this stage that stays flipped, -1 where there is none: the likeliest of those whose share may
// be as large as the largest.
func (r *run) best(causes []result.Cause) int {
	largest := 0.0
	isOf := func(c result.Cause) bool { return c.Proved && c.Against == r.targetOf(r.base) }
	for _, c := range causes {
		if isOf(c) {
			largest = max(largest, c.Share)
		}
	}
	return slices.IndexFunc(causes, func(c result.Cause) bool { return isOf(c) && c.Hi >= largest })
}

// end takes all flips back, and orders the causes: the largest share first, those that were not flipped last.
func (r *run) end(ctx context.Context, s *turns.Sessions, res *result.Result) error {
	for i := range res.Causes {
		if c := &res.Causes[i]; !c.Proved {
			c.Why += r.alone[i+1]
		}
	}
	slices.SortStableFunc(res.Causes, func(a, b result.Cause) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Share, a.Share))
	})
	return r.enter(ctx, s, nil)
}

func rank(c result.Cause) int {
	switch {
	case c.Proved:
		return 0
	case c.Target != "":
		return 1
	}
	return 2
}

// described are the targets that are flipped in the next stage.
func (r *run) described(res *result.Result) (all []result.Target) {
	for _, c := range r.candidates {
		t := res.Causes[c.number-1]
		if !slices.ContainsFunc(res.Targets, func(o result.Target) bool { return o.Name == t.Target }) {
			all = append(all, result.Target{Name: t.Target, Description: t.Against + " with " + t.Setting + " of " + t.Object + " flipped"})
		}
	}
	return all
}
