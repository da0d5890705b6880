package experiments

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/topo"
)

// Report is the command line that draws a result again.
type Report struct {
	Result string `arg:"" name:"result.json" help:"Result of an experiment."`
	Output string `short:"o" placeholder:"FILE" help:"Output file, - for standard output; report.html beside the result by default."`
}

// Run computes summary and verdict again from the samples and writes the report.
// The result itself stays as it is.
func (c *Report) Run(console *experiment.Console) error {
	r, err := result.ReadFile(c.Result)
	if err != nil {
		return err
	}
	e, err := madeBy(r)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Result, err)
	}
	experiment.Conclude(e, &r)
	if c.Output == "-" {
		return e.Page(console.Out, r)
	}
	name := c.Output
	if name == "" {
		name = filepath.Join(filepath.Dir(c.Result), experiment.ReportFile)
	}
	if err := experiment.WriteFile(name, func(w io.Writer) error { return e.Page(w, r) }); err != nil {
		return err
	}
	fmt.Fprintln(console.Err, name)
	return nil
}

// Restore is the command line that cleans up after killed labs.
type Restore struct{}

// Run removes what labs left behind whose process is dead, and lists them.
func (*Restore) Run(ctx context.Context, console *experiment.Console) error {
	if os.Geteuid() != 0 {
		return errors.New("removing network namespaces needs root: run it with sudo")
	}
	names, failed := topo.RestoreOffloads(ctx) // first, while what labs made is still there
	for _, name := range names {
		fmt.Fprintln(console.Out, "set the offloads of "+name+" as they were")
	}
	ids, err := topo.Restore(ctx)
	for _, id := range ids {
		fmt.Fprintln(console.Out, "removed lab "+id)
	}
	if err = errors.Join(failed, err); len(ids)+len(names) == 0 && err == nil {
		fmt.Fprintln(console.Out, "nothing to remove: no killed lab left anything behind")
	}
	return err
}
