package edge

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

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
	Limit   int          // of entries; 0: all
}

// Entries are those that a query chose, and how many matched it in all.
type Entries[T any] struct {
	List    []T
	Matched int
}

// matchedHeader says in an answer how many entries matched.
const matchedHeader = "Selvage-Matched"

// Parameters of queries that are not of one document alone.
const argOrigin, argSlow, argBy = "origin", "slow", "by"

// Origins are how an edge knows of hosts.
var Origins = []string{"learned", "static", "bgp"}

func (q EntryQuery) values() url.Values {
	v := url.Values{}
	setIf(v, argSegment, q.Segment, q.Segment != "")
	setIf(v, argPort, q.Port, q.Port != "")
	setIf(v, argRemote, q.Remote.String(), q.Remote.IsValid())
	setIf(v, argMAC, q.MAC.String(), q.MAC != overlay.MAC{})
	setIf(v, argAddr, q.Addr.String(), q.Addr.IsValid())
	setIf(v, argOrigin, q.Origin, q.Origin != "")
	setIf(v, argSlow, "true", q.Slow)
	setIf(v, argLimit, strconv.Itoa(q.Limit), q.Limit != 0)
	return v
}

func setIf(v url.Values, name, value string, given bool) {
	if given {
		v.Set(name, value)
	}
}

// entryQueryOf reads what values writes: what all tables have, and others of the parameters.
func entryQueryOf(v url.Values, others ...string) (EntryQuery, error) {
	a := arguments{values: v}
	q := EntryQuery{
		Segment: a.text(argSegment), Port: a.text(argPort), Remote: a.addr(argRemote), MAC: a.mac(argMAC), Limit: a.number(argLimit, 0, maxLimit),
	}
	for _, name := range others {
		switch name {
		case argAddr:
			q.Addr = a.prefix(name)
		case argOrigin:
			q.Origin = a.oneOf(name, Origins)
		case argSlow:
			q.Slow = a.flag(name)
		}
	}
	return q, a.end()
}

// maxLimit is more than any table holds.
const maxLimit = 1 << 30

// isPort reports whether name is the port of a query, or one of its VLANs.
func isPort(name, wanted string) bool {
	vlan, isVLAN := strings.CutPrefix(name, wanted)
	return isVLAN && (vlan == "" || vlan[0] == '.')
}

// arguments reads the query of a request by the names of its parameters. The first mistake
// in it is the answer.
type arguments struct {
	values url.Values
	known  []string
	err    error
}

// end is the first mistake, such as a parameter that nobody reads.
func (a *arguments) end() error {
	for name := range a.values {
		if a.err == nil && !slices.Contains(a.known, name) {
			slices.Sort(a.known)
			a.err = mistake{fmt.Errorf("there is no parameter %q here; there are: %s", name, strings.Join(a.known, ", "))}
		}
	}
	return a.err
}

// argument reads one parameter; the zero value stands for one that was not given. wanted
// says what it should be.
func argument[T any](a *arguments, name, wanted string, parse func(string) (T, error)) (value T) {
	a.known = append(a.known, name)
	text := a.values.Get(name)
	if text == "" {
		return value
	}
	value, err := parse(text)
	if err != nil && a.err == nil {
		a.err = mistake{fmt.Errorf("%s: %q is not %s", name, text, wanted)}
	}
	return value
}

func (a *arguments) text(name string) string {
	return argument(a, name, "", func(text string) (string, error) { return text, nil })
}

func (a *arguments) addr(name string) netip.Addr {
	return argument(a, name, "an IP address", netip.ParseAddr).Unmap()
}

func (a *arguments) prefix(name string) netip.Prefix {
	return argument(a, name, "an IP address or prefix", ParsePrefix)
}

func (a *arguments) mac(name string) overlay.MAC {
	return argument(a, name, "a MAC address", overlay.ParseMAC)
}

func (a *arguments) flag(name string) bool {
	return argument(a, name, "true or false", strconv.ParseBool)
}

func (a *arguments) number(name string, least, most int) int {
	return argument(a, name, fmt.Sprintf("a number from %d to %d", least, most), func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err == nil && (n < least || n > most) {
			err = strconv.ErrRange
		}
		return n, err
	})
}

func (a *arguments) oneOf(name string, words []string) string {
	return argument(a, name, "one of "+strings.Join(words, ", "), func(text string) (string, error) {
		if !slices.Contains(words, text) {
			return "", strconv.ErrSyntax
		}
		return text, nil
	})
}
