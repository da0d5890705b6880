// Command selvage-kube gives pods of a cluster fixed addresses outside: its controller runs once a cluster, its agent beside
// the edge of each node.
//
// Answers go to standard output, everything else to standard error, one line for each problem, and the exit status is 0
// for success, 1 for a failure and 2 for wrong usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/selvage/selvage/internal/program"
	"github.com/selvage/selvage/kube/internal/cni"
	"github.com/selvage/selvage/kube/internal/hold"
)

// Exit statuses.
const (
	exitOK = iota
	exitFailure
	exitUsage
)

type commands struct {
	Controller controllerCmd `cmd:"" help:"Give out addresses and VNIs, and tell in status what became of gateways and policies."`
	Agent      agentCmd      `cmd:"" help:"Have the edge of this node, and what leads its pods to it, be what the API server says."`
	Install    installCmd    `cmd:"" help:"Have new pods of this node wait for their policies: make this program a CNI plugin."`
	Remove     removeCmd     `cmd:"" help:"Take away what leads pods of this node to its edge, and the CNI plugin."`
	Import     importCmd     `cmd:"" help:"Write other projects' egress objects as those of Selvage."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
}

// streams is where commands read and write.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// usageError is a mistake of the caller rather than a failure.
type usageError struct{ error }

// Unwrap gives the mistake itself.
func (e usageError) Unwrap() error { return e.error }

func main() {
	if isPlugin(os.Args[0]) {
		cni.Main()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], &streams{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(status)
}

// run runs a command and returns the exit status.
func run(ctx context.Context, args []string, s *streams) int {
	slog.SetDefault(slog.New(slog.NewTextHandler(s.err, nil)))
	ctrl.SetLogger(logr.FromSlogHandler(slog.Default().Handler()))
	parser, err := kong.New(&commands{},
		kong.Name("selvage-kube"),
		kong.Description("Egress addresses for pods of a cluster."),
		kong.Writers(s.out, s.err),
		kong.Vars{"socket": hold.Socket, "state": hold.State},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(s),
	)
	if err == nil {
		if len(args) == 0 {
			args = []string{"--help"}
		}
		var command *kong.Context
		if command, err = parser.Parse(args); err == nil {
			err = command.Run()
		} else {
			err = usageError{err}
		}
	}
	if err == nil {
		return exitOK
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintf(s.err, "selvage-kube: %s\n", line)
	}
	if errors.As(err, new(usageError)) {
		return exitUsage
	}
	return exitFailure
}

type versionCmd struct{}

// Run prints it.
func (versionCmd) Run(s *streams) error {
	_, err := fmt.Fprintln(s.out, program.Version())
	return err
}
