package observe

import (
	"fmt"
	"time"
)

// Rates turn counters that are written again and again into numbers a second. The zero value
// has written none.
type Rates struct {
	at          time.Time
	elapsed     time.Duration
	before, now map[string]uint64
	of          string // whose counters are written, before their keys
}

// Of are the same rates for the counters of one of several edges. Nil stays nil.
func (r *Rates) Of(name string) *Rates {
	if r == nil {
		return nil
	}
	one := *r
	one.of = name + "\x00"
	return &one
}

// Next begins to write counters that were read at a time.
func (r *Rates) Next(at time.Time) {
	if !r.at.IsZero() {
		r.elapsed = at.Sub(r.at)
	}
	r.at, r.before, r.now = at, r.now, make(map[string]uint64)
}

// PerSecond is how fast the counter called key has grown since it was written before, and false where that
// is not known: it is new, or began anew.
func (r *Rates) PerSecond(key string, n uint64) (rate float64, known bool) {
	key = r.of + key
	r.now[key] = n
	was, ok := r.before[key]
	if !ok || n < was || r.elapsed <= 0 {
		return 0, false
	}
	return float64(n-was) / r.elapsed.Seconds(), true
}

// Elapsed is the time between the last two readings.
func (r *Rates) Elapsed() time.Duration { return r.elapsed }

// rate is PerSecond in words, "" where it is not known.
func (r *Rates) rate(key string, n uint64) string {
	perSecond, known := r.PerSecond(key, n)
	if !known {
		return ""
	}
	return rate(perSecond)
}

// counter is a number that only grows, of packets or, with a unit, of bytes.
type counter struct {
	n    uint64
	unit string
}

// String rounds it.
func (c counter) String() string { return rounded(c.n) + c.unit }

// of is the counter with what it counts and, where the writer knows it, its rate.
func (c counter) of(w Writer, what string) string {
	if w.Rates != nil {
		if perSecond := w.Rates.rate(what, c.n); perSecond != "" {
			what += " (" + perSecond + "/s)"
		}
	}
	return c.String() + " " + what
}

// gauge is a number that comes and goes, such as an age.
type gauge string

// keyOf names a row by its cells before the first counter, but for those that come and go.
func keyOf(header string, cells []any) string {
	key := header
	for _, cell := range cells {
		switch cell.(type) {
		case counter:
			return key
		case gauge, int, uint32:
		default:
			key += "\x00" + fmt.Sprint(cell)
		}
	}
	return key
}
