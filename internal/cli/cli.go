// Package cli is the command line of selvage.
//
// Its one invariant: answers go to standard output, everything else to standard
// error, one line for each problem, and the exit status is 0 for success, 1 for
// a failure and 2 for wrong usage or configuration. It only reads flags, calls
// one function of another package and prints; behaviour belongs there.
package cli

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

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/completion"
	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/edge"
	"github.com/selvage/selvage/internal/printable"
	"github.com/selvage/selvage/internal/program"
	"github.com/selvage/selvage/internal/share"
)

// Exit statuses.
const (
	exitOK = iota
	exitFailure
	exitUsage
	// exitProblems is of what is done, and shows new errors.
	exitProblems = 4
)

type commands struct {
	ShowVersion kong.VersionFlag `name:"version" help:"Print the version of this program."`

	Edge   edgeCmd   `cmd:"" help:"Run an edge in the foreground until SIGTERM. SIGHUP reloads its configuration."`
	Remove removeCmd `cmd:"" help:"Remove the data path of an edge that does not run, and undo its changes of the host."`
	Check  checkCmd  `cmd:"" help:"Check configuration files without applying them."`
	Import importCmd `cmd:"" help:"Write a configuration out of what another system has."`
	Schema schemaCmd `cmd:"" help:"Print the JSON Schema of the configuration file."`

	Apply    applyCmd    `cmd:"" group:"Change the configuration" help:"Have a running edge take a configuration file, whole or not at all."`
	Reload   reloadCmd   `cmd:"" group:"Change the configuration" help:"Have a running edge take its own configuration file again, whole or not at all."`
	Confirm  confirmCmd  `cmd:"" group:"Change the configuration" help:"Have a configuration stay that apply --confirm would take back."`
	Rollback rollbackCmd `cmd:"" group:"Change the configuration" help:"Go back to a configuration that was in force."`
	History  historyCmd  `cmd:"" group:"Change the configuration" help:"List the configurations that were in force."`
	Show     showCmd     `cmd:"" group:"Change the configuration" help:"Print the configuration in force, and what BGP added to it."`

	Port    portCmd    `cmd:"" group:"Change live objects" help:"Add, change or remove ports while the edge runs."`
	Segment segmentCmd `cmd:"" group:"Change live objects" help:"Add, change or remove segments while the edge runs."`
	Remote  remoteCmd  `cmd:"" group:"Change live objects" help:"Add, change or remove remotes while the edge runs."`
	Group   groupCmd   `cmd:"" group:"Change live objects" help:"Add, change or remove groups of the firewall while the edge runs."`
	Live    liveCmd    `cmd:"" group:"Change live objects" help:"List live objects, or change several at once."`

	Status     statusCmd     `cmd:"" group:"Ask a running edge" help:"Show whether the edge works, its problems and a summary."`
	Ports      portsCmd      `cmd:"" group:"Ask a running edge" help:"List local ports."`
	Interfaces interfacesCmd `cmd:"" group:"Ask a running edge" help:"List underlay and uplink interfaces and the hooks (XDP or tc) of their programs."`
	TEPs       tepsCmd       `cmd:"" name:"teps" group:"Ask a running edge" help:"List remote tunnel endpoints."`
	FDB        fdbCmd        `cmd:"" name:"fdb" group:"Ask a running edge" help:"List the forwarding database: MAC addresses and the ports or remotes behind which they are; or change static entries."`
	Neighbours neighboursCmd `cmd:"" aliases:"neighbors,neighbour,neighbor" group:"Ask a running edge" help:"List ARP and ND entries: IP addresses and their MAC addresses; or change static entries."`
	Routes     routesCmd     `cmd:"" group:"Ask a running edge" help:"List the routes of logical routers, or look up an address."`
	Flows      flowsCmd      `cmd:"" group:"Ask a running edge" help:"List cached flows, and why some are not on the fast path. --stats shows the flow cache itself."`
	Drops      dropsCmd      `cmd:"" group:"Ask a running edge" help:"List dropped packets by reason, or by port, segment or remote."`
	Limits     limitsCmd     `cmd:"" group:"Ask a running edge" help:"List what ports and segments use of their limits, and what was refused."`
	Rules      rulesCmd      `cmd:"" group:"Ask a running edge" help:"List firewall rules with hit counters, or check which connections a new policy would cut."`
	Sessions   sessionsCmd   `cmd:"" group:"Ask a running edge" help:"List the firewall's tracked connections (conntrack), the busiest first."`
	Egress     egressCmd     `cmd:"" group:"Ask a running edge" help:"Show egress policies and gateways, or drain this edge as a gateway."`
	NAT        natCmd        `cmd:"" name:"nat" group:"Ask a running edge" help:"List NAT sessions, the busiest first."`
	BGP        bgpCmd        `cmd:"" name:"bgp" group:"Ask a running edge" help:"Show BGP sessions, routes and MAC moves."`
	Monitor    monitorCmd    `cmd:"" group:"Ask a running edge" help:"Show dropped packets live, with reason, port, rule and headers; forwarded ones too, if asked."`
	Capture    captureCmd    `cmd:"" group:"Ask a running edge" help:"Write packets to a capture file (pcapng), as they came, after decapsulation and as they leave."`
	Top        topCmd        `cmd:"" group:"Ask a running edge" help:"Show ports, remotes, flows by rate, drops, BGP and failovers live in a terminal."`
	Metrics    metricsCmd    `cmd:"" group:"Ask a running edge" help:"Print all metrics in Prometheus text format."`
	Events     eventsCmd     `cmd:"" group:"Ask a running edge" help:"List what happened to an edge, or follow it: links, paths, BGP, failover, moves, problems, changes and who made them."`
	Log        logCmd        `cmd:"" group:"Ask a running edge" help:"Show the levels of the log, or change them until the edge restarts."`
	Trace      traceCmd      `cmd:"" group:"Ask a running edge" help:"Trace what the data path would do with a packet. Nothing is sent."`
	Prove      proveCmd      `cmd:"" group:"Ask a running edge" help:"Send test packets through the tunnels to each remote, and report which came back."`

	Lab     labCmd     `cmd:"" passthrough:"" help:"Measure the performance of overlays in a lab, by the program selvage-lab."`
	Doctor  doctorCmd  `cmd:"" help:"Find what breaks or slows overlays on this host. Changes nothing."`
	Support supportCmd `cmd:"" help:"Write one archive of all that a support engineer asks for, without secrets."`
	Version versionCmd `cmd:"" help:"Print the version of this program."`

	Completion completionCmd `cmd:"" help:"Print a shell completion script."`
}

