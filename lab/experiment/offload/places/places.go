// Package places is lab offload between places that exist: what the offloads and the settings of two
// adapters gain, each changed by turns at both ends against how it was found.
//
// Its invariant: a state is in force at both interfaces before a sample begins, and all is as it was
// found after the run. Do not use it for networks that the lab builds; that is package offload.
package places

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/turns"
)

// Name is in the results. The command is that of lab offload.
const Name = "offload-places"

// Experiment is this one.
func Experiment() experiment.Experiment {
	return experiment.Experiment{Name: Name, Summarise: summarise, Verdict: verdict, Page: page, Table: table}
}

// Command are the flags of lab offload for places.
type Command struct {
	Host   []Host       `group:"Places" placeholder:"PLACE:IF" help:"Measure between two places that exist instead: the client's and its interface, then the server's, as ssh:host-a:eth1. Never one that carries the SSH session."`
	Path   []turns.Path `group:"Places" placeholder:"NAME=ADDR" help:"A path through both interfaces, by the second host's IPv4 or IPv6 address on it."`
	Only   []string     `group:"Places" placeholder:"STATE" help:"States to measure besides as-found, as tso-off; by default all that both interfaces have. --dry-run lists them."`
	Writes []int        `group:"Places" placeholder:"KB" default:"1,8,64" help:"Sizes of a write in units of 1024 bytes; ${default} by default."`
	Flows  int          `group:"Places" default:"8" help:"TCP connections; ${default}."`
	turns.Flags
}

// Host is a place and an interface there.
type Host struct {
	Place     place.Place
	Interface string
}

// UnmarshalText reads PLACE:IF.
func (h *Host) UnmarshalText(text []byte) error {
	where, iface, ok := cutInterface(string(text))
	if !ok {
		return fmt.Errorf("%q is not PLACE:IF, such as ssh:host-a:eth1", text)
	}
	p, err := place.Parse(where)
	h.Place, h.Interface = p, iface
	return err
}

// cutInterface cuts at the last colon. What is behind has to be a name of an interface, and before it
// has to be a whole place: ssh:host-a is none with an interface.
func cutInterface(text string) (where, iface string, ok bool) {
	at := strings.LastIndexByte(text, ':')
	if at < 0 {
		return "", "", false
	}
	where, iface = text[:at], text[at+1:]
	return where, iface, iface != "" && len(iface) < 16 && !strings.ContainsAny(iface, "/]= ") && strings.Contains(where, ":")
}

// Check says what is missing or wrong.
func (c *Command) Check(rounds int) error {
	errs := []error{turns.CheckPaths(c.Path), c.Flags.Check()}
	if len(c.Host) != 2 {
		errs = append(errs, fmt.Errorf("--host: %d are named, not two: the client's and the server's, each as PLACE:IF", len(c.Host)))
	}
	for _, h := range c.Host {
		errs = append(errs, turns.CheckPlace("--host", h.Place))
	}
	if len(c.Host) == 2 && c.Host[0].Place == c.Host[1].Place {
		errs = append(errs, fmt.Errorf("--host: both are %s: name two places", c.Host[0].Place))
	}
	if rounds < 1 {
		errs = append(errs, fmt.Errorf("--rounds: %d is not 1 or more", rounds))
	}
	for i, kb := range c.Writes {
		if kb < 1 || kb > 1024 || slices.Contains(c.Writes[:i], kb) {
			errs = append(errs, fmt.Errorf("--writes: %d is not a new size within 1 … 1024 kB", kb))
		}
	}
	if len(c.Writes) == 0 {
		errs = append(errs, errors.New("--writes: name a size"))
	}
	if c.Flows < 1 || c.Flows > 128 {
		errs = append(errs, fmt.Errorf("--flows: %d is not within 1 … 128", c.Flows))
	}
	return errors.Join(errs...)
}

// Roles of the places.
const (
	client = "client"
	server = "server"
)

// missingKey is the parameter with what there is not.
const missingKey = "not_available"

// caseOf is the name of a state's samples with a size of writes, "tso-off/64k"; 0 is the mean over all.
func caseOf(state string, kb int) string {
	if kb == 0 {
		return state + "/mean"
	}
	return fmt.Sprintf("%s/%dk", state, kb)
}

