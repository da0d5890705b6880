package search

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Curve are the options of the frame loss rate (RFC 2544 section 26.3).
type Curve struct {
	Max     float64       // rate that is 100 %
	Step    float64       // share of Max between two trials, 0.1 at most; 0 is 0.1
	Length  time.Duration // of a trial
	Retries int           // of a void trial
	Unsent  float64       // share of unsent frames up to which a trial counts; 0 is 0.001
	Observe func(Record)
}

// Loss is one point of the curve.
type Loss struct {
	Share float64 // of Max
	PPS   float64
	Ratio float64 // lost of sent, 0 … 1
}

// Losses measures the curve from 100 % downwards, until two trials in a row lose
// nothing. Points at which the generator fell behind are left out; notes say so, and say
// where the device lost more at a lower rate.
func Losses(ctx context.Context, trial Trial, c Curve) (points []Loss, notes []string, err error) {
	if c.Step == 0 {
		c.Step = 0.1
	}
	if !(c.Step > 0 && c.Step <= 0.1) || !(c.Max > 0) || c.Length <= 0 {
		return nil, nil, fmt.Errorf("loss curve: maximum %g, step %g, length %s: want a step up to 0.1 (RFC 2544 section 26.3) and the others above 0", c.Max, c.Step, c.Length)
	}
	options := Options{Max: c.Max, Retries: c.Retries, Unsent: c.Unsent, Observe: c.Observe}.defaults()
	r := &runner{trial: trial, options: options, max: c.Max}
	zeros := 0
	for i := 0; zeros < 2; i++ {
		share := 1 - float64(i)*c.Step
		if share < c.Step/2 {
			break
		}
		share = math.Round(share*1e9) / 1e9
		record, err := r.attempt(ctx, share*c.Max, c.Length)
		if err != nil {
			return points, notes, err
		}
		if record.Outcome.UnsentRatio() > options.Unsent {
			notes = append(notes, fmt.Sprintf("The generator fell behind at %.0f %% (%.2g %% of the frames were not sent), so that point is left out.", 100*share, 100*record.Outcome.UnsentRatio()))
			continue
		}
		point := Loss{Share: share, PPS: record.PPS, Ratio: record.Outcome.LossRatio()}
		points = append(points, point)
		if point.Ratio > 0 {
			zeros = 0
			continue
		}
		zeros++
	}
	return points, append(notes, rises(points)...), nil
}

// rises says where a lower rate loses clearly more than a higher one. Points run from
// the highest rate down.
func rises(points []Loss) []string {
	var notes []string
	for i := 1; i < len(points); i++ {
		high, low := points[i-1], points[i]
		if low.Ratio > 2*high.Ratio && low.Ratio > 1e-6 {
			notes = append(notes, fmt.Sprintf("Not monotonic: %.3g %% are lost at %.0f %% of the rate, more than the %.3g %% at %.0f %%.",
				100*low.Ratio, 100*low.Share, 100*high.Ratio, 100*high.Share))
		}
	}
	return notes
}
