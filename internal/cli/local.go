package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/edge"
	"github.com/selvage/selvage/internal/logging"
	"github.com/selvage/selvage/internal/printable"
	"github.com/selvage/selvage/internal/program"
	"github.com/selvage/selvage/internal/revision"
	"github.com/selvage/selvage/internal/supervise"
)

// runtimeDir is where edges put their sockets.
type runtimeDir struct {
	RuntimeDir string `help:"Directory of the edges' sockets." default:"${runtime_dir}" env:"SELVAGE_RUNTIME_DIR" placeholder:"DIR"`
}

type edgeCmd struct {
	runtimeDir
	Config       string `short:"c" required:"" placeholder:"FILE" help:"Configuration file."`
	Name         string `placeholder:"NAME" help:"Refuse to run when the configuration is that of an edge with another name."`
	APIGroup     string `env:"SELVAGE_API_GROUP" placeholder:"GROUP" help:"Group whose members may ask the edge, and change nothing."`
	StateDir     string `default:"${state_dir}" env:"SELVAGE_STATE_DIR" placeholder:"DIR" help:"Directory of what outlasts a reboot: the revisions of the configuration, and a drain."`
	PinRoot      string `env:"SELVAGE_PIN_ROOT" placeholder:"DIR" help:"Directory in a BPF file system where the edge pins its data path."`
	RemoveAtExit bool   `env:"SELVAGE_REMOVE_AT_EXIT" help:"Remove the data path when the process ends. Without it, it goes on forwarding: the next start takes it over, selvage remove removes it."`
	RemoveIf     string `name:"remove-at-exit-if" env:"SELVAGE_REMOVE_AT_EXIT_IF" placeholder:"FILE" help:"The same, if this file is there when the process ends."`

	Timing    bool   `hidden:"" env:"SELVAGE_TIMING" help:"Write down when packets pass, for selvage lab latency --breakdown."`
	LogLevel  string `enum:"debug,info,warn,error" default:"info" env:"SELVAGE_LOG_LEVEL" help:"Log lines of this level and above: ${enum}. selvage log level changes it while the edge runs."`
	LogFormat string `enum:"auto,text,json,journald" default:"auto" env:"SELVAGE_LOG_FORMAT" help:"Format of the log: ${enum}. auto is journald under systemd, whose journal standard error is, else text."`
}

// Run runs an edge until ctx ends.
func (c *edgeCmd) Run(ctx context.Context, s *streams) error {
	hangup, end := hangups() // first: nothing that follows may take long enough for a SIGHUP to kill it
	defer end()
	defer onSecondSignal(func() {
		fmt.Fprintf(s.err, "selvage: a second signal came: not waiting for an orderly end; the data path goes on, selvage remove removes it\n")
		os.Exit(exitFailure)
	})()
	level, err := logging.ParseLevel(c.LogLevel)
	if err != nil {
		return usageError{err}
	}
	path, err := filepath.Abs(c.Config)
	if err != nil {
		return fmt.Errorf("configuration %s: %w", c.Config, err)
	}
	// Once here, so that mistakes are shown with the path as it was typed.
	if _, err := config.Load(c.Config); err != nil {
		if _, none := revision.LastGood(c.StateDir, path); none != nil {
			return usageError{err}
		}
	}
	signal.Ignore(syscall.SIGPIPE) // who reads the log may go
	log, err := logging.Open(logging.Options{Out: printable.Raw(s.err), Format: logging.Format(c.LogFormat), Level: level})
	if err != nil {
		return usageError{err}
	}
	defer log.Close()
	return edge.Run(ctx, edge.RunOptions{
		Hangup:       hangup,
		ConfigPath:   path,
		RuntimeDir:   c.RuntimeDir,
		APIGroup:     c.APIGroup,
		StateDir:     c.StateDir,
		PinRoot:      c.PinRoot,
		Logger:       log.Logger,
		LostLogLines: log.Lost,
		LogLevels:    log.Levels,
		Version:      program.Version(),
		RemoveAtExit: c.RemoveAtExit, RemoveAtExitIf: c.RemoveIf,
		Timing:     c.Timing,
		Name:       c.Name,
		Supervisor: supervise.FromEnvironment(os.Getenv, os.Getpid()),
	})
}

type removeCmd struct {
	runtimeDir
	PinRoot string `env:"SELVAGE_PIN_ROOT" placeholder:"DIR" help:"Directory in a BPF file system where the edge pinned its data path."`
	Name    string `arg:"" help:"Name of the edge."`
}

// Run removes an edge that does not run, and prints what it did. It asks for a context so that no signal cuts it short.
func (c *removeCmd) Run(_ context.Context, s *streams) error {
	r, err := edge.Remove(edge.RemoveOptions{Name: c.Name, RuntimeDir: c.RuntimeDir, PinRoot: c.PinRoot, Logger: slog.New(slog.DiscardHandler)})
	for _, what := range r.Done {
		fmt.Fprintf(s.out, "%s: %s\n", c.Name, what)
	}
	for _, what := range r.Left {
		fmt.Fprintf(s.err, "%s: left behind: %s\n", c.Name, what)
	}
	return err
}

type checkCmd struct {
	Host  bool     `help:"Also look whether this host has the interfaces, addresses, routes and MTUs that the files need. Run it in the network namespace of the edge."`
	Files []string `arg:"" name:"file" help:"Configuration files."`
}

// Run prints one line for each good file and the problems of all others.
func (c *checkCmd) Run(s *streams) error {
	var (
		problems config.Errors
		unusable []error
		lacking  hostErrors
	)
	for _, file := range c.Files {
		e, err := config.Load(file)
		var list config.Errors
		switch {
		case errors.As(err, &list):
			problems = append(problems, list...)
		case err != nil:
			unusable = append(unusable, err)
		default:
			if err := vet(s, file, e); err != nil {
				unusable = append(unusable, err)
				continue
			}
			parts := []string{plural(len(e.Segments), "segment"), plural(len(e.Ports), "port")}
			if e.Firewall != nil {
				parts = append(parts, plural(len(e.Firewall.Rules), "rule"))
			}
			if e.BGP != nil {
				parts = append(parts, plural(len(e.BGP.Neighbours), "BGP neighbour"))
			}
			fmt.Fprintf(s.out, "%s: edge %s is good: %s\n", file, e.Name, strings.Join(parts, ", "))
			for _, warning := range e.Warnings {
				fmt.Fprintf(s.err, "warning: %s\n", warning)
			}
			if c.Host {
				n, err := checkHost(s, e)
				if err != nil {
					return err
				}
				lacking += n
			}
		}
	}
	if len(unusable) > 0 {
		printError(s.err, problemsOrNil(problems))
		return usageError{errors.Join(unusable...)}
	}
	if len(problems) == 0 && lacking > 0 {
		return lacking
	}
	return problemsOrNil(problems)
}

// problemsOrNil is an error only when there are any.
func problemsOrNil(problems config.Errors) error {
	if len(problems) == 0 {
		return nil
	}
	return problems
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

type schemaCmd struct{}

// Run prints the JSON Schema.
func (*schemaCmd) Run(s *streams) error {
	schema, err := config.Schema()
	if err != nil {
		return err
	}
	_, err = s.out.Write(schema)
	return err
}

type versionCmd struct{}

// Run prints the version and what it was built from and with.
func (*versionCmd) Run(s *streams) error {
	_, err := fmt.Fprintln(s.out, program.Line(program.Selvage))
	return err
}
