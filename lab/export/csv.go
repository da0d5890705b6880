// Package export writes results for other tools: CSV for spreadsheets and data frames, and
// OpenMetrics for Prometheus.
//
// Its one invariant: figures are those of the result, and columns have the names that they have in
// its JSON document. It computes nothing. Do not use it for people; that is lab/chart.
package export

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/result"
)

// Table is what of results a CSV file has, one line for each.
type Table string

// The tables, in long format: a line has one figure with all that it belongs to.
const (
	Summary Table = "summary" // rows, each with interval and ratio
	Samples Table = "samples" // raw figures: one metric of one sample; a failed sample has its error
	Series  Table = "series"  // raw figures within samples: one value of one series
)

// CSV writes a table of one result or of several, with one head. Lines begin with experiment and
// started (RFC 3339), so that those of several runs stay apart, and end with what they were measured on.
func CSV(w io.Writer, table Table, results ...result.Result) error {
	out := csv.NewWriter(w)
	head, lines := summaryHead(), summaryLines
	switch table {
	case Samples:
		head, lines = append(sampleHead(), "metric", "value", "error"), sampleLines
	case Series:
		head, lines = append(sampleHead(), "series", "index", "value"), seriesLines
	}
	if err := out.Write(slices.Concat([]string{"experiment", "started"}, head, []string{"selvage", "kernel", "cpu", "cores", "places"})); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	for _, r := range results {
		run := []string{r.Experiment, r.Started.Format(time.RFC3339Nano)}
		on := []string{r.Environment.Versions["selvage"], r.Environment.Kernel, r.Environment.CPU, strconv.Itoa(r.Environment.Cores), places(r)}
		for line := range lines(r) {
			cells := slices.Concat(run, line, on)
			for i, c := range cells {
				cells[i] = literal(c)
			}
			if err := out.Write(cells); err != nil {
				return fmt.Errorf("write CSV: %w", err)
			}
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

// literal has a spreadsheet take a text for a text: one that would be a formula begins with an apostrophe.
func literal(cell string) string {
	if strings.ContainsAny(cell[:min(1, len(cell))], "=+-@") {
		if _, err := strconv.ParseFloat(cell, 64); err != nil {
			return "'" + cell
		}
	}
	return cell
}

// places are those of a run between places, each with its hardware.
func places(r result.Result) string {
	var all []string
	for _, p := range r.Places {
		all = append(all, p.Role+": "+result.Hardware(r, p))
	}
	return strings.Join(all, " | ")
}

// summaryHead are the names of a row's fields.
func summaryHead() (head []string) {
	row := reflect.TypeFor[result.Row]()
	for i := range row.NumField() {
		name, _, _ := strings.Cut(row.Field(i).Tag.Get("json"), ",")
		head = append(head, name)
	}
	return head
}

// summaryLines yields the fields of each row, in their order.
func summaryLines(r result.Result) func(func([]string) bool) {
	return func(yield func([]string) bool) {
		for _, row := range r.Summary {
			v := reflect.ValueOf(row)
			line := make([]string, v.NumField())
			for i := range line {
				line[i] = text(v.Field(i).Interface())
			}
			if !yield(line) {
				return
			}
		}
	}
}

// text writes a field as JSON does, without quotes.
func text(v any) string {
	if f, ok := v.(float64); ok {
		return number(f)
	}
	return fmt.Sprint(v)
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

func sampleHead() []string { return []string{"target", "case", "round", "start_s", "duration_s"} }

func ofSample(s result.Sample, more ...string) []string {
	return append([]string{s.Target, s.Case, strconv.Itoa(s.Round), number(s.Start), number(s.Duration)}, more...)
}

func sampleLines(r result.Result) func(func([]string) bool) {
	return func(yield func([]string) bool) {
		for _, s := range r.Samples {
			if len(s.Metrics) == 0 && s.Error != "" && !yield(ofSample(s, "", "", s.Error)) {
				return
			}
			for _, name := range slices.Sorted(maps.Keys(s.Metrics)) {
				if !yield(ofSample(s, name, number(s.Metrics[name]), s.Error)) {
					return
				}
			}
		}
	}
}

func seriesLines(r result.Result) func(func([]string) bool) {
	return func(yield func([]string) bool) {
		for _, s := range r.Samples {
			for _, name := range slices.Sorted(maps.Keys(s.Series)) {
				for i, v := range s.Series[name] {
					if !yield(ofSample(s, name, strconv.Itoa(i), number(v))) {
						return
					}
				}
			}
		}
	}
}
