package search

import (
	"cmp"
	"slices"
	"time"
)

// class is what the trials at one load say of it to a goal.
type class int

const (
	undecided class = iota
	lowerBound
	upperBound
)

// sums is trial time at one load by length and loss, as a goal sees it.
type sums struct {
	longLow, longHigh, shortLow, shortHigh time.Duration
}

func (g Goal) sum(trials []Record) sums {
	var s sums
	for _, t := range trials {
		long, low := t.Length >= g.Final, t.Outcome.LossRatio() <= g.LossRatio
		switch {
		case long && low:
			s.longLow += t.Length
		case long:
			s.longHigh += t.Length
		case low:
			s.shortLow += t.Length
		default:
			s.shortHigh += t.Length
		}
	}
	return s
}

// exceeds returns the share of time with high loss if all trials that are still missing
// were good, and if all were bad (RFC 9971, load classification). Short trials can
// only speak against a load: those with high loss count, less what short good ones
// balance at the exceed ratio.
func (g Goal) exceeds(trials []Record) (optimistic, pessimistic float64) {
	s := g.sum(trials)
	balance := s.shortLow.Seconds() * g.ExceedRatio / (1 - g.ExceedRatio)
	high := s.longHigh.Seconds() + max(0, s.shortHigh.Seconds()-balance)
	full := high + s.longLow.Seconds()
	whole := max(full, g.Sum.Seconds())
	return high / whole, (high + whole - full) / whole
}

// slack absorbs rounding where a share of time is exactly the exceed ratio.
const slack = 1e-9

// classify is the class of a load by RFC 9971.
func (g Goal) classify(trials []Record) class {
	optimistic, pessimistic := g.exceeds(trials)
	switch {
	case len(trials) == 0:
		return undecided
	case optimistic > g.ExceedRatio+slack:
		return upperBound
	case pessimistic <= g.ExceedRatio+slack:
		return lowerBound
	}
	return undecided
}

// quantileLoss is the loss ratio that the conditional throughput of a load is reckoned
// with (RFC 9971): that of the worst final trial once the exceed ratio's share of time is
// left out.
func (g Goal) quantileLoss(trials []Record) float64 {
	full := slices.DeleteFunc(slices.Clone(trials), func(t Record) bool { return t.Length < g.Final })
	slices.SortStableFunc(full, func(a, b Record) int { return cmp.Compare(a.Outcome.LossRatio(), b.Outcome.LossRatio()) })
	s := g.sum(full)
	whole := max(g.Sum, s.longLow+s.longHigh).Seconds()
	remaining, loss := whole*(1-g.ExceedRatio), 1.0
	for i, t := range full {
		if i > 0 && remaining <= slack {
			break
		}
		loss = t.Outcome.LossRatio()
		remaining -= t.Length.Seconds()
	}
	if remaining > slack {
		return 1
	}
	return loss
}
