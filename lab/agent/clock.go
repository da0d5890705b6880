package agent

import (
	"context"
	"fmt"
	"time"
)

// Clock is what a place's clock shows more than the controller's, which is known to Error on
// either side: half of the shortest round trip.
type Clock struct{ Offset, Error time.Duration }

// pings are asked for one Clock: the fastest of them tells.
const pings = 20

// Clock compares the clocks.
func (s *Session) Clock(ctx context.Context) (best Clock, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	for i := range pings {
		var r clockReading
		sent := time.Now()
		if err := s.call(ctx, opClock, nil, &r); err != nil {
			return Clock{}, err
		}
		back := time.Since(sent)
		c := clockOf(sent.UnixNano(), r, sent.Add(back).UnixNano())
		if i == 0 || c.Error < best.Error {
			best = c
		}
	}
	return best, nil
}

// clockOf is of one request and answer (RFC 5905 section 8).
func clockOf(sent int64, r clockReading, back int64) Clock {
	return Clock{
		Offset: time.Duration((r.Received-sent)+(r.Sent-back)) / 2,
		Error:  time.Duration((back-sent)-(r.Sent-r.Received)) / 2,
	}
}

// Against is this clock's offset to another's, of the same controller.
func (c Clock) Against(other Clock) Clock {
	return Clock{Offset: c.Offset - other.Offset, Error: c.Error + other.Error}
}

// String states offset and error.
func (c Clock) String() string { return fmt.Sprintf("%s ± %s", round(c.Offset), round(c.Error)) }

func round(d time.Duration) time.Duration { return d.Round(time.Microsecond) }

// clockShare is the most that a one-way figure may be wrong by for the clocks.
const clockShare = 0.1

// OneWay corrects a one-way time that was measured from the other clock to this one. It refuses it when
// the clocks are not known well enough for that.
func (c Clock) OneWay(measured time.Duration) (time.Duration, error) {
	corrected := measured - c.Offset
	if float64(c.Error) > clockShare*float64(corrected) {
		return 0, fmt.Errorf("no one-way figure: %s is measured by clocks that differ by %s; use round trips, or PTP on both machines", round(corrected), c)
	}
	return corrected, nil
}
