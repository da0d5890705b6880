// Package paths is the A/B experiment on networks that exist: alternating slices over several paths
// between two places, of which the first is the baseline.
//
// Its one invariant: a figure is of one slice during which the connections to the places carried
// heartbeats only, and intervals are over rounds that each have all paths. It joins lab/place,
// lab/agent, lab/measure and lab/stats; do not build networks here.
package paths

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/turns"
	"github.com/selvage/selvage/lab/watch"
)

// Flags are those of selvage lab ab that are of networks which exist.
type Flags struct {
	Client place.Place   `group:"Places" placeholder:"PLACE" help:"Measure a network that exists, and run the client here: ns:NAME, ssh:[USER@]HOST[:PORT] or pid:N."`
	Server place.Place   `group:"Places" placeholder:"PLACE" help:"Where the server runs."`
	Path   []turns.Path  `group:"Places" placeholder:"NAME=ADDR" help:"A path, by the server's address on it. The first one is the baseline."`
	Watch  []place.Place `group:"Places" placeholder:"PLACE" help:"Places on the way, whose cores and counters are read too."`

	Boxes watch.Flags `embed:"" group:"Places"`

	Port    int           `group:"Places" default:"5300" placeholder:"PORT" help:"Port of the server on each path, TCP and UDP; ${default}. Latency under load has its transfer on the next one."`
	Reverse bool          `group:"Places" default:"true" negatable:"" help:"Measure TCP from the server to the client, too, as iperf3 --reverse."`
	Profile bool          `group:"Places" default:"true" negatable:"" help:"After the rounds, take one slice of TCP over each path to see which processes, softirqs and kernel functions took the cores, and for which reasons packets were dropped."`
	MaxRate turns.Rate    `group:"Places" placeholder:"RATE" help:"Most that is sent, as 500M or 2G bits a second; no limit by default. The agents see to it."`
	MaxTime time.Duration `group:"Places" default:"1m" placeholder:"TIME" help:"Longest slice that the agents agree to; ${default}."`
	Set     []Setting     `group:"Places" sep:"none" placeholder:"SIDE:CHANGE" help:"A setting for the time of the run, of the client, the server or both: both:eth0:tx-checksum-ip-generic=off, client:net.ipv4.tcp_congestion_control=bbr. Never of the interface that carries the SSH session."`
	DryRun  bool          `group:"Places" help:"Connect, list what would be changed, and end."`

	place.Connection
}

// Asked says whether a network that exists is to be measured.
func (f *Flags) Asked() bool { return f.Client.Kind != "" || f.Server.Kind != "" || len(f.Path) > 0 }

// Command is a run.
type Command struct {
	Flags
	Cases   []string // Cases() by default
	Rounds  int
	Slice   time.Duration // DefaultSlice by default
	Streams int
	experiment.Destination
	// Built says what was made for this run, where something was.
	Built string
}

// DefaultSlice is the duration of a slice.
const DefaultSlice = time.Second

// Cases are what can be measured between places.
func Cases() []string { return []string{caseTCP, caseRR, caseLoad, caseCRR, caseUDP} }

// Cases of samples.
const (
	caseTCP     = "tcp"
	caseReverse = "tcp-reverse"
	caseRR      = "rr"
	caseLoad    = "rr-load" // request/response while bulk transfers fill the path
	caseCRR     = "crr"
	caseUDP     = "udp"
)

// cases are those of samples, in the order in which they are measured.
func (c *Command) cases() (all []string) {
	for _, name := range c.Cases {
		all = append(all, name)
		if name == caseTCP && c.Reverse {
			all = append(all, caseReverse)
		}
	}
	return all
}

// Setting is a change at one side or both.
type Setting struct {
	Client, Server bool
	Change         agent.Change
}

// UnmarshalText reads SIDE:CHANGE.
func (s *Setting) UnmarshalText(text []byte) error {
	side, change, _ := strings.Cut(string(text), ":")
	s.Client, s.Server = side == "client" || side == "both", side == "server" || side == "both"
	if !s.Client && !s.Server {
		return fmt.Errorf("%q is not SIDE:CHANGE with the side client, server or both", text)
	}
	return s.Change.UnmarshalText([]byte(change))
}

// Validate checks what belongs together and fills in defaults.
func (c *Command) Validate() error {
	if len(c.Cases) == 0 {
		c.Cases = Cases()
	}
	if c.Slice == 0 {
		c.Slice = DefaultSlice
	}
	errs := []error{c.checkPlaces(), c.checkCases(), c.Boxes.Check()}
	switch {
	case c.Rounds < 1:
		errs = append(errs, fmt.Errorf("--rounds: %d is not 1 or more", c.Rounds))
	case c.Slice < turns.LeastSlice || c.Slice+turns.WarmUp+loadMargin > c.MaxTime:
		errs = append(errs, fmt.Errorf("--slice: %s is not within %s … --max-time %s, of which %s warm up", c.Slice, turns.LeastSlice, c.MaxTime, turns.WarmUp+loadMargin))
	case c.Streams < 1 || c.Streams > 128:
		errs = append(errs, fmt.Errorf("--streams: %d is not within 1 … 128", c.Streams))
	case c.Port < 1 || c.Port > 65534:
		errs = append(errs, fmt.Errorf("--port: %d is not within 1 … 65534", c.Port))
	}
	return errors.Join(errs...)
}

func (c *Command) checkPlaces() error {
	var errs []error
	for _, end := range []struct {
		flag string
		at   place.Place
	}{{"--client", c.Client}, {"--server", c.Server}} {
		switch end.at.Kind {
		case "":
			errs = append(errs, fmt.Errorf("%s: name the place, as --client ssh:host-a --server ssh:host-b", end.flag))
		case place.Address:
			errs = append(errs, fmt.Errorf("%s: nothing can run at %s; name a host beside it", end.flag, end.at))
		}
	}
	if len(c.Path) == 0 {
		errs = append(errs, errors.New("--path: name at least one, by the server's address on it, as --path plain=192.0.2.12 --path overlay=10.1.0.2"))
	}
	for i, p := range c.Path {
		if slices.ContainsFunc(c.Path[:i], func(o turns.Path) bool { return o.Name == p.Name }) {
			errs = append(errs, fmt.Errorf("--path: %s is named twice", p.Name))
		}
	}
	return errors.Join(errs...)
}

func (c *Command) checkCases() error {
	var errs []error
	for i, name := range c.Cases {
		switch {
		case !slices.Contains(Cases(), name):
			errs = append(errs, fmt.Errorf("--cases: between places there is no %s; choose from %s", name, strings.Join(Cases(), ", ")))
		case slices.Contains(c.Cases[:i], name):
			errs = append(errs, fmt.Errorf("--cases: %s is named twice", name))
		}
	}
	return errors.Join(errs...)
}

// loadMargin is how much longer the transfer lasts than the round trips that it disturbs.
const loadMargin = 300 * time.Millisecond