// Run measures, writes result and report and prints the summary.
func (c *Command) Run(ctx context.Context, console *experiment.Console, rounds int, to experiment.Destination) error {
	r := &run{Command: c, rounds: rounds, now: state{name: AsFound}}
	slices.Sort(c.Writes)
	plan := turns.Plan{
		Experiment: Experiment(), Flags: &c.Flags, Rounds: rounds,
		Roles: []turns.Role{{Name: client, Place: c.Host[0].Place}, {Name: server, Place: c.Host[1].Place}},
		Words: "offloads", Explore: r.explore, Prepare: r.prepare, Changes: r.changes, Steps: r.steps,
		Parameters: result.Parameters{
			"interfaces": result.Of(result.Texts{c.Host[0].Interface, c.Host[1].Interface}).Explained("of client and server"),
			"flows":      result.Count(c.Flows),
			"order":      result.Words("each round has all states, in balanced order, each at both ends with all paths and sizes of writes"),
			"warmup":     result.Time(turns.WarmUp).Explained("of each slice do not count"),
		},
	}
	for _, p := range c.Path {
		plan.Targets = append(plan.Targets, result.Target{Name: p.Name, Description: "to " + p.Addr.String()})
	}
	return plan.Run(ctx, console, to)
}

// run is a run, what it has found, and the state that is in force.
type run struct {
	*Command
	rounds  int
	ends    []found
	states  []state // without as-found
	missing []string
	now     state
}

// look reads what both interfaces have, and decides on the states. A state that cannot be entered at
// one end is tried by explore.
func (r *run) look(ctx context.Context, s *turns.Sessions) error {
	for i, role := range []string{client, server} {
		session, iface := s.Of(role), r.Host[i].Interface
		if slices.Contains(session.Hello.Carriers, iface) {
			return fmt.Errorf("--host: %s of %s carries this SSH session, and a mistake would cut it: reach the machine by another interface", iface, session)
		}
		if !slices.ContainsFunc(session.Hello.Interfaces, func(o agent.Interface) bool { return o.Name == iface }) {
			return fmt.Errorf("--host: %s has no interface %s", session, iface)
		}
		a, err := session.Adapter(ctx, iface)
		if err != nil {
			return err
		}
		r.ends = append(r.ends, found{role, iface, a})
	}
	r.states, r.missing = statesOf(r.ends)
	if all := allOff(r.states); len(all.changes) > 0 {
		r.states = append(r.states, all)
	}
	for _, name := range r.Only {
		if !slices.ContainsFunc(r.states, func(s state) bool { return s.name == name }) {
			return fmt.Errorf("--only: these interfaces have no state %s, but %s", name, strings.Join(r.names(), ", "))
		}
	}
	if len(r.Only) > 0 {
		r.states = slices.DeleteFunc(r.states, func(s state) bool { return !slices.Contains(r.Only, s.name) })
	}
	return nil
}

func (r *run) names() []string {
	var names []string
	for _, s := range r.states {
		names = append(names, s.name)
	}
	return names
}

func (r *run) changes(ctx context.Context, s *turns.Sessions, out io.Writer) error {
	if err := r.look(ctx, s); err != nil {
		return err
	}
	for _, st := range r.states {
		for _, role := range []string{client, server} {
			if len(st.changes[role]) == 0 {
				continue
			}
			lines, err := s.Of(role).Set(ctx, st.changes[role], true)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%s: state %s would set %s\n", s.Of(role), st.name, strings.Join(lines, ", "))
		}
	}
	for _, line := range r.missing {
		fmt.Fprintf(out, "not available: %s\n", line)
	}
	return nil
}

// explore enters each state once: one that a driver refuses is not available. all-off has what is
// left of them.
func (r *run) explore(ctx context.Context, s *turns.Sessions, res *result.Result) error {
	if err := r.look(ctx, s); err != nil {
		return err
	}
	var kept []state
	for _, st := range r.states {
		if st.name == AllOff && len(r.Only) == 0 {
			if st = allOff(kept); len(st.changes) == 0 {
				continue
			}
		}
		if err := r.enter(ctx, s, st); err != nil {
			if lost := s.Err(); lost != nil || ctx.Err() != nil {
				return errors.Join(lost, ctx.Err())
			}
			if err := r.forget(ctx, s); err != nil {
				return err
			}
			r.missing = append(r.missing, fmt.Sprintf("%s: %s", st.name, err))
			continue
		}
		kept = append(kept, st)
	}
	r.states = kept
	if err := r.enter(ctx, s, state{name: AsFound}); err != nil {
		return err
	}
	if len(r.missing) > 0 {
		res.Parameters[missingKey] = result.Of(result.Texts(r.missing))
	}
	if len(kept) == 0 {
		return fmt.Errorf("neither %s nor %s has anything that can be changed: changes need root (--sudo), and an adapter that allows them",
			r.Host[0].Interface, r.Host[1].Interface)
	}
	return nil
}

