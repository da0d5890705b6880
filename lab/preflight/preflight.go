// Package preflight examines hosts at places, and what they differ by, before somebody blames or measures the network
// between them.
//
// Its one invariant: it changes nothing at a place, and what it could not read it says. It joins lab/place and lab/agent
// with internal/doctor; findings are there, and what they mean between hosts is internal/doctor/compare.
package preflight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/doctor"
	"github.com/selvage/selvage/internal/doctor/compare"
	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/place"
)

// Console is where it writes, and what it is told of the program.
type Console struct {
	Out, Err io.Writer
	Version  string
	// Password asks the user for one.
	Password func(prompt string) (string, error)
}

// Command is the command line of an examination of hosts, for a program that selvage doctor --hosts hands its arguments
// over to.
type Command struct {
	doctor.HostFlags
	Output string `short:"o" enum:"table,json" default:"table" help:"Print text or JSON: ${enum}."`
}

// Run examines the hosts, writes what the flags ask for and prints the report as text or JSON. It fails with a
// *DriftError when all that worked but hosts are not as in the profile.
func (c *Command) Run(ctx context.Context, console *Console) error {
	return run(ctx, c.HostFlags, c.Output, console)
}

// UsageError is a mistake of the caller rather than a failure.
type UsageError struct{ error }

// Unwrap gives the mistake itself.
func (e UsageError) Unwrap() error { return e.error }

// DriftError says that hosts are not as they were. Programs exit with its ExitCode.
type DriftError struct {
	Profile string
	Places  []string
}

// Error names the hosts.
func (e *DriftError) Error() string {
	return fmt.Sprintf("differs from %s: %s", e.Profile, strings.Join(e.Places, ", "))
}

// ExitCode tells drift from failures and wrong usage.
func (*DriftError) ExitCode() int { return 3 }

// Host is what was found at a place.
type Host struct {
	Place string `json:"place"`
	// Carriers are the interfaces that carry the SSH session.
	Carriers []string `json:"carriers"`
	doctor.Examination
}

// Report is all that was found.
type Report struct {
	Taken time.Time      `json:"taken"`
	Hosts []Host         `json:"hosts"`
	Paths []compare.Path `json:"paths"` // between the hosts, as probed
	// Between is what the hosts differ by, and what their paths lose.
	Between compare.Result `json:"between"`
	// Drift is what each host differs by from the profile, by place.
	Drift map[string]compare.Result `json:"drift,omitempty"`
}

func run(ctx context.Context, f doctor.HostFlags, output string, c *Console) error {
	places, err := parse(f)
	if err != nil {
		return UsageError{err}
	}
	var profile facts.Profile
	if f.Verify != "" {
		if profile, err = facts.ReadFile(f.Verify); err != nil {
			return err
		}
	}
	r, err := examine(ctx, places, f, c)
	if err != nil {
		return err
	}
	if f.Verify != "" {
		if err := r.verify(profile); err != nil {
			return fmt.Errorf("%s: %w", f.Verify, err)
		}
	}
	if err := r.write(f); err != nil {
		return err
	}
	if output == "json" {
		encoder := json.NewEncoder(c.Out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(r)
	} else {
		_, err = io.WriteString(c.Out, r.text())
	}
	if err != nil {
		return err
	}
	return r.drifted(f.Verify)
}

func parse(f doctor.HostFlags) (places []place.Place, err error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	for _, text := range f.Hosts {
		p, err := place.Parse(text)
		if err == nil && p.Kind == place.Address {
			err = fmt.Errorf("nothing can run at %s; name a host beside it", p)
		}
		if err != nil {
			return nil, fmt.Errorf("--hosts: %w", err)
		}
		places = append(places, p)
	}
	return places, nil
}

// examine opens sessions at all places, has each look at its host, and probes between them.
func examine(ctx context.Context, places []place.Place, f doctor.HostFlags, c *Console) (r Report, err error) {
	sessions, err := open(ctx, places, f, c)
	defer func() { err = errors.Join(err, place.CloseAll(sessions)) }()
	if err != nil {
		return r, err
	}
	r.Taken = time.Now().UTC().Truncate(time.Second)
	r.Hosts = make([]Host, len(sessions))
	err = place.Each(sessions, func(i int, s *agent.Session) (err error) {
		for _, dir := range s.Hello.Restored {
			fmt.Fprintf(c.Err, "%s: undid and removed what a killed agent had left: %s\n", s, dir)
		}
		r.Hosts[i] = Host{Place: s.String(), Carriers: append([]string{}, s.Hello.Carriers...)}
		r.Hosts[i].Examination, err = s.Examine(ctx)
		return err
	})
	if err != nil {
		return r, err
	}
	if r.Paths, err = probe(ctx, sessions, r.Hosts, f, c.Err); err != nil {
		return r, err
	}
	r.Between = compare.Peers(r.facts())
	for _, p := range r.Paths {
		if finding, ok := p.Finding(); ok {
			r.Between.Findings = append(r.Between.Findings, finding)
		}
	}
	r.Between.Sort()
	return r, nil
}

func (r *Report) facts() (all []facts.Host) {
	for _, h := range r.Hosts {
		all = append(all, h.Facts)
	}
	return all
}

// open opens all sessions, side by side unless a password is asked for.
func open(ctx context.Context, places []place.Place, f doctor.HostFlags, c *Console) ([]*agent.Session, error) {
	o := place.Options{Version: c.Version, SSH: strings.Fields(f.SSH), Sudo: place.Sudo(f.Sudo), Password: c.Password, Programs: f.Programs}
	return place.OpenAll(ctx, places, o)
}

// verify compares each host with the profile.
func (r *Report) verify(profile facts.Profile) error {
	r.Drift = map[string]compare.Result{}
	for i := range r.Hosts {
		now := &r.Hosts[i].Facts
		before, err := profile.Of(now.Place)
		if err != nil {
			return err
		}
		was := *before
		was.Place = now.Place
		r.Drift[now.Place] = compare.Drift(&was, now)
	}
	return nil
}

// drifted is an error when a host is not as it was.
func (r *Report) drifted(profile string) error {
	e := &DriftError{Profile: profile}
	for _, h := range r.Hosts {
		if d := r.Drift[h.Place]; len(d.Findings) > 0 || len(d.Folded) > 0 {
			e.Places = append(e.Places, h.Place)
		}
	}
	if len(e.Places) == 0 {
		return nil
	}
	return e
}
