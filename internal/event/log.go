package event

import (
	"context"
	"maps"
	"sync"
	"time"
)

// Bounds of what is kept, of busy kinds and of the others each.
const (
	mostEvents = 2048
	mostBytes  = 1 << 20
)

// Log is the newest events.
type Log struct {
	now func() time.Time

	mu     sync.Mutex
	last   uint64 // number of the newest
	quiet  ring
	busy   ring
	change chan struct{} // closed when there is another event; nil: nobody waits
	ended  bool
	counts map[Kind]uint64 // of events since New, of the kinds that there are
}

// New has no event.
func New() *Log {
	l := &Log{now: time.Now, counts: make(map[Kind]uint64)}
	for _, a := range Kinds() {
		l.counts[a.Kind] = 0
	}
	return l
}

// Add gives an event its number, and its time unless it has one. It waits for nobody.
func (l *Log) Add(e Event) {
	busy := about(e.Kind).Busy
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Time.IsZero() {
		e.Time = l.now()
	}
	l.last++
	e.Number = l.last
	if _, known := l.counts[e.Kind]; known {
		l.counts[e.Kind]++
	}
	l.keep(e, busy)
	if l.change != nil {
		close(l.change)
		l.change = nil
	}
}

// keep puts an event into its ring; mu is held.
func (l *Log) keep(e Event, busy bool) {
	if busy {
		l.busy.add(e)
	} else {
		l.quiet.add(e)
	}
}

// End has those who follow get what there is, and then the end.
func (l *Log) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.change != nil {
		close(l.change)
		l.change = nil
	}
}

// Counts is how many events of each kind this process added, also of those that are no longer kept.
func (l *Log) Counts() map[Kind]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.counts)
}

// Last is the number of the newest event.
func (l *Log) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Batch is what Read found.
type Batch struct {
	Events []Event
	// Next is the number after which the next batch begins.
	Next uint64
	// Missed is how many events there were since, of all kinds, that are no longer kept.
	Missed uint64
}

// Read returns events after a number that f chooses, at most so many; 0 is all.
func (l *Log) Read(f Filter, most int) (b Batch) {
	b, _, _ = l.read(f, most)
	return b
}

func (l *Log) read(f Filter, most int) (b Batch, change <-chan struct{}, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.After > l.last { // of before a reboot
		f.After = 0
	}
	b.Next = f.After
	kept := merge{l.quiet.after(f.After), l.busy.after(f.After)}
	for e, ok := kept.next(); ok; e, ok = kept.next() {
		b.Missed += e.Number - b.Next - 1
		b.Next = e.Number
		if f.Has(e) {
			b.Events = append(b.Events, e)
		}
		if most > 0 && len(b.Events) >= most {
			return b, nil, false
		}
	}
	if l.change == nil && !l.ended {
		l.change = make(chan struct{})
	}
	return b, l.change, l.ended
}

// Wait is Read that waits for events after f.After. more is false when there will be no others; an error is that of ctx.
func (l *Log) Wait(ctx context.Context, f Filter, most int) (b Batch, more bool, err error) {
	for {
		var change <-chan struct{}
		var ended bool
		b, change, ended = l.read(f, most)
		if len(b.Events) > 0 || b.Missed > 0 {
			return b, true, nil
		}
		f.After = b.Next // what f did not choose is not looked at again
		if ended {
			return b, false, nil
		}
		select {
		case <-ctx.Done():
			return b, true, ctx.Err()
		case <-change:
		}
	}
}

// ring is events in the order of their numbers. The oldest go when there are too many.
type ring struct {
	events []Event // kept from first on
	first  int
	bytes  int
}

func (r *ring) add(e Event) {
	r.events = append(r.events, e)
	r.bytes += e.size()
	for len(r.events)-r.first > mostEvents || r.bytes > mostBytes {
		r.bytes -= r.events[r.first].size()
		r.events[r.first] = Event{}
		r.first++
	}
	if r.first > mostEvents {
		r.events = append([]Event(nil), r.events[r.first:]...)
		r.first = 0
	}
}

// after are those with greater numbers.
func (r *ring) after(number uint64) []Event {
	low, high := r.first, len(r.events)
	for low < high {
		if middle := (low + high) / 2; r.events[middle].Number <= number {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return r.events[low:]
}

// merge is two lists in the order of numbers.
type merge struct{ a, b []Event }

func (m *merge) next() (e Event, ok bool) {
	switch {
	case len(m.a) == 0 && len(m.b) == 0:
		return e, false
	case len(m.b) == 0 || len(m.a) > 0 && m.a[0].Number < m.b[0].Number:
		e, m.a = m.a[0], m.a[1:]
	default:
		e, m.b = m.b[0], m.b[1:]
	}
	return e, true
}
