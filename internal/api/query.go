package api

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/overlay"
)

// EntryQuery chooses entries of a table: flows, the FDB or neighbours. What is zero chooses
// nothing.
type EntryQuery struct {
	Segment string
	Port    string       // at either end; of a trunk, all its VLANs
	Remote  netip.Addr   // at either end
	MAC     overlay.MAC  // of either end
	Addr    netip.Prefix // of either end, before or after translation; not of the FDB
	Origin  string       // "learned", "static" or "bgp"; not of flows
	Slow    bool         // of flows: not on the fast path
	// Interval is the time between two readings of flows, for their rates, by which they come then; 0: one reading.
	Interval time.Duration
	Limit    int // of entries; 0: all
}

// Entries are those that a query chose, and how many matched it in all.
type Entries[T any] struct {
	List    []T
	Matched int
}

// MatchedHeader says in an answer how many entries matched.
const MatchedHeader = "Selvage-Matched"

// ForHeader says in a request on whose behalf it is.
const ForHeader = "Selvage-For"

// Origins are how an edge knows of hosts.
var Origins = []string{"learned", "static", "bgp"}

func (q EntryQuery) values() url.Values {
	v := url.Values{}
	setIf(v, ArgSegment, q.Segment, q.Segment != "")
	setIf(v, ArgPort, q.Port, q.Port != "")
	setIf(v, ArgRemote, q.Remote.String(), q.Remote.IsValid())
	setIf(v, ArgMAC, q.MAC.String(), q.MAC != overlay.MAC{})
	setIf(v, ArgAddr, q.Addr.String(), q.Addr.IsValid())
	setIf(v, ArgOrigin, q.Origin, q.Origin != "")
	setIf(v, ArgSlow, "true", q.Slow)
	setIf(v, ArgInterval, q.Interval.String(), q.Interval != 0)
	setIf(v, ArgLimit, strconv.Itoa(q.Limit), q.Limit != 0)
	return v
}

func setIf(v url.Values, name, value string, given bool) {
	if given {
		v.Set(name, value)
	}
}

// EntryQueryOf reads what values writes: what all tables have, and others of the parameters.
func EntryQueryOf(v url.Values, others ...string) (EntryQuery, error) {
	a := Arguments{Values: v}
	q := EntryQuery{
		Segment: a.Text(ArgSegment), Port: a.Text(ArgPort), Remote: a.Addr(ArgRemote), MAC: a.mac(ArgMAC), Limit: a.Number(ArgLimit, 0, MaxLimit),
	}
	for _, name := range others {
		switch name {
		case ArgAddr:
			q.Addr = a.prefix(name)
		case ArgOrigin:
			q.Origin = a.OneOf(name, Origins)
		case ArgSlow:
			q.Slow = a.Flag(name)
		case ArgInterval:
			q.Interval = a.interval(name)
		}
	}
	return q, a.End()
}

// MaxLimit is more than any table holds.
const MaxLimit = 1 << 30

// Arguments reads the query of a request by the names of its parameters. The first mistake
// in it is the answer.
type Arguments struct {
	Values url.Values
	known  []string
	err    error
}

// End is the first mistake, such as a parameter that nobody reads.
func (a *Arguments) End() error {
	for name := range a.Values {
		if a.err == nil && !slices.Contains(a.known, name) {
			slices.Sort(a.known)
			a.err = BadRequest{Err: fmt.Errorf("there is no parameter %q here; there are: %s", name, strings.Join(a.known, ", "))}
		}
	}
	return a.err
}

// argument reads one parameter; the zero value stands for one that was not given. wanted
// says what it should be.
func argument[T any](a *Arguments, name, wanted string, parse func(string) (T, error)) (value T) {
	a.known = append(a.known, name)
	text := a.Values.Get(name)
	if text == "" {
		return value
	}
	value, err := parse(text)
	if err != nil && a.err == nil {
		a.err = BadRequest{Err: fmt.Errorf("%s: %q is not %s", name, text, wanted)}
	}
	return value
}

// Text reads a word.
func (a *Arguments) Text(name string) string {
	return argument(a, name, "", func(text string) (string, error) { return text, nil })
}

// Addr reads an IP address.
func (a *Arguments) Addr(name string) netip.Addr {
	return argument(a, name, "an IP address", netip.ParseAddr).Unmap()
}

func (a *Arguments) prefix(name string) netip.Prefix {
	return argument(a, name, "an IP address or prefix", ParsePrefix)
}

func (a *Arguments) mac(name string) overlay.MAC {
	return argument(a, name, "a MAC address", overlay.ParseMAC)
}

// Flag reads true or false.
func (a *Arguments) Flag(name string) bool {
	return argument(a, name, "true or false", strconv.ParseBool)
}

// The bounds of an EntryQuery's Interval.
const (
	LeastInterval = 100 * time.Millisecond
	MostInterval  = 10 * time.Second
)

func (a *Arguments) interval(name string) time.Duration {
	wanted := fmt.Sprintf("a time from %s to %s", LeastInterval, MostInterval)
	return argument(a, name, wanted, func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err == nil && (d < LeastInterval || d > MostInterval) {
			err = strconv.ErrRange
		}
		return d, err
	})
}

// Number reads a number between bounds.
func (a *Arguments) Number(name string, least, most int) int {
	return argument(a, name, fmt.Sprintf("a number from %d to %d", least, most), func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err == nil && (n < least || n > most) {
			err = strconv.ErrRange
		}
		return n, err
	})
}

// OneOf reads one of a few words.
func (a *Arguments) OneOf(name string, words []string) string {
	return argument(a, name, "one of "+strings.Join(words, ", "), func(text string) (string, error) {
		if !slices.Contains(words, text) {
			return "", strconv.ErrSyntax
		}
		return text, nil
	})
}
