// Package gate decides by conditions on a result whether a pipeline goes on: "selvage/tcp_throughput<0.95@plain".
//
// Its one invariant: a condition holds only where the whole interval is beyond the number, and one
// that cannot be evaluated is an error, never a pass. Pure; it computes no statistics of its own.
// Do not use it for the verdict of an experiment; that is the experiment's.
package gate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Condition is when a pipeline is to fail: TARGET/[CASE/]METRIC, < or >, and a number.
type Condition struct {
	Target, Case, Metric string // Case "" is each that has the metric
	Above                bool   // it holds above Number, else below
	Number               float64
	Unit                 string // "" is that of the rows
	Baseline             string // of a ratio, "" of a figure
	text                 string
}

// String is what UnmarshalText read.
func (c Condition) String() string { return c.text }

// form is what every error repeats.
const form = "TARGET/[CASE/]METRIC<NUMBER[UNIT] or …>NUMBER[UNIT], or with a ratio NUMBER@BASELINE, such as selvage/tcp_throughput<0.95@plain"

// UnmarshalText reads a condition; errors name the character, from 1.
func (c *Condition) UnmarshalText(data []byte) error {
	text := string(data)
	operator := strings.IndexAny(text, "<>")
	if operator < 0 {
		return wrong(text, len(text), "there is no < or >")
	}
	next := Condition{text: text, Above: text[operator] == '>'}
	if err := next.readRow(operator); err != nil {
		return err
	}
	if err := next.readNumber(operator + 1); err != nil {
		return err
	}
	*c = next
	return nil
}

// wrong is an error at a byte of a condition.
func wrong(text string, at int, format string, args ...any) error {
	return fmt.Errorf("%q: character %d: %s; want %s", text, len([]rune(text[:at]))+1, fmt.Sprintf(format, args...), form)
}

// readRow reads what is before the operator: target, case and metric.
func (c *Condition) readRow(operator int) error {
	row := c.text[:operator]
	first, last := strings.IndexByte(row, '/'), strings.LastIndexByte(row, '/')
	switch {
	case first < 0:
		return wrong(c.text, operator, "there is no / between target and metric")
	case first == 0:
		return wrong(c.text, 0, "there is no target")
	case last == operator-1:
		return wrong(c.text, operator, "there is no metric")
	}
	c.Target, c.Metric = row[:first], row[last+1:]
	if first < last {
		c.Case = row[first+1 : last]
	}
	if at := strings.IndexFunc(c.Metric, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }); at >= 0 {
		return wrong(c.text, last+1+at, "the name of a metric has letters, digits and _ alone")
	}
	return nil
}

// readNumber reads what is behind the operator: number, unit and baseline.
func (c *Condition) readNumber(from int) (err error) {
	if strings.HasPrefix(c.text[from:], "=") {
		return wrong(c.text, from, "an interval is beyond a number or not, so there is no %s=", c.text[from-1:from])
	}
	value, baseline, ratio := strings.Cut(c.text[from:], "@")
	digits := len(value) - len(strings.TrimLeft(value, "+-.0123456789"))
	if c.Number, err = strconv.ParseFloat(value[:digits], 64); err != nil {
		return wrong(c.text, from, "%q is no number", value)
	}
	c.Unit = strings.TrimSpace(value[digits:])
	kind, known := units()[c.Unit]
	switch {
	case c.Unit != "" && !known:
		return wrong(c.text, from+digits, "unknown unit %q; choose from %s", c.Unit, strings.Join(slices.Sorted(maps.Keys(units())), ", "))
	case !ratio:
		return nil
	case baseline == "":
		return wrong(c.text, len(c.text), "there is no baseline behind the @")
	case c.Number <= 0:
		return wrong(c.text, from, "a ratio is above 0")
	case c.Unit != "" && kind.kind != "share":
		return wrong(c.text, from+digits, "a ratio has no unit but %%")
	}
	c.Baseline, c.Number, c.Unit = baseline, c.Number*scale(c.Unit), ""
	return nil
}

// unit is a kind of figure, and how many of its base unit one is.
type unit struct {
	kind string
	size float64
}

// units are those that a number may have.
func units() map[string]unit {
	return map[string]unit{
		"bit/s": {"rate", 1}, "kbit/s": {"rate", 1e3}, "Mbit/s": {"rate", 1e6}, "Gbit/s": {"rate", 1e9},
		"ns": {"time", 1e-9}, "us": {"time", 1e-6}, "µs": {"time", 1e-6}, "ms": {"time", 1e-3}, "s": {"time", 1},
		"pps": {"packets", 1}, "kpps": {"packets", 1e3}, "Mpps": {"packets", 1e6},
		"share": {"share", 1}, "×": {"share", 1}, "x": {"share", 1}, "%": {"share", 1e-2}, "ppm": {"share", 1e-6},
		"1/s": {"events", 1}, "bytes": {"size", 1}, "kB": {"size", 1e3}, "count": {"count", 1}, "CPU s/GB": {"cost", 1},
	}
}

// scale is the size of a unit, 1 of none.
func scale(name string) float64 {
	if u, ok := units()[name]; ok {
		return u.size
	}
	return 1
}

// in is a number in another unit; false where they are of different kinds.
func in(number float64, from, to string) (float64, bool) {
	if from == "" || from == to {
		return number, true
	}
	a, okA := units()[from]
	b, okB := units()[to]
	return number * a.size / b.size, okA && okB && a.kind == b.kind
}
