package experiment

import (
	"io"
	"time"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Experiment is one experiment: its command, what it computes from samples, and how it shows
// that. A package below this one has each, and lab/experiments lists them all.
type Experiment struct {
	// Name is on the command line, in the results, and of the golden files.
	Name string
	// Command returns a pointer to a struct whose one field is the command, as kong reads it. The
	// command has a method Run(context.Context, *Console) error, which measures. It is nil where
	// another experiment's command runs this one.
	Command func() any
	// Summarise computes the rows of a result from its samples.
	Summarise func(result.Result) []result.Row
	// Metrics are the figures of samples that rows have, a case "" standing for all: titles, units
	// and which way is better.
	Metrics func() []stats.Metric
	// Verdict answers the experiment's question, with findings that name cause, evidence and advice.
	Verdict func(result.Result) result.Verdict
	// Page and Table write a complete result: as one self-contained page, and for a terminal.
	Page, Table func(io.Writer, result.Result) error
}

// Metric is that of a row whose figures samples have.
func (e Experiment) Metric(caseName, name string) (m stats.Metric, ok bool) {
	if e.Metrics == nil {
		return m, false
	}
	for _, m := range e.Metrics() {
		if m.Name == name && (m.Case == "" || m.Case == caseName) {
			return m, true
		}
	}
	return m, false
}

// Complete fills summary and verdict where a run has left them out.
func (e Experiment) Complete(r result.Result) result.Result {
	if len(r.Summary) == 0 {
		r.Summary = e.Summarise(r)
	}
	if r.Verdict.Headline == "" {
		r.Verdict = e.Verdict(r)
	}
	return r
}

// WritePage writes the report of r.
func (e Experiment) WritePage(w io.Writer, r result.Result) error { return e.Page(w, e.Complete(r)) }

// WriteTable writes the summary of r for a terminal.
func (e Experiment) WriteTable(w io.Writer, r result.Result) error {
	return e.Table(w, e.Complete(r))
}

// Console is where a command writes and what it is told of the program.
type Console struct {
	Out, Err io.Writer
	// Args is the command line without the program's name, for the record.
	Args []string
	// Version is Selvage's own.
	Version string
	// Password asks the user for one, for places that need it.
	Password func(prompt string) (string, error)
}

// Blank is the result of a run that began then, before anything was measured.
func (c *Console) Blank(name string, began time.Time, p result.Parameters) result.Result {
	return result.Result{
		Schema: result.Schema, Experiment: name, Started: began.UTC(), Command: append([]string{"selvage"}, c.Args...),
		Parameters: p, Samples: []result.Sample{},
	}
}

// NoteBinary writes down the program that runs the edges, "" where it is this one.
func NoteBinary(p result.Parameters, file string) {
	if file != "" {
		p["selvage_binary"] = result.Words(file)
	}
}
