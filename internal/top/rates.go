package top

import "github.com/selvage/selvage/internal/observe"

// rates are those of counters between two readings.
type rates struct{ observe.Rates }

// cell is the rate of a counter.
func (r *rates) cell(key string, n uint64) cell {
	perSecond, known := r.PerSecond(key, n)
	if !known {
		return cell{text: "-", by: -1, tone: faint}
	}
	return rateCell(perSecond)
}

// bits is the rate of a counter of bytes, in bits.
func (r *rates) bits(key string, bytes uint64) cell {
	perSecond, known := r.PerSecond(key, bytes)
	if !known {
		return cell{text: "-", by: -1, tone: faint}
	}
	return rateCell(8 * perSecond)
}

func rateCell(perSecond float64) cell {
	c := cell{text: observe.Rate(perSecond), by: perSecond}
	if perSecond == 0 {
		c.tone = faint
	}
	return c
}

// worse is a cell whose rate is bad news unless it is none.
func worse(c cell, as tone) cell {
	if c.by > 0 {
		c.tone = as
	}
	return c
}

// countCell is a counter itself.
func countCell(n uint64) cell {
	c := cell{text: observe.Count(n), by: float64(n)}
	if n == 0 {
		c.tone = faint
	}
	return c
}
