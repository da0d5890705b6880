package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/printable"
	"github.com/selvage/selvage/internal/program"
	"github.com/selvage/selvage/internal/support"
)

type supportCmd struct {
	runtimeDir
	PinRoot   string   `hidden:"" env:"SELVAGE_PIN_ROOT" placeholder:"DIR" help:"Directory in a BPF file system where edges pin their data paths."`
	StateDir  string   `hidden:"" default:"${state_dir}" env:"SELVAGE_STATE_DIR" placeholder:"DIR" help:"Directory of the revisions of edges."`
	Names     []string `arg:"" optional:"" name:"name" help:"Names of edges; without any, all that run here or have left a data path."`
	Output    string   `short:"o" placeholder:"FILE" help:"File to write, which must not exist yet; - is standard output. By default selvage-support-TIME.tar.gz here."`
	Anonymize bool     `help:"Replace addresses, MAC addresses and the names of host and user by pseudonyms, the same ones everywhere."`
	Originals string   `placeholder:"FILE" help:"With --anonymize, write what the pseudonyms stand for to this file, for yourself."`
}

// Help says what kong's flags do not.
func (*supportCmd) Help() string {
	return "The archive has the configuration and its history, status, tables in brief, counters, events and logs of edges, what the doctor finds, and facts of host and kernel: " +
		"summary.txt first, manifest.json with what could not be had. Passwords, keys and tokens are removed. It takes at most 30 s, changes nothing, walks no large table, " +
		"and needs no edge that answers. Look through it before you give it away."
}

// Run collects, writes the archive and says where it is.
func (c *supportCmd) Run(ctx context.Context, s *streams) error {
	if c.Originals != "" && !c.Anonymize {
		return usageError{fmt.Errorf("--originals is of --anonymize: give both")}
	}
	edges, err := c.edges()
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name of this host: %w", err)
	}
	a, err := support.Collect(ctx, support.Options{
		Edges: edges, RuntimeDir: c.RuntimeDir, StateDir: c.StateDir, PinRoot: datapath.PinRoot(c.PinRoot), Version: program.Version(), Host: host,
		Anonymize: c.Anonymize, Users: []string{os.Getenv("SUDO_USER")},
	})
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if c.Originals != "" {
		if err := a.SaveOriginals(c.Originals); err != nil {
			return err
		}
	}
	if c.Output == "-" {
		return a.Write(printable.Raw(s.out))
	}
	path := c.Output
	if path == "" {
		path = a.Name()
	}
	if err := a.Save(path); err != nil {
		return err
	}
	missing := 0
	for _, item := range a.Items() {
		if item.Error != "" {
			missing++
		}
	}
	fmt.Fprintf(s.out, "%s: %s, %d could not be had; read summary.txt first\n", path, plural(len(a.Items()), "item"), missing)
	return nil
}

// edges are those that were named, or all.
func (c *supportCmd) edges() (list []support.Edge, err error) {
	t := target{runtimeDir: c.runtimeDir, PinRoot: c.PinRoot}
	running, err := t.running()
	if err != nil {
		return nil, err
	}
	names := c.Names
	if len(names) == 0 {
		if names, err = t.known(); err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		one := support.Edge{Name: name, Running: slices.Contains(running, name)}
		t.Edge = name
		if gone, err := t.abandoned(); !one.Running && err == nil {
			one.Gone = errors.Join(gone...)
		}
		list = append(list, one)
	}
	return list, nil
}
