// Package commandline is what the programs' command lines have in common.
//
// Answers go to standard output, everything else to standard error, one line for each problem, and the exit status is 0 for success,
// 1 for a failure, 2 for wrong usage and 3 for what is not done because of what else runs.
package commandline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/selvage/selvage/internal/printable"
	"github.com/selvage/selvage/internal/program"
)

// Exit statuses.
const (
	ExitOK = iota
	ExitFailure
	ExitUsage
	ExitRefused
)

// Streams is where commands read and write.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// UsageError is a mistake of the caller rather than a failure.
type UsageError struct{ Err error }

// Error implements error.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap gives the mistake itself.
func (e UsageError) Unwrap() error { return e.Err }

// RefusedError is that something is not done because of what else runs.
type RefusedError struct{ Err error }

// Error implements error.
func (e RefusedError) Error() string { return e.Err.Error() }

// Unwrap gives the reason itself.
func (e RefusedError) Unwrap() error { return e.Err }

// ErrPrinted ends, as a failure, a command whose answer has said what is wrong.
var ErrPrinted = errors.New("the answer says what is wrong")

// Program is a command line.
type Program struct {
	Name, Description string
	Vars              kong.Vars
}

// Main runs the command of the process's arguments, and exits.
func (p Program) Main(commands any) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // what was made in a cluster is removed, whoever reads the progress
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	status := p.Run(ctx, commands, os.Args[1:], &Streams{os.Stdin, printable.NewWriter(os.Stdout), printable.NewWriter(os.Stderr)})
	stop()
	os.Exit(status)
}

// Run runs a command and returns the exit status. Commands may ask for a context and for *Streams.
func (p Program) Run(ctx context.Context, commands any, args []string, s *Streams) int {
	err := p.run(ctx, commands, args, s)
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, ErrPrinted):
		return ExitFailure
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintf(s.Err, "%s: %s\n", p.Name, line)
	}
	switch {
	case errors.As(err, new(UsageError)):
		return ExitUsage
	case errors.As(err, new(RefusedError)):
		return ExitRefused
	}
	return ExitFailure
}

func (p Program) run(ctx context.Context, commands any, args []string, s *Streams) error {
	parser, err := kong.New(commands,
		kong.Name(p.Name),
		kong.Description(p.Description),
		kong.Writers(s.Out, s.Err),
		p.Vars, kong.Vars{"version": program.Line(p.Name)},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(s),
	)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if err != nil {
		return UsageError{err}
	}
	return command.Run()
}

// Version is the flag that prints it, of all commands.
type Version struct {
	ShowVersion kong.VersionFlag `name:"version" help:"Print the version of this program."`
}