// prepare tells what explore found.
func (r *run) prepare(_ context.Context, _ *turns.Sessions, _ *result.Result, p *experiment.Progress) error {
	p.Note("states: %s, %s", AsFound, strings.Join(r.names(), ", "))
	for _, line := range r.missing {
		p.Note("not available: %s", line)
	}
	return nil
}

// forget has all as it was found after a state could not be entered: the agent that refused has
// undone everything, and the other one may be in the state before or in the new one.
func (r *run) forget(ctx context.Context, s *turns.Sessions) error {
	for _, e := range r.ends {
		changes := r.original(e)
		if len(changes) == 0 {
			continue
		}
		if _, err := s.Of(e.role).Set(ctx, changes, false); err != nil {
			return fmt.Errorf("%s as it was found: %w", e.iface, err)
		}
	}
	r.now = state{name: AsFound}
	return nil
}

// original are the changes to how the interface of an end was found, of what any state changes.
func (r *run) original(e found) []agent.Change {
	var changes []agent.Change
	for _, st := range r.states {
		for _, c := range st.back(e.role, e.adapter) {
			if !slices.Contains(changes, c) {
				changes = append(changes, c)
			}
		}
	}
	return changes
}

// reachTime is how long a driver may take until packets pass after a change.
const reachTime = 10 * time.Second

// enter leaves the state that is in force, makes the changes of the next, and waits until every path
// answers: some drivers start anew when a setting changes.
func (r *run) enter(ctx context.Context, s *turns.Sessions, next state) error {
	if r.now.name == next.name {
		return nil
	}
	for _, e := range r.ends {
		changes := slices.Concat(r.now.back(e.role, e.adapter), next.changes[e.role])
		if len(changes) == 0 {
			continue
		}
		if _, err := s.Of(e.role).Set(ctx, changes, false); err != nil {
			return err
		}
	}
	r.now = next
	for _, p := range r.Path {
		role := measure.Role{Instrument: measure.RoleRR, Addr: p.Addr, Port: r.Port, Duration: 50 * time.Millisecond}
		err := await.Within(ctx, reachTime, "an answer over "+p.Name+" in state "+next.name, func() error {
			trial, err := s.Run(ctx, client, server, role)
			if err == nil {
				_, err = trial.Sample("")
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// steps are the samples. prepare has decided on the states.
func (r *run) steps(s *turns.Sessions) []turns.Step {
	byName := map[string]state{AsFound: {name: AsFound}}
	for _, st := range r.states {
		byName[st.name] = st
	}
	var paths []string
	for _, p := range r.Path {
		paths = append(paths, p.Name)
	}
	pathOrder := stats.Balanced(paths, r.rounds)
	var steps []turns.Step
	for i, order := range stats.Balanced(append([]string{AsFound}, r.names()...), r.rounds) {
		for _, name := range order {
			for _, path := range pathOrder[i] {
				for _, kb := range r.Writes {
					steps = append(steps, r.step(s, i+1, byName[name], path, kb))
				}
			}
		}
	}
	return steps
}

func (r *run) step(s *turns.Sessions, round int, st state, path string, kb int) turns.Step {
	at := slices.IndexFunc(r.Path, func(p turns.Path) bool { return p.Name == path })
	role := measure.Role{
		Instrument: measure.RoleBulk, Addr: r.Path[at].Addr, Port: r.Port, Duration: r.Slice + turns.WarmUp, Rate: int64(r.MaxRate),
		Streams: r.Flows, Size: kb << 10,
	}
	return turns.Step{
		Step: experiment.Step{Round: round, CaseName: caseOf(st.name, kb), Target: path, Planned: role.Duration},
		Take: func(ctx context.Context) (result.Sample, error) {
			if err := r.enter(ctx, s, st); err != nil {
				return result.Sample{}, turns.Fatal{Cause: err}
			}
			trial, err := s.Run(ctx, client, server, role)
			if err != nil {
				return result.Sample{}, err
			}
			sample, err := trial.Sample("")
			if err == nil {
				maps.Copy(sample.Metrics, turns.CostPerGB(sample, client, server))
			}
			return sample, err
		},
	}
}
