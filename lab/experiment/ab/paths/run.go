package paths

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/turns"
)

// Name is this one's in results.
const Name = "paths"

// Experiment is this one. Its command is that of lab ab.
func Experiment() experiment.Experiment {
	return experiment.Experiment{Name: Name, Summarise: summarise, Verdict: verdict, Page: page, Table: table}
}

// Run measures, writes result and report and prints the summary. When ctx ends it keeps the samples
// that it has. It fails when a slice did.
func (c *Command) Run(ctx context.Context, console *experiment.Console) error {
	ctx, stop := experiment.WithHangup(ctx)
	defer stop()
	e, err := c.open(ctx, console)
	if err != nil {
		return err
	}
	if c.DryRun {
		return errors.Join(c.dryRun(ctx, console, e), e.close())
	}
	err = experiment.Keep(ctx, console, Experiment(), c.Destination, func(ctx context.Context, console *experiment.Console, began time.Time) (result.Result, error) {
		r, err := c.measure(ctx, console, e, began)
		return r, errors.Join(err, e.close())
	})
	return errors.Join(err, e.close()) // where it did not even begin
}

// open opens all sessions, side by side unless a password is asked for.
func (c *Command) open(ctx context.Context, console *experiment.Console) (ends, error) {
	sessions, err := place.OpenAll(ctx, append([]place.Place{c.Client, c.Server}, c.Watch...), c.options(console))
	e := ends{client: sessions[0], server: sessions[1], watched: sessions[2:]}
	if err != nil {
		return e, errors.Join(err, e.close())
	}
	return e, nil
}

func (c *Command) options(console *experiment.Console) place.Options {
	o := c.Options(console.Version, console.Password)
	o.Limits = agent.Limits{Rate: int64(c.MaxRate), Time: c.MaxTime}
	return o
}

// close ends all sessions that were opened.
func (e ends) close() error { return place.CloseAll(e.all()) }

// measure takes all rounds. With an error the result holds the slices until then.
func (c *Command) measure(ctx context.Context, console *experiment.Console, e ends, began time.Time) (r result.Result, err error) {
	r = console.Blank(Name, began, c.parameters())
	for _, p := range c.Path {
		r.Targets = append(r.Targets, result.Target{Name: p.Name, Description: "to " + p.Addr.String()})
	}
	if err := c.prepare(ctx, console, e, &r); err != nil {
		return r, err
	}
	p := experiment.NewProgress(console.Err, c.Rounds)
	defer p.Close()
	asked := c.Boxes.Start(ctx, c.options(console), began)
	err = c.takeRounds(ctx, p, e, &r)
	if err == nil && c.Profile {
		p.Begin("profile", 0)
		err = c.profiles(ctx, e, &r)
	}
	r.Devices = asked.End()
	r.Duration = time.Since(began).Seconds()
	return r, err
}

// takeRounds has all paths take a slice of each case in each round, in balanced order. A case that
// failed over a path is not tried there again.
func (c *Command) takeRounds(ctx context.Context, p *experiment.Progress, e ends, r *result.Result) error {
	var names []string
	for _, path := range c.Path {
		names = append(names, path.Name)
	}
	each := time.Duration(len(c.cases())*len(c.Path)) * (c.Slice + turns.WarmUp + rest)
	left := func(rounds int) time.Duration { return time.Duration(rounds) * each }
	p.Note("%s: %s, about %s", strings.Join(names, ", "), result.Counted(c.Rounds, "round"), experiment.About(left(c.Rounds)))
	for i, order := range stats.Balanced(names, c.Rounds) {
		began := time.Now()
		p.Begin(fmt.Sprintf("round %d", i+1), left(c.Rounds-i))
		for _, name := range c.cases() {
			for _, target := range order {
				if failedBefore(*r, name, target) {
					continue
				}
				if err := c.take(ctx, e, r, i+1, name, c.Path[slices.Index(names, target)]); err != nil {
					experiment.Interrupt(r, "round %d of %d", i+1, c.Rounds)
					return fmt.Errorf("round %d: %s over %s: %w", i+1, name, target, err)
				}
			}
		}
		each = time.Since(began)
		p.Ended(c.outcome(*r, i+1), left(c.Rounds-i-1))
	}
	return nil
}

// take takes one slice. What fails on the path is a sample that failed; what ends the run is an error.
func (c *Command) take(ctx context.Context, e ends, r *result.Result, round int, name string, path turns.Path) error {
	start := time.Since(r.Started).Seconds()
	s, err := c.slice(ctx, e, name, path)
	switch lost := e.lost(); {
	case err != nil && lost != nil:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		s = result.Sample{Target: path.Name, Case: name, Duration: time.Since(r.Started).Seconds() - start, Error: err.Error()}
	}
	s.Round, s.Start = round, start
	result.Add(r, s)
	return nil
}

