package attack

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/selvage/selvage/lab/experiment/attack/attacker"
	"github.com/selvage/selvage/lab/measure"
)

// pins are the cores of an attack: all that the honest pairs and their softirqs do is on one, the attacker with
// its softirqs on the other.
func pins() (honest, attack int) {
	apart := measure.Apart()
	return apart.Client, apart.Server
}

// pairNames are the honest pairs.
func pairNames() []string { return []string{SamePair, OtherPair} }

// honest is a pair that keeps talking, with instruments that stand ready.
type honest struct {
	name   string
	number int
	ends   measure.Ends

	tcp  *measure.SlicedTCP
	rr   *measure.SlicedRR
	conn *measure.Attempts
	held *attacker.Held
}

// phase is what a pair did for some time.
type phase struct {
	tcp, rr, conn []float64 // Gbit/s, µs, 1/s: one a slice
	// lost are connections of the instruments that broke.
	lost int
}

// silence is the round trip of a slice in which no transaction ended, in µs: what the instrument
// waits for one.
const silence = 5e6

// stand starts what is not up.
func (h *honest) stand(ctx context.Context) (err error) {
	pin := measure.Spread(0)
	port := func(first int) int { return first + 10*h.number } // both may have the same server
	if h.tcp == nil {
		if h.tcp, err = measure.StandTCP(ctx, h.ends, measure.BulkOptions{Port: port(5303), Pin: &pin}); err != nil {
			return err
		}
	}
	if h.rr == nil {
		if h.rr, err = measure.StandRR(ctx, h.ends, measure.RROptions{Port: port(5301), Pin: &pin}); err != nil {
			return err
		}
	}
	if h.conn == nil {
		if h.conn, err = measure.StandAttempts(ctx, h.ends, measure.AttemptOptions{Port: port(5310), Pin: &pin}); err != nil {
			return err
		}
	}
	if h.held == nil {
		h.held, err = attacker.Hold(h.ends.Client, h.ends.Server, h.ends.Addr)
	}
	return err
}

// close ends all of it.
func (h *honest) close() {
	if h.tcp != nil {
		h.tcp.Close()
	}
	if h.rr != nil {
		h.rr.Close()
	}
	if h.conn != nil {
		h.conn.Close()
	}
	if h.held != nil {
		h.held.Close()
	}
	h.tcp, h.rr, h.conn, h.held = nil, nil, nil, nil
}

// attackPatience is how much longer than planned a slice may take. What takes longer is over: a
// user would have gone.
const attackPatience = 3 * time.Second

// cycle measures each instrument once. One that breaks, or is silent, has a figure of 0, and stands no
// more; if it broke, its connection is lost.
func (h *honest) cycle(ctx context.Context, slice time.Duration, into *phase) error {
	if h.tcp != nil {
		value, err := figureOf(ctx, h.tcp, slice, measure.TCPThroughput)
		if into.tcp = append(into.tcp, value); err != nil {
			h.tcp.Close()
			h.tcp = nil
			into.broke(err)
		}
	}
	if h.rr != nil {
		value, err := figureOf(ctx, h.rr, slice/2, measure.RRP50)
		if err != nil {
			h.rr.Close()
			h.rr, value = nil, silence
			into.broke(err)
		}
		into.rr = append(into.rr, value)
	}
	if h.conn != nil {
		value, err := figureOf(ctx, h.conn, slice, measure.ConnRate)
		if into.conn = append(into.conn, value); err != nil {
			h.conn.Close()
			h.conn = nil
		}
	}
	return ctx.Err()
}

var errSilent = errors.New("a slice without a figure")

// figureOf is the figure of one slice, 0 when it failed.
func figureOf(ctx context.Context, s measure.Sliced, d time.Duration, metric string) (float64, error) {
	s.Forget()
	slice, cancel := context.WithTimeout(ctx, d+attackPatience)
	defer cancel()
	if err := s.Slice(slice, d); err != nil {
		return 0, errors.Join(err, slice.Err())
	}
	values := s.Sample().Series[metric]
	if len(values) == 0 || math.IsNaN(values[0]) || math.IsInf(values[0], 0) {
		return 0, errSilent
	}
	return values[0], nil
}

// broke counts a connection that ended, and not one that was only silent.
func (p *phase) broke(err error) {
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, errSilent) {
		p.lost++
	}
}

// cycles measures all pairs in turns.
func cycles(ctx context.Context, pairs []*honest, n int, slice time.Duration) ([]phase, error) {
	phases := make([]phase, len(pairs))
	for range n {
		for i, h := range pairs {
			if err := h.cycle(ctx, slice, &phases[i]); err != nil {
				return nil, err
			}
		}
	}
	return phases, nil
}

// and is both phases.
func (p phase) and(q phase) phase {
	return phase{slices.Concat(p.tcp, q.tcp), slices.Concat(p.rr, q.rr), slices.Concat(p.conn, q.conn), p.lost + q.lost}
}

// throughput, roundTrip and connections are a phase's figures: means of rates, the median of round
// trips.
func (p phase) throughput() float64  { return average(p.tcp) }
func (p phase) connections() float64 { return average(p.conn) }
func (p phase) roundTrip() float64 {
	if len(p.rr) == 0 {
		return silence
	}
	sorted := slices.Sorted(slices.Values(p.rr))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// near says whether a phase is as the worst slices of another.
func (p phase) near(was phase) bool {
	if len(was.tcp) == 0 || len(was.rr) == 0 || len(was.conn) == 0 {
		return false
	}
	return p.throughput() >= nearRate*slices.Min(was.tcp) && p.connections() >= nearRate*slices.Min(was.conn) && p.roundTrip() <= nearTime*slices.Max(was.rr)
}

func average(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(1, len(values)))
}
