// Package cli is the command line of selvage-lab.
//
// Its one invariant: answers go to standard output, everything else to standard error, and the exit
// status is 0 for success, 1 for a failure, 2 for wrong usage, and a command's own where it runs
// another. It only reads flags, calls one function of another package and prints; behaviour belongs
// there.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/selvage/selvage/internal/completion"
	"github.com/selvage/selvage/internal/printable"
	"github.com/selvage/selvage/internal/program"
	"github.com/selvage/selvage/internal/share"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiments"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/preflight"
)

// Exit statuses.
const (
	exitOK = iota
	exitFailure
	exitUsage
)

// streams is where commands write.
type streams struct{ out, err io.Writer }

// Main runs the command in argv, which begins with the program's name or with program.LabCommand,
// and returns the exit status. SIGINT and SIGTERM end a command that asks for a context in an orderly way, however
// often they come: a cleanup is not cut short. Such a command goes on when its output loses its reader (SIGPIPE), as its
// results matter more. Signals end any other command at once. For --help, and as an instrument that a lab started, it exits
// the process itself.
func Main(argv []string, stdout, stderr io.Writer) int {
	name, args := program.Lab, argv[1:]
	if argv[0] == program.LabCommand {
		name = program.LabCommand
	}
	measure.RunInstrument(args)
	stop := func() {}
	defer func() { stop() }()
	catch := func() (ctx context.Context) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // not Ignore, which programs that it starts would inherit
		ctx, stop = signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		return ctx
	}
	s := &streams{out: printable.NewWriter(stdout), err: printable.NewWriter(stderr)}
	err := run(catch, name, args, s)
	printError(s.err, name, err)
	return status(err)
}

// run runs a command. Signals are caught from when it asks for a context.
func run(catch func() context.Context, name string, args []string, s *streams) error {
	// A result's command is what selvage takes, however this program was started.
	console := &experiment.Console{Out: s.out, Err: s.err, Args: append([]string{"lab"}, args...), Version: program.Version(), Password: s.passwords()}
	parser, err := kong.New(&commands{Commands: experiments.NewCommands()},
		kong.Name(name),
		kong.Description("Measures the performance of overlays in a lab."),
		kong.Writers(s.out, s.err),
		kong.Vars{"version": program.Line(program.Lab)},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.BindSingletonProvider(catch),
		kong.Bind(s, console),
		program.WholeNumbers(),
	)
	if err != nil {
		return fmt.Errorf("command line: %w", err)
	}
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == completion.Command:
		return completion.Print(context.Background(), parser.Model, args[1:], nil, s.out)
	case args[0] == share.Command && len(args) == 2:
		return writeShared(args[1], parser.Model)
	}
	command, err := parser.Parse(args)
	if err != nil {
		return err
	}
	return command.Run()
}

// printError writes each line of err behind the program's name.
func printError(w io.Writer, name string, err error) {
	if err == nil {
		return
	}
	var parse *kong.ParseError
	text := err.Error()
	switch {
	case errors.As(err, &parse):
		text += "; see " + helpFor(parse.Context, name)
	case errors.Is(err, context.Canceled):
		text = "interrupted"
	}
	began, _, _ := strings.Cut(name, " ")
	for line := range strings.Lines(text) {
		fmt.Fprintln(w, began+": "+strings.TrimRight(line, "\n"))
	}
}

// helpFor is the command line that explains what was being typed.
func helpFor(c *kong.Context, name string) string {
	if c == nil || c.Selected() == nil {
		return name + " --help"
	}
	return c.Selected().FullPath() + " --help"
}

func status(err error) int {
	var (
		parse *kong.ParseError
		tool  *exec.ExitError
		coder kong.ExitCoder
		usage preflight.UsageError
	)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &parse), errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &tool): // how a tool of the lab ended says nothing of how this program did
		return exitFailure
	case errors.As(err, &coder):
		return coder.ExitCode()
	}
	return exitFailure
}
