// Command benchdiff compares Go benchmarks of two builds that ran by turns: benchdiff OLD NEW,
// where each file holds the output of several runs, the n-th of both being neighbours in time.
// For each figure per packet it says better, worse or no difference, with the paired ratio and
// its interval (lab/stats), and how small a change would have been found.
//
// It is for make bench-against. For runs that did not take turns use benchstat.
package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "benchdiff:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: benchdiff OLD NEW")
	}
	before, _, err := read(args[0])
	if err != nil {
		return err
	}
	after, order, err := read(args[1])
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%-52s %9s %9s %6s  %-14s %3s\n", "stage benchmarks, ns", "old", "new", "ratio", "interval", "n")
	compared := 0
	for _, f := range order {
		if line, ok := compare(f, before[f], after[f]); ok {
			fmt.Fprintln(out, line)
			compared++
		}
	}
	if compared == 0 {
		return fmt.Errorf("%s and %s have no benchmark in common", args[0], args[1])
	}
	return nil
}

// figure is a unit of a benchmark.
type figure struct{ name, unit string }

// read returns the values of a file by run, and the figures in their order.
func read(path string) (map[figure][]float64, []figure, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	values := map[figure][]float64{}
	var order []figure
	cores := regexp.MustCompile(`-\d+$`) // what go test appends to names: GOMAXPROCS
	reader := benchfmt.NewReader(f, path)
	for reader.Scan() {
		switch record := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, nil, record
		case *benchfmt.Result:
			for _, v := range record.Values {
				key := figure{cores.ReplaceAllString(string(record.Name), ""), v.OrigUnit}
				value := v.OrigValue
				if v.OrigUnit == "" {
					key.unit, value = v.Unit, v.Value
				}
				if !strings.HasPrefix(key.unit, "ns/") || value == 0 {
					continue
				}
				if values[key] == nil {
					order = append(order, key)
				}
				values[key] = append(values[key], value)
			}
		}
	}
	return values, order, reader.Err()
}

// compare is a line on a figure that both have in as many runs.
func compare(f figure, before, after []float64) (string, bool) {
	if len(before) == 0 || len(before) != len(after) {
		return "", false
	}
	logs := make([]float64, len(before))
	for i := range before {
		if !(before[i] > 0) || !(after[i] > 0) {
			return "", false // a difference of two scenarios that noise has turned round
		}
		logs[i] = math.Log(after[i] / before[i])
	}
	var row result.Row
	stats.Ratios(&row, logs)
	words := stats.ChangeOf(row, false).String()
	switch {
	case len(logs) < stats.LeastPairs:
		words = fmt.Sprintf("no verdict: fewer than %d runs", stats.LeastPairs)
	case !row.Distinguishable:
		words += fmt.Sprintf(" above %.1f %%", 100*row.SmallestEffect)
	}
	name := f.name + " " + strings.TrimPrefix(f.unit, "ns/")
	return fmt.Sprintf("%-52s %9s %9s %6.3f  [%.3f, %.3f] %3d  %s", name, stats.Figure(median(before)), stats.Figure(median(after)),
		row.Ratio, row.RatioLo, row.RatioHi, len(logs), words), true
}

func median(xs []float64) float64 { return stats.Median(xs).Median }