// streams is where commands write, and what they read.
type streams struct {
	out, err    io.Writer
	in          io.Reader
	interactive bool // in is a terminal
}

// usageError is a mistake of the caller rather than a failure.
type usageError struct{ error }

// Unwrap gives the mistake itself.
func (e usageError) Unwrap() error { return e.error }

// errBroken ends a command that has already said what is wrong.
var errBroken = errors.New("broken")

// Main runs the command in args (without the program's name) and returns the
// exit status. SIGINT and SIGTERM end a command that asks for a context in an orderly way, however often they
// come: a cleanup is not cut short, but for that of an edge, whose data path goes on. They end any other one at once.
// For --help it exits the process itself, and for lab it becomes selvage-lab.
func Main(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == labCommand { // before signals are caught, as they are the lab's
		err := startLab(args[1:])
		printError(printable.NewWriter(stderr), err)
		return status(err)
	}
	stop := func() {}
	defer func() { stop() }()
	catch := func() (ctx context.Context) {
		ctx, stop = signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		return ctx
	}
	s := &streams{out: printable.NewWriter(stdout), err: printable.NewWriter(stderr), in: os.Stdin, interactive: isTerminal(os.Stdin)}
	err := run(catch, args, s)
	printError(s.err, err)
	return status(err)
}

// run runs a command. Signals are caught from when it asks for a context.
func run(catch func() context.Context, args []string, s *streams) error {
	parser, err := kong.New(&commands{},
		kong.Name("selvage"),
		kong.Description("An eBPF overlay network edge, and a lab that measures it."),
		kong.Writers(s.out, s.err),
		kong.Vars{"runtime_dir": api.DefaultRuntimeDir, "state_dir": api.DefaultStateDir, "version": program.Line(program.Selvage)},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.BindSingletonProvider(catch),
		kong.Bind(s),
		program.WholeNumbers(),
	)
	if err != nil {
		return fmt.Errorf("command line: %w", err)
	}
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == completion.Command && len(args) > 2 && args[1] == labCommand:
		return completeLab(args[2:])
	case args[0] == completion.Command:
		return completion.Print(context.Background(), parser.Model, args[1:], newKnown(), s.out)
	case args[0] == share.Command && len(args) == 2:
		return writeShared(args[1], parser.Model)
	}
	command, err := parser.Parse(args)
	if err != nil {
		return err
	}
	return command.Run()
}

// printError writes each line of err. Problems of a configuration begin with
// their position, so that editors and terminals can jump to it.
func printError(w io.Writer, err error) {
	if err == nil || errors.Is(err, errBroken) {
		return
	}
	var problems config.Errors
	var parse *kong.ParseError
	text, prefix := err.Error(), "selvage: "
	switch {
	case errors.As(err, &problems):
		text, prefix = problems.Error(), ""
	case errors.As(err, &parse):
		text += "; see " + helpFor(parse.Context)
	case errors.Is(err, context.Canceled):
		text = "interrupted"
	}
	for line := range strings.Lines(text) {
		fmt.Fprintln(w, prefix+strings.TrimRight(line, "\n"))
	}
}

// helpFor is the command line that explains what was being typed.
func helpFor(c *kong.Context) string {
	if c == nil || c.Selected() == nil {
		return "selvage --help"
	}
	return c.Selected().FullPath() + " --help"
}

func status(err error) int {
	var (
		parse    *kong.ParseError
		problems config.Errors
		usage    usageError
		query    *api.QueryError
		named    edge.NameError
		broken   newErrors
		lacking  hostErrors
	)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &broken), errors.As(err, &lacking):
		return exitProblems
	case errors.As(err, &parse), errors.As(err, &problems), errors.As(err, &usage), errors.As(err, &query), errors.As(err, &named):
		return exitUsage
	}
	return exitFailure
}
