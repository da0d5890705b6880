package rfc2544

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/search"
	"github.com/selvage/selvage/lab/transit"
)

// lossCurve is the frame loss rate from the highest rate downwards.
func (m *rateSample) lossCurve(ctx context.Context) error {
	if !m.LossCurve {
		return nil
	}
	points, _, err := search.Losses(ctx, m.trial, search.Curve{Max: m.found.Max, Length: m.Duration, Retries: m.Retries, Unsent: transit.UnsentShare})
	for _, p := range points {
		m.sample.Series[transit.LossLoad] = append(m.sample.Series[transit.LossLoad], p.Share)
		m.sample.Series[transit.LossShare] = append(m.sample.Series[transit.LossShare], p.Ratio)
	}
	return err
}

// backToBack looks for the longest burst without loss.
func (m *rateSample) backToBack(ctx context.Context) error {
	if !m.BackToBack {
		return nil
	}
	ndr, _ := m.found.Find(search.NDR)
	bursts := transit.Bursts{Rate: m.offered, Throughput: ndr.Throughput, Retries: m.Retries}
	if m.Quick {
		bursts.Quick = m.Duration
	}
	buffered, err := m.instruments.BackToBack(ctx, bursts)
	if errors.Is(err, search.ErrNoBuffer) {
		return nil
	}
	if err == nil {
		m.set(backToBack, buffered.Average)
		m.set("back_to_back_limited", truth(buffered.Limited))
	}
	return err
}

// slice is the resolution with which recovery is observed.
const slice = 20 * time.Millisecond

// recovery overloads the device and sees when it loses nothing any more. One that cannot be
// overloaded by this generator has no figure.
func (m *rateSample) recovery(ctx context.Context) error {
	ndr, _ := m.found.Find(search.NDR)
	if !m.Recovery || ndr.Throughput == 0 {
		return nil
	}
	repeat := m.LatencyTrials
	if repeat == 0 || m.Quick {
		repeat = 1
	}
	r, err := search.Recovery(ctx, m.overload, ndr.Throughput, m.offered, repeat)
	if errors.Is(err, search.ErrNoOverload) {
		return nil
	}
	if err == nil {
		m.set(recoveryMS, ms(r.Mean))
	}
	return err
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// overload is one: the low rate comes in slices, and the last that lost frames ends the
// recovery.
func (m *rateSample) overload(ctx context.Context, high, low float64) (after time.Duration, lost uint64, err error) {
	// Not drained: frames that queue are what the device recovers from.
	p, err := m.instruments.Unchecked(ctx, gen.Load{Rate: high, Duration: m.Duration, Untimed: true, Batch: transit.SearchBatch(high)}, 0)
	if err != nil {
		return 0, 0, err
	}
	lost = p.Lost
	began := time.Now()
	for quiet := 0; quiet < 5; quiet++ {
		p, err := m.instruments.Unchecked(ctx, gen.Load{Rate: low, Duration: slice, Untimed: true}, slice)
		if err != nil {
			return 0, 0, err
		}
		if p.Lost > 0 {
			after, quiet = time.Since(began), 0
		}
		if time.Since(began) > time.Minute {
			return after, lost, errors.New("it still loses frames after a minute at half the rate")
		}
	}
	return after, lost, nil
}

// Rate and longest time of a reset test, as a share of the no-drop rate.
const (
	resetShare = 0.1
	resetTime  = 30 * time.Second
	resetQuiet = time.Second
)

// reset restarts the data path under a steady stream, and times the outage.
func (m *rateSample) reset(ctx context.Context) error {
	ndr, _ := m.found.Find(search.NDR)
	if !m.Reset || ndr.Throughput == 0 {
		return nil
	}
	pps := min(resetShare*ndr.Throughput, 100e3)
	outage, err := m.outage(ctx, pps)
	if err != nil {
		return err
	}
	reset, err := search.Reset([]search.Outage{outage})
	m.set(resetMS, ms(reset))
	return err
}

// outage is the outage in a stream while the data path is stopped and started.
func (m *rateSample) outage(ctx context.Context, pps float64) (search.Outage, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := m.instruments.Sink.Reset(m.instruments.Sender.Next()); err != nil {
		return search.Outage{}, err
	}
	sent := make(chan error, 1)
	go func() {
		_, err := m.instruments.Sender.Run(ctx, gen.Load{Rate: pps, Duration: resetTime, Untimed: true})
		sent <- err
	}()
	outage, err := m.watchOutage(ctx, pps)
	cancel()
	if end := <-sent; end != nil && !errors.Is(end, context.Canceled) {
		err = errors.Join(err, end)
	}
	return outage, err
}

// outage is the longest time between two looks at the sink that saw new frames.
type outage struct {
	frames         uint64
	last           time.Duration // when new frames were seen
	begins, closes time.Duration
}

func (g *outage) see(now time.Duration, frames uint64) {
	if frames == g.frames {
		return
	}
	if g.frames > 0 && now-g.last > g.closes-g.begins {
		g.begins, g.closes = g.last, now
	}
	g.frames, g.last = frames, now
}

// watchOutage restarts the device and looks at the sink every millisecond, until frames
// have come again for a while.
func (m *rateSample) watchOutage(ctx context.Context, pps float64) (search.Outage, error) {
	var g outage
	var done chan error // unless nil, says that the device was restarted
	began, restarted := time.Now(), time.Duration(0)
	for {
		now := time.Since(began)
		got, err := m.instruments.Sink.Read()
		if err != nil {
			return search.Outage{}, err
		}
		g.see(now, got.Frames)
		switch {
		case done == nil && now > resetQuiet:
			done = make(chan error, 1)
			go func() { done <- m.instruments.Testbed.Restart(ctx) }()
		case restarted > 0 && g.last > restarted+resetQuiet:
			return search.Outage{Last: g.begins, First: g.closes}, nil
		case now > resetTime-resetQuiet:
			return search.Outage{}, fmt.Errorf("frames at %.0f/s did not return within %s", pps, resetTime)
		}
		select {
		case err := <-done:
			if err != nil {
				return search.Outage{}, err
			}
			restarted, done = now, make(chan error)
		case <-ctx.Done():
			return search.Outage{}, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}
