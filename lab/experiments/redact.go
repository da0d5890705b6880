package experiments

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/redact"
	"github.com/selvage/selvage/lab/result"
)

// Redact is the command line that writes runs without names of hosts, networks and people.
type Redact struct {
	Runs   []string `arg:"" name:"run" help:"Runs: their directories or their result.json. One original has one pseudonym in all of them."`
	Output string   `short:"o" required:"" placeholder:"DIR" help:"Directory in which each run gets its own."`
	Name   []string `placeholder:"NAME" help:"Further names to replace, wherever they stand as words."`
	Key    string   `placeholder:"FILE" help:"File for the pseudonyms and what they stand for. Keep it."`
}

// Run writes the results and their reports.
func (c *Redact) Run(console *experiment.Console) error {
	r := redact.New(c.Name...)
	for _, run := range c.Runs {
		if err := c.write(console, r, run); err != nil {
			return err
		}
	}
	if c.Key == "" {
		return nil
	}
	return writeTo(console, c.Key, func(w io.Writer) error { return printJSON(w, r.Originals()) })
}

func (c *Redact) write(console *experiment.Console, r *redact.Redactor, run string) error {
	name, original, e, err := load(run)
	if err != nil {
		return err
	}
	if name == filepath.Join(c.Output, experiment.DirName(original), experiment.ResultFile) {
		return fmt.Errorf("--output %s: there the run itself would be overwritten", c.Output)
	}
	redacted := r.Result(original)
	dir := filepath.Join(c.Output, experiment.DirName(original))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	if e.Page != nil {
		experiment.Conclude(e, &redacted)
		if err := writeTo(console, filepath.Join(dir, experiment.ReportFile), func(w io.Writer) error { return e.Page(w, redacted) }); err != nil {
			return err
		}
	}
	return writeTo(console, filepath.Join(dir, experiment.ResultFile), func(w io.Writer) error { return result.Write(w, redacted) })
}
