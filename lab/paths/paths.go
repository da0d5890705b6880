// Package paths is the experiment that measures networks that exist: alternating slices over
// several paths between two places, of which the first is the baseline.
//
// Its one invariant: a figure is of one slice during which the connections to the places carried
// heartbeats only, and intervals are over rounds that each have all paths. It joins lab/place,
// lab/agent, lab/measure and lab/stats; do not build networks here.
package paths

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/place"
)

// Command is the command line of selvage lab paths.
type Command struct {
	Client place.Place   `required:"" placeholder:"PLACE" help:"Where the client runs: ns:NAME, ssh:[USER@]HOST[:PORT] or pid:N."`
	Server place.Place   `required:"" placeholder:"PLACE" help:"Where the server runs."`
	Path   []Path        `required:"" placeholder:"NAME=ADDR" help:"A path, by the server's address on it. The first one is the baseline."`
	Watch  []place.Place `placeholder:"PLACE" help:"Places on the way, whose cores and counters are read too."`
	Port   int           `default:"5300" placeholder:"PORT" help:"Port of the server on each path, TCP and UDP; ${default}."`
	Cases  []string      `placeholder:"CASE" enum:"tcp,tcp-reverse,rr,crr,udp" default:"tcp,tcp-reverse,rr,crr,udp" help:"What to measure: ${enum}; all by default."`
	Output string        `short:"o" enum:"table,json" default:"table" help:"Print a table or the result as JSON: ${enum}."`

	Rounds  int           `group:"Samples" default:"10" placeholder:"N" help:"How often all paths take a turn; intervals and ratios are over rounds, and a difference needs at least 8."`
	Slice   time.Duration `group:"Samples" default:"1s" placeholder:"TIME" help:"Duration of a slice; ${default}."`
	Streams int           `group:"Samples" default:"1" placeholder:"N" help:"TCP connections at a time; ${default}."`
	MaxRate Rate          `group:"Samples" placeholder:"RATE" help:"Most that is sent, as 500M or 2G bits a second; no limit by default. The agents see to it."`
	MaxTime time.Duration `group:"Samples" default:"1m" placeholder:"TIME" help:"Longest slice that the agents agree to; ${default}."`

	Set    []Setting `group:"Places" sep:"none" placeholder:"SIDE:CHANGE" help:"A setting for the time of the run, of the client, the server or both: both:eth0:tx-checksum-ip-generic=off, client:net.ipv4.tcp_congestion_control=bbr. Never of the interface that carries the SSH session."`
	DryRun bool      `group:"Places" help:"Connect, list what would be changed, and end."`

	Connection
}

// Connection is how SSH places are reached.
type Connection struct {
	SSH      string     `name:"ssh" group:"Places" default:"ssh" placeholder:"COMMAND" help:"The ssh program with further arguments, separated by blanks; ${default}. Its configuration is yours: jump hosts and connection sharing too."`
	Sudo     place.Sudo `group:"Places" enum:"no,yes,pass" default:"no" help:"How agents become root: ${enum}. With pass, the password is asked for, by the program in $$SUDO_ASKPASS if there is one. Only --set needs root."`
	Programs string     `group:"Places" type:"existingdir" placeholder:"DIR" help:"Directory with selvage-lab-linux-ARCH for machines of another architecture; where this program is by default."`
}

// Path is a way between client and server.
type Path struct {
	Name string
	Addr netip.Addr
}

// UnmarshalText reads NAME=ADDR.
func (p *Path) UnmarshalText(text []byte) error {
	name, value, found := strings.Cut(string(text), "=")
	addr, err := netip.ParseAddr(value)
	if !found || name == "" || err != nil {
		return fmt.Errorf("%q is not NAME=ADDR, such as overlay=10.1.0.2", text)
	}
	*p = Path{Name: name, Addr: addr}
	return nil
}

// Rate is in bits a second.
type Rate int64

// UnmarshalText reads a number with K, M or G.
func (r *Rate) UnmarshalText(text []byte) error {
	number, factor := string(text), 1e0
	if n := len(number); n > 0 {
		if f, ok := map[byte]float64{'K': 1e3, 'k': 1e3, 'M': 1e6, 'm': 1e6, 'G': 1e9, 'g': 1e9}[number[n-1]]; ok {
			number, factor = number[:n-1], f
		}
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || !(value*factor >= 1e3) || value*factor > 1e12 {
		return fmt.Errorf("%q is no rate from 1K to 1000G bits a second, such as 500M", text)
	}
	*r = Rate(value * factor)
	return nil
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

// Validate checks what belongs together.
func (c *Command) Validate() error {
	var errs []error
	for i, p := range c.Path {
		if slices.ContainsFunc(c.Path[:i], func(o Path) bool { return o.Name == p.Name }) {
			errs = append(errs, fmt.Errorf("--path: %s is named twice", p.Name))
		}
	}
	for i, name := range c.Cases {
		if slices.Contains(c.Cases[:i], name) {
			errs = append(errs, fmt.Errorf("--cases: %s is named twice", name))
		}
	}
	for flag, p := range map[string]place.Place{"--client": c.Client, "--server": c.Server} {
		if p.Kind == place.Address {
			errs = append(errs, fmt.Errorf("%s: nothing can run at %s; name a host beside it", flag, p))
		}
	}
	switch {
	case c.Rounds < 1:
		errs = append(errs, fmt.Errorf("--rounds: %d is not 1 or more", c.Rounds))
	case c.Slice < leastSlice || c.Slice+warmUp > c.MaxTime:
		errs = append(errs, fmt.Errorf("--slice: %s is not within %s … --max-time %s, of which %s warm up", c.Slice, leastSlice, c.MaxTime, warmUp))
	case c.Streams < 1 || c.Streams > 128:
		errs = append(errs, fmt.Errorf("--streams: %d is not within 1 … 128", c.Streams))
	case c.Port < 1 || c.Port > 65535:
		errs = append(errs, fmt.Errorf("--port: %d is not within 1 … 65535", c.Port))
	}
	return errors.Join(errs...)
}

const (
	// leastSlice has some intervals of 100 ms after the warm-up.
	leastSlice = 300 * time.Millisecond
	// warmUp is what each slice begins with, unmeasured: TCP's slow start.
	warmUp = 200 * time.Millisecond
)
