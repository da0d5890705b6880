package paths

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Console is where the command writes, and what it is told of the program.
type Console struct {
	Out, Err io.Writer
	Args     []string // without the program's name, for the record
	Version  string
	// Password asks the user for one.
	Password func(prompt string) (string, error)
}

// Experiment is this one's name in results.
const Experiment = "paths"

// Run measures and prints. An interrupted run prints what it has. It fails when a slice did.
func (c *Command) Run(ctx context.Context, console *Console) error {
	e, err := c.open(ctx, console)
	if err != nil {
		return err
	}
	r, failed := c.measure(ctx, console, e)
	if err := e.close(); err != nil {
		failed = errors.Join(failed, err)
	}
	if len(r.Samples) == 0 {
		return failed
	}
	r.Summary = c.summarise(r)
	if c.Output == "json" {
		return errors.Join(failed, result.Write(console.Out, r))
	}
	return errors.Join(failed, c.table(console.Out, r))
}

// Options are of the sessions of a run.
func (c Connection) Options(console *Console) place.Options {
	return place.Options{
		Version: console.Version, SSH: strings.Fields(c.SSH), Sudo: c.Sudo, Password: console.Password, Programs: c.Programs,
	}
}

// open opens all sessions, side by side unless a password is asked for.
func (c *Command) open(ctx context.Context, console *Console) (ends, error) {
	o := c.Options(console)
	o.Limits = agent.Limits{Rate: int64(c.MaxRate), Time: c.MaxTime}
	all := append([]place.Place{c.Client, c.Server}, c.Watch...)
	sessions, errs := make([]*agent.Session, len(all)), make([]error, len(all))
	var wait sync.WaitGroup
	for i, p := range all {
		open := func() { sessions[i], errs[i] = place.Open(ctx, p, o) }
		if o.Sudo == place.SudoPassword {
			open()
		} else {
			wait.Go(open)
		}
	}
	wait.Wait()
	e := ends{client: sessions[0], server: sessions[1], watched: sessions[2:]}
	if err := errors.Join(errs...); err != nil {
		return e, errors.Join(err, e.close())
	}
	return e, nil
}

// close ends all sessions that were opened.
func (e ends) close() error {
	all := e.all()
	errs := make([]error, len(all))
	var wait sync.WaitGroup
	for i, s := range all {
		if s != nil {
			wait.Go(func() { errs[i] = s.Close() })
		}
	}
	wait.Wait()
	return errors.Join(errs...)
}

// measure takes all rounds. With an error the result holds the slices until then.
func (c *Command) measure(ctx context.Context, console *Console, e ends) (result.Result, error) {
	began := time.Now()
	r := result.Result{
		Schema: result.Schema, Experiment: Experiment, Started: began.UTC(),
		Command: append([]string{"selvage"}, console.Args...), Parameters: c.parameters(), Samples: []result.Sample{},
	}
	for _, p := range c.Path {
		r.Targets = append(r.Targets, result.Target{Name: p.Name, Description: "to " + p.Addr.String()})
	}
	if err := c.prepare(ctx, console, e, &r); err != nil || c.DryRun {
		return r, err
	}
	planned := time.Duration(c.Rounds*len(c.Cases)*len(c.Path)) * (c.Slice + warmUp + rest)
	fmt.Fprintf(console.Err, "%d rounds, about %s\n", c.Rounds, planned.Round(time.Second))
	err := c.takeRounds(ctx, e, &r)
	r.Duration = time.Since(began).Seconds()
	if ctx.Err() != nil {
		r.Parameters["interrupted"] = "yes"
	}
	return r, err
}

// takeRounds has all paths take a slice of each case in each round, in balanced order.
func (c *Command) takeRounds(ctx context.Context, e ends, r *result.Result) error {
	var names []string
	for _, p := range c.Path {
		names = append(names, p.Name)
	}
	for i, order := range stats.Balanced(names, c.Rounds) {
		for _, name := range c.Cases {
			for _, target := range order {
				at := slices.Index(names, target)
				start := time.Since(r.Started).Seconds()
				s, err := c.slice(ctx, e, name, c.Path[at])
				if err != nil {
					return fmt.Errorf("round %d: %s over %s: %w", i+1, name, target, err)
				}
				s.Round, s.Start = i+1, start
				r.Samples = append(r.Samples, s)
			}
		}
	}
	return nil
}

func (c *Command) parameters() map[string]string {
	return map[string]string{
		"rounds": strconv.Itoa(c.Rounds), "slice": c.Slice.String(), "streams": strconv.Itoa(c.Streams), "port": strconv.Itoa(c.Port),
		"cases": strings.Join(c.Cases, ", "), "client": c.Client.String(), "server": c.Server.String(),
		"warmup": fmt.Sprintf("the first %s of each slice of tcp, rr and crr do not count", warmUp),
		"order":  "slices of a case alternate between the paths in balanced order",
	}
}

// prepare says who takes part, compares clocks and makes the changes that were asked for.
func (c *Command) prepare(ctx context.Context, console *Console, e ends, r *result.Result) error {
	for i, s := range e.all() {
		role := []string{"client", "server", "watch"}[min(i, 2)]
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
		about := fmt.Sprintf("%s, Linux %s, %s, %d cores; clock %s", h.Name, h.Kernel, h.Arch, h.Cores, clock)
		fmt.Fprintf(console.Err, "%-6s %s: %s\n", role, s, about)
		r.Parameters[role+" "+s.String()] = about
		for _, dir := range h.Restored {
			fmt.Fprintf(console.Err, "%s: undid and removed what a killed agent had left: %s\n", s, dir)
		}
		if h.NotRestored != "" {
			fmt.Fprintf(console.Err, "%s: left by a killed agent: %s\n", s, h.NotRestored)
		}
	}
	for i, s := range []*agent.Session{e.client, e.server} {
		if err := c.set(ctx, console, s, i == 0); err != nil {
			return err
		}
	}
	return nil
}

// set makes the changes of one side.
func (c *Command) set(ctx context.Context, console *Console, s *agent.Session, client bool) error {
	var changes []agent.Change
	for _, setting := range c.Set {
		if client && setting.Client || !client && setting.Server {
			changes = append(changes, setting.Change)
		}
	}
	if c.DryRun {
		fmt.Fprintf(console.Out, "%s: would put the agent into a directory like %s, listen on port %d, and remove both\n", s, s.Hello.Dir, c.Port)
	}
	if len(changes) == 0 {
		return nil
	}
	lines, err := s.Set(ctx, changes, c.DryRun)
	if err != nil {
		return err
	}
	for _, line := range lines {
		if c.DryRun {
			fmt.Fprintf(console.Out, "%s: would set %s\n", s, line)
			continue
		}
		fmt.Fprintf(console.Err, "%s: set %s, until the end\n", s, line)
	}
	return nil
}
