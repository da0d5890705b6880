package measure

import (
	"math/bits"
	"slices"
	"time"
)

// OutageBreak is a place in a flow at which it was not as its sender had made it: packets are
// missing, or the next one came late. Times are of CLOCK_MONOTONIC.
type OutageBreak struct {
	LastSeq     uint32        `json:"last_seq"` // that came before
	NextSeq     uint32        `json:"next_seq"` // that came after, or was sent last when none did
	LastSent    time.Duration `json:"last_sent"`
	NextSent    time.Duration `json:"next_sent"`
	LastArrived time.Duration `json:"last_arrived"`
	NextArrived time.Duration `json:"next_arrived"` // 0: nothing came any more
	Lost        int           `json:"lost"`
	// Paused is for how long between both arrivals the source itself, which both sends and
	// takes in the answers, was held up. The far end does not know.
	Paused time.Duration `json:"paused,omitempty"`
}

// Silence is for how much longer than its source made it the flow was silent; interval is
// how often it sends. Where packets are missing nobody knows on which side of a pause of the
// source the path began to fail: then all of it counts.
func (b OutageBreak) Silence(interval time.Duration) time.Duration {
	if b.NextArrived == 0 {
		return max(0, b.NextSent-b.LastArrived-interval)
	}
	own := interval
	if b.NextSeq == b.LastSeq+1 {
		own = max(interval+b.Paused, b.NextSent-b.LastSent)
	}
	return max(0, b.NextArrived-b.LastArrived-own)
}

// OutageFlow is what came of a flow of numbered packets, or of lines in a connection.
type OutageFlow struct {
	Sent     int           `json:"sent"`
	Received int           `json:"received"` // different ones
	Twice    int           `json:"twice"`
	Late     int           `json:"late"` // after one that was sent later
	LastSent time.Duration `json:"last_sent"`
	Breaks   []OutageBreak `json:"breaks"`
	// Error is why a connection ended, "" while it goes on; it did so at Ended.
	Error string        `json:"error,omitempty"`
	Ended time.Duration `json:"ended,omitempty"`
}

const (
	// outageNotice is the shortest silence without loss that is a break: less is scheduling.
	outageNotice = 5 * time.Millisecond
	// outageMost bounds the breaks of a flow that are kept. A path that breaks more often is
	// not what the instrument is for.
	outageMost = 4096
)

// outageTrack follows a flow by its packets' numbers, which begin with 0.
type outageTrack struct {
	interval time.Duration
	flow     OutageFlow
	started  bool
	lastSeq  uint32
	lastSent time.Duration
	arrived  time.Duration // of the last packet
	seen     []uint64      // bits
	// paused says for how long the source was held up between two times; nil where that is not known.
	paused func(from, to time.Duration) time.Duration
}

// note takes down an arrival.
func (t *outageTrack) note(seq uint32, sent, now time.Duration) {
	if !t.mark(seq) {
		t.flow.Twice++
		return
	}
	t.flow.Received++
	if t.started && seq < t.lastSeq {
		t.flow.Late++
		t.found(seq)
		t.arrived = now
		return
	}
	if t.started {
		b := t.breakTo(seq, sent, now)
		if b.Lost > 0 || b.Silence(t.interval) >= outageNotice {
			t.keep(b)
		}
	}
	t.started, t.lastSeq, t.lastSent, t.arrived = true, seq, sent, now
}

// breakTo is the break between the last packet and a next one.
func (t *outageTrack) breakTo(seq uint32, sent, now time.Duration) OutageBreak {
	return OutageBreak{LastSeq: t.lastSeq, NextSeq: seq, LastSent: t.lastSent, NextSent: sent, LastArrived: t.arrived, NextArrived: now, Lost: int(seq - t.lastSeq - 1)}
}

// mark says whether a number is new.
func (t *outageTrack) mark(seq uint32) bool {
	word, bit := int(seq/bits.UintSize), uint64(1)<<(seq%bits.UintSize)
	for len(t.seen) <= word {
		t.seen = append(t.seen, make([]uint64, 64)...)
	}
	if t.seen[word]&bit != 0 {
		return false
	}
	t.seen[word] |= bit
	return true
}

// found takes a packet that came late from the lost.
func (t *outageTrack) found(seq uint32) {
	for i, b := range slices.Backward(t.flow.Breaks) {
		if b.LastSeq < seq && seq < b.NextSeq {
			t.flow.Breaks[i].Lost--
			return
		}
	}
}

func (t *outageTrack) keep(b OutageBreak) {
	if len(t.flow.Breaks) < outageMost {
		t.flow.Breaks = append(t.flow.Breaks, b)
	}
}

// end closes the flow, of which so many packets were sent, the last one at a time. What
// is missing at its end is a break without an end.
func (t *outageTrack) end(sent int, last time.Duration) OutageFlow {
	t.flow.Sent, t.flow.LastSent = sent, last
	switch {
	case sent == 0:
	case !t.started:
		t.keep(OutageBreak{NextSeq: uint32(sent - 1), NextSent: last, Lost: sent})
	case int(t.lastSeq) < sent-1:
		b := t.breakTo(uint32(sent-1), last, 0)
		b.Lost++
		t.keep(b)
	}
	for i, b := range t.flow.Breaks {
		if t.paused != nil { // all pauses are known by now
			t.flow.Breaks[i].Paused = t.paused(b.LastArrived, max(b.NextArrived, b.LastArrived))
		}
	}
	return t.flow
}

// OutageWindow is what happened to a flow in a while.
type OutageWindow struct {
	Lost    int
	Silence time.Duration // the longest
	// Resumed is when it went on after that, 0 when it did not or had no break.
	Resumed time.Duration
	// Broken is when it last went well before that, 0 without a break.
	Broken time.Duration
	Open   bool // it did not go on
}

// Within says what happened between two times, by the breaks that ended after the first
// and began before the second.
func (f OutageFlow) Within(from, to, interval time.Duration) OutageWindow {
	var w OutageWindow
	for _, b := range f.Breaks {
		if b.LastArrived >= to || b.NextArrived != 0 && b.NextArrived <= from {
			continue
		}
		w.Lost += b.Lost
		w.Open = w.Open || b.NextArrived == 0
		if silence := b.Silence(interval); silence > w.Silence {
			w.Silence, w.Broken, w.Resumed = silence, b.LastSent+interval, b.NextArrived
		}
	}
	return w
}

// After is f with those of its breaks alone that began after a time.
func (f OutageFlow) After(at time.Duration) OutageFlow {
	f.Breaks = slices.DeleteFunc(slices.Clone(f.Breaks), func(b OutageBreak) bool { return b.LastArrived < at })
	return f
}
