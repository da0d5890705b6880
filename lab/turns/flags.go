// Package turns is what experiments between places that exist share: their flags, the sessions of a
// run, trials in which every place is watched, and the samples of a plan taken by turns.
//
// Its one invariant: a figure is of one slice during which the connections to the places carried
// heartbeats only, and ratios are between slices of one round. It knows no experiment. Do not build
// networks here.
package turns

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/place"
)

// Group is the heading of these flags, by which they are told from those of an experiment in
// namespaces.
const Group = "Places"

// Flags are those of every experiment between places.
type Flags struct {
	Port    int           `group:"Places" default:"5300" placeholder:"PORT" help:"Port of the server on each path, TCP and UDP; ${default}."`
	Slice   time.Duration `group:"Places" default:"1s" placeholder:"TIME" help:"Duration of a slice between places; ${default}."`
	MaxRate Rate          `group:"Places" placeholder:"RATE" help:"Most that is sent, as 500M or 2G bits a second; no limit by default. The agents see to it."`
	MaxTime time.Duration `group:"Places" default:"1m" placeholder:"TIME" help:"Longest slice that the agents agree to; ${default}."`
	DryRun  bool          `group:"Places" help:"Connect, list what would be changed, and end."`

	Given       bool `kong:"-"` // any flag of places
	RoundsGiven bool `kong:"-"` // --rounds, whose default is another one for networks that the lab builds

	place.Connection
}

// shared are flags that have a meaning in namespaces and between places.
func shared() []string { return []string{"help", "version", "rounds", "output", "results", "fail-if"} }

// BeforeApply notes whether places are to be measured, and refuses flags of networks that the lab
// builds beside those of places.
func (f *Flags) BeforeApply(k *kong.Context) error {
	var places, others []string
	for _, given := range k.Path {
		flag := given.Flag
		f.RoundsGiven = f.RoundsGiven || flag != nil && flag.Name == "rounds"
		switch {
		case flag == nil || slices.Contains(shared(), flag.Name):
		case flag.Group != nil && flag.Group.Key == Group:
			places = append(places, "--"+flag.Name)
		default:
			others = append(others, "--"+flag.Name)
		}
	}
	if len(places) > 0 && len(others) > 0 {
		return fmt.Errorf("%s is for networks that the lab builds, and %s for places that exist: use one kind", strings.Join(others, ", "), strings.Join(places, ", "))
	}
	f.Given = len(places) > 0
	return nil
}

// LeastSlice has some intervals of 100 ms after the warm-up.
const LeastSlice = 300 * time.Millisecond

// WarmUp is what each slice begins with, unmeasured: TCP's slow start.
const WarmUp = 200 * time.Millisecond

// Check says what is wrong with them.
func (f *Flags) Check() error {
	switch {
	case f.Slice < LeastSlice || f.Slice+WarmUp > f.MaxTime:
		return fmt.Errorf("--slice: %s is not within %s … --max-time %s, of which %s warm up", f.Slice, LeastSlice, f.MaxTime, WarmUp)
	case f.Port < 1 || f.Port > 65535:
		return fmt.Errorf("--port: %d is not within 1 … 65535", f.Port)
	}
	return nil
}

// options are of the sessions of a run.
func (f *Flags) options(console *experiment.Console) place.Options {
	o := f.Options(console.Version, console.Password)
	o.Limits = agent.Limits{Rate: int64(f.MaxRate), Time: f.MaxTime}
	return o
}

// CheckPlace says why nothing can run at the place of a flag.
func CheckPlace(flag string, p place.Place) error {
	switch p.Kind {
	case "":
		return fmt.Errorf("%s: name a place, as ssh:HOST", flag)
	case place.Address:
		return fmt.Errorf("%s: nothing can run at %s; name a host beside it", flag, p)
	}
	return nil
}

// Path is a way between client and server, by the server's address on it.
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
	switch addr = addr.Unmap(); {
	case addr.Is6() && addr.IsLinkLocalUnicast() || addr.Zone() != "":
		return fmt.Errorf("%s: %s holds with an interface alone, which each end names differently: give the server an address for the path, such as one of fd00::/8", name, addr)
	case addr.IsUnspecified() || addr.IsMulticast():
		return fmt.Errorf("%s: %s is no address of a server", name, addr)
	}
	*p = Path{Name: name, Addr: addr}
	return nil
}

// CheckPaths says what is wrong with several.
func CheckPaths(paths []Path) error {
	if len(paths) == 0 {
		return errors.New("--path: name at least one, as overlay=10.1.0.2")
	}
	for i, p := range paths {
		if slices.ContainsFunc(paths[:i], func(o Path) bool { return o.Name == p.Name }) {
			return fmt.Errorf("--path: %s is named twice", p.Name)
		}
	}
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
