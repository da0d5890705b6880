package experiment

import (
	"fmt"
	"io"

	"github.com/selvage/selvage/lab/export"
	"github.com/selvage/selvage/lab/gate"
	"github.com/selvage/selvage/lab/result"
)

// Destination is where the result of a run goes, and what of it fails the command: the flags that
// all experiments have.
type Destination struct {
	Output  string           `short:"o" enum:"table,json,csv" default:"table" help:"Print a table, or the result as JSON or its rows as CSV: ${enum}."`
	Results string           `placeholder:"DIR" default:"results" help:"Directory in which each run makes its own; ${default}."`
	FailIf  []gate.Condition `sep:"none" placeholder:"CONDITION" help:"Exit with status 3 if the whole interval is beyond a number: TARGET/[CASE/]METRIC<NUMBER or >NUMBER, with @BASELINE of a ratio, such as selvage/tcp_throughput<0.95@plain. May be repeated."`
}

// printTo writes a complete result as to says. (A method would be one of each command.)
func printTo(w io.Writer, to Destination, e Experiment, r result.Result) error {
	switch to.Output {
	case "json":
		return result.Write(w, r)
	case "csv":
		return export.CSV(w, export.Summary, r)
	}
	return e.Table(w, r)
}

// Gate evaluates conditions on a complete result, and says on log what came of those that do not
// fail; of an interrupted run there is no answer.
func Gate(log io.Writer, r result.Result, conditions []gate.Condition) error {
	if len(conditions) == 0 {
		return nil
	}
	if where := r.Parameters.Text(interrupted); where != "" {
		return fmt.Errorf("--fail-if: the run was interrupted in %s, so its conditions are not evaluated", where)
	}
	outcomes, err := gate.EvaluateAll(conditions, func(c gate.Condition) ([]gate.Outcome, error) { return gate.Evaluate(r, c) })
	for _, o := range outcomes {
		if o.Outcome != gate.Fails {
			fmt.Fprintln(log, o)
		}
	}
	return err
}