// outcome is a round in a few words: the main figure of its first case, of all paths.
func (c *Command) outcome(r result.Result, round int) string {
	m := mainMetric(c.cases()[0])
	var words []string
	for _, p := range c.Path {
		if v, ok := stats.Values(r, p.Name, m.Case, m.Name)[round]; ok {
			words = append(words, p.Name+" "+stats.In(v, m.Unit))
		} else {
			words = append(words, p.Name+" failed")
		}
	}
	return m.Title + ", " + m.Unit + ": " + strings.Join(words, ", ")
}

func (c *Command) parameters() result.Parameters {
	p := result.Parameters{
		stats.RoundsParameter: result.Count(c.Rounds), stats.SliceParameter: result.Time(c.Slice),
		"streams": result.Count(c.Streams), "port": result.Count(c.Port),
		"cases": result.Of(result.Texts(c.cases())), "client": result.Words(c.Client.String()), "server": result.Words(c.Server.String()),
		"warmup": result.Time(turns.WarmUp).Explained("of each slice do not count, but for small packets"),
		"order":  result.Words("slices of a case alternate between the paths in balanced order"),
	}
	if c.MaxRate > 0 {
		p["max_rate"] = result.Of(result.Number(c.MaxRate)).In("bit/s")
	}
	if c.Built != "" {
		p["network"] = result.Words(c.Built)
	}
	return p
}

// prepare says who takes part, compares clocks and makes the changes that were asked for.
func (c *Command) prepare(ctx context.Context, console *experiment.Console, e ends, r *result.Result) error {
	for i, s := range e.all() {
		clock, err := s.Clock(ctx)
		if err != nil {
			return err
		}
		examined, err := s.Examine(ctx)
		if err != nil {
			return err
		}
		r.Preflight = append(r.Preflight, examined.Facts)
		h := s.Hello
		fmt.Fprintf(console.Err, "%-7s %s: %s, Linux %s, %s, %s; clock %s\n", roleOf(i), s, h.Name, h.Kernel, h.Arch, result.Counted(h.Cores, "core"), clock)
		r.Places = append(r.Places, s.Place(roleOf(i), clock))
		for _, dir := range h.Restored {
			fmt.Fprintf(console.Err, "%s: undid and removed what a killed agent had left: %s\n", s, dir)
		}
		if h.NotRestored != "" {
			fmt.Fprintf(console.Err, "%s: left by a killed agent: %s\n", s, h.NotRestored)
		}
	}
	h := e.client.Hello
	r.Environment = result.Environment{Kernel: h.Kernel, Cores: h.Cores, Versions: map[string]string{"selvage": console.Version}}
	var made []string
	for i, s := range []*agent.Session{e.client, e.server} {
		changes := c.changes(i == 0)
		if len(changes) == 0 {
			continue // which need not be root
		}
		lines, err := s.Set(ctx, changes, false)
		if err != nil {
			return err
		}
		for _, line := range lines {
			fmt.Fprintf(console.Err, "%s: set %s, until the end\n", s, line)
			made = append(made, s.String()+": "+line)
		}
	}
	if len(made) > 0 {
		r.Parameters["set"] = result.Of(result.Texts(made))
	}
	return nil
}

// changes are those of one side.
func (c *Command) changes(client bool) []agent.Change {
	changes := []agent.Change{}
	for _, setting := range c.Set {
		if client && setting.Client || !client && setting.Server {
			changes = append(changes, setting.Change)
		}
	}
	return changes
}

// dryRun lists what a run would change.
func (c *Command) dryRun(ctx context.Context, console *experiment.Console, e ends) error {
	for i, s := range e.all() {
		fmt.Fprintf(console.Out, "%s: would put the agent into a directory like %s, and remove both\n", s, s.Hello.Dir)
		if i == 1 {
			fmt.Fprintf(console.Out, "%s: would listen on port %d, and for latency under load on %d\n", s, c.Port, c.Port+1)
		}
		if i > 1 {
			continue
		}
		lines, err := s.Set(ctx, c.changes(i == 0), true)
		if err != nil {
			return err
		}
		for _, line := range lines {
			fmt.Fprintf(console.Out, "%s: would set %s\n", s, line)
		}
	}
	for i, p := range c.Boxes.WatchDevice {
		fmt.Fprintf(console.Out, "%s: would run %q once a second\n", p, c.Boxes.WatchCommand[i])
	}
	return nil
}
