package alarm

import "github.com/selvage/selvage/internal/problem"

// Tables are what is wrong with the tables of the firewall or NAT, as of one reading.
type Tables struct {
	Problems []problem.Problem
	pressed  map[string]bool // what is too full
}

// fewPlaces is the size below which a share says nothing: all of one or two places in use is their ordinary state. What
// finds no room there is an alarm of its own.
const fewPlaces = 10

// Fills reports whether something is too full: from a share of its size on, and until it is
// below another one when it was before. What has few places never is.
func (a *Tables) Fills(was Tables, what string, used, size int, limit, end float64) bool {
	if was.pressed[what] {
		limit = end
	}
	if a.pressed == nil {
		a.pressed = make(map[string]bool)
	}
	a.pressed[what] = size >= fewPlaces && float64(used) >= limit*float64(size)
	return a.pressed[what]
}

// Warn adds a warning.
func (a *Tables) Warn(format string, args ...any) {
	a.Problems = append(a.Problems, problem.Warning(format, args...))
}

// Fail adds an error.
func (a *Tables) Fail(format string, args ...any) {
	a.Problems = append(a.Problems, problem.Error(format, args...))
}
