package experiments

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/selvage/selvage/lab/compare"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/export"
	"github.com/selvage/selvage/lab/gate"
	"github.com/selvage/selvage/lab/result"
)

// load reads the result of a run, which is named by the file or by the directory that holds it as
// result.json, and completes it.
func load(run string) (name string, r result.Result, e experiment.Experiment, err error) {
	name = run
	if info, err := os.Stat(run); err == nil && info.IsDir() {
		name = filepath.Join(run, experiment.ResultFile)
	}
	if r, err = result.ReadFile(name); err != nil {
		return name, r, e, err
	}
	if e, err = madeBy(r); err != nil {
		// What has rows can be read all the same.
		if len(r.Summary) > 0 {
			return name, r, experiment.Experiment{}, nil
		}
		return name, r, e, fmt.Errorf("%s: %w", name, err)
	}
	experiment.Conclude(e, &r)
	return name, r, e, nil
}

// Compare is the command line that compares two runs.
type Compare struct {
	Old         string           `arg:"" help:"The run before: its directory or its result.json."`
	New         string           `arg:"" help:"The run that is compared with it."`
	Allow       []string         `placeholder:"FIELD" help:"What may differ: kernel, cpu, cores, memory, adapters, versions, offloads, mtu, sysctls, parameters, targets, or one below such as versions.selvage or, between places, adapters.server.eth0. Across machines (cpu, cores, memory) only ratios to baselines are compared."`
	Absolute    bool             `help:"Compare figures also where there are ratios to a baseline of the same run."`
	Output      string           `short:"o" enum:"table,json" default:"table" help:"Print a table or JSON: ${enum}."`
	FailIf      []gate.Condition `sep:"none" placeholder:"CONDITION" help:"Exit with status 3 if the whole interval of a ratio to the old run is beyond a number, such as selvage/tcp_throughput<0.95@old. May be repeated."`
	FailIfWorse bool             `help:"Exit with status 3 if any row is worse."`
}

// Run compares, prints, and evaluates the conditions.
func (c *Compare) Run(console *experiment.Console) error {
	oldName, old, _, err := load(c.Old)
	if err != nil {
		return err
	}
	newName, latest, e, err := load(c.New)
	if err != nil {
		return err
	}
	report, err := compare.Results(old, latest, compare.Options{Allow: c.Allow, Absolute: c.Absolute, Metric: e.Metric})
	if err != nil {
		return err
	}
	report.Old.Name, report.New.Name = oldName, newName
	if c.Output == "json" {
		err = printJSON(console.Out, report)
	} else {
		err = report.Table(console.Out)
	}
	if err != nil {
		return err
	}
	return c.evaluate(console.Err, report)
}

func (c *Compare) evaluate(log io.Writer, report compare.Report) error {
	outcomes, err := gate.EvaluateAll(c.FailIf, report.Evaluate)
	for _, o := range outcomes {
		if o.Outcome != gate.Fails {
			fmt.Fprintln(log, o)
		}
	}
	if worse := report.Of(compare.Worse); err == nil && c.FailIfWorse && len(worse) > 0 {
		return worseError(len(worse))
	}
	return err
}

// worseError is how many rows are worse.
type worseError int

// Error counts them.
func (e worseError) Error() string { return fmt.Sprintf("--fail-if-worse: %d rows are worse", int(e)) }

// ExitCode is that of a condition that holds.
func (worseError) ExitCode() int { return gate.ExitStatus }

func printJSON(w io.Writer, v any) error {
	out, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if _, err := w.Write(append(out, '\n')); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// Check is the command line that evaluates conditions on a run.
type Check struct {
	Result string           `arg:"" name:"run" help:"The run: its directory or its result.json."`
	FailIf []gate.Condition `required:"" sep:"none" placeholder:"CONDITION" help:"Exit with status 3 if the whole interval is beyond a number: TARGET/[CASE/]METRIC<NUMBER or >NUMBER, with @BASELINE of a ratio, such as selvage/tcp_throughput<0.95@plain. May be repeated."`
}

// Run evaluates them, and says of each row what came of it.
func (c *Check) Run(console *experiment.Console) error {
	_, r, _, err := load(c.Result)
	if err != nil {
		return err
	}
	return experiment.Gate(console.Out, r, c.FailIf)
}

// CSV is the command line that writes runs as CSV.
type CSV struct {
	Runs []string     `arg:"" name:"run" help:"Runs: their directories or their result.json; all go into one table."`
	Of   export.Table `enum:"summary,samples,series" default:"summary" help:"What a line is: ${enum}. summary has the rows, samples the raw figures, series the values within samples."`
}

// Run writes one table.
func (c *CSV) Run(console *experiment.Console) error {
	results := make([]result.Result, len(c.Runs))
	for i, run := range c.Runs {
		_, r, _, err := load(run)
		if err != nil {
			return err
		}
		results[i] = r
	}
	return export.CSV(console.Out, c.Of, results...)
}

// OpenMetrics is the command line that writes a run for Prometheus.
type OpenMetrics struct {
	Result     string `arg:"" name:"run" help:"The run: its directory or its result.json."`
	Output     string `short:"o" placeholder:"FILE" default:"-" help:"Output file, replaced at once; standard output by default."`
	Timestamps bool   `help:"Give each figure the time of the run, for promtool tsdb create-blocks-from openmetrics. A Pushgateway and the textfile collector of node_exporter refuse them."`
}

// Run writes the file.
func (c *OpenMetrics) Run(console *experiment.Console) error {
	_, r, _, err := load(c.Result)
	if err != nil {
		return err
	}
	return writeTo(console, c.Output, func(w io.Writer) error { return export.OpenMetrics(w, r, c.Timestamps) })
}

// writeTo writes a file, whole or not at all, or standard output for "-".
func writeTo(console *experiment.Console, name string, write func(io.Writer) error) error {
	if name == "-" {
		return write(console.Out)
	}
	if err := experiment.WriteFile(name, write); err != nil {
		return err
	}
	fmt.Fprintln(console.Err, name)
	return nil
}
