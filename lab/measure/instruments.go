package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"github.com/selvage/selvage/lab/topo"
)

// Instruments are the hidden commands that the lab starts in its hosts, as the
// same program that it is itself. The command line embeds them.
type Instruments struct {
	RRServer    RRServer    `cmd:"" name:"lab-rr-server" hidden:""`
	RRClient    RRClient    `cmd:"" name:"lab-rr-client" hidden:""`
	CRRServer   CRRServer   `cmd:"" name:"lab-crr-server" hidden:""`
	CRRClient   CRRClient   `cmd:"" name:"lab-crr-client" hidden:""`
	UDPReceiver UDPReceiver `cmd:"" name:"lab-udp-receiver" hidden:""`
	UDPSender   UDPSender   `cmd:"" name:"lab-udp-sender" hidden:""`
	BulkSink    BulkSink    `cmd:"" name:"lab-bulk-sink" hidden:""`
	BulkSource  BulkSource  `cmd:"" name:"lab-bulk-source" hidden:""`
	SizeEcho    SizeEcho    `cmd:"" name:"lab-size-echo" hidden:""`
	SizeProbe   SizeProbe   `cmd:"" name:"lab-size-probe" hidden:""`
	PeerServer  PeerServer  `cmd:"" name:"lab-peer-server" hidden:""`
	PeerClient  PeerClient  `cmd:"" name:"lab-peer-client" hidden:""`

	SlicedInstruments
	AttemptInstruments
	AppInstruments
	TimedInstruments
	OutageInstruments
}

// instrumentEnv marks a process that the lab started as an instrument.
const instrumentEnv = "SELVAGE_LAB_INSTRUMENT"

// RunInstrument runs args as an instrument and exits, when the lab started this
// process as one; else it returns. A test whose binary measures calls it first
// in TestMain.
func RunInstrument(args []string) {
	if os.Getenv(instrumentEnv) == "" {
		return
	}
	parser, err := kong.New(&Instruments{})
	if err == nil {
		var command *kong.Context
		if command, err = parser.Parse(args); err == nil {
			err = command.Run()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// instrument is a running child of this program.
type instrument struct {
	*topo.Command
	out bytes.Buffer
}

// part is one of Instruments in a run: a server, or the client that asks it.
type part struct {
	host    *topo.Host
	command string
	flags   []string
	cpus    []int  // for all its threads; none where it pins itself
	what    string // its report is of, for errors
	report  any    // to read into; nil for one that prints none
}

// start starts this program as the instrument, and keeps what it prints.
func (p part) start(ctx context.Context) (*instrument, error) {
	i, err := p.prepare(ctx)
	if err != nil {
		return nil, err
	}
	i.Stdout = &i.out
	return i, i.Start()
}

// begin starts this program as an instrument that reads orders and writes replies.
func (p part) begin(ctx context.Context, orders io.Reader, replies io.Writer) (*instrument, error) {
	i, err := p.prepare(ctx)
	if err != nil {
		return nil, err
	}
	i.Stdin, i.Stdout = orders, replies
	if err := i.Start(); err != nil {
		return nil, err
	}
	return i, nil
}

func (p part) prepare(ctx context.Context) (*instrument, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("path of this program: %w", err)
	}
	i := &instrument{Command: p.host.Command(ctx, append([]string{self, p.command}, p.flags...)...)}
	i.Env = []string{instrumentEnv + "=1", "GODEBUG=asyncpreemptoff=1"}
	i.CPUs = p.cpus
	return i, nil
}

// serve starts a server, which the caller kills, and waits until it listens on a port.
func (p part) serve(ctx context.Context, network string, port int) (*instrument, error) {
	server, err := p.start(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.host.AwaitListen(ctx, network, port); err != nil {
		err = withCause(err, server)
		server.Kill()
		return nil, err
	}
	return server, nil
}

// ask runs the client of a server, reads its report and returns what the cores did
// meanwhile.
func (p part) ask(ctx context.Context, server *instrument) (CPU, error) {
	before, err := ReadCPU()
	if err != nil {
		return CPU{}, err
	}
	client, err := p.start(ctx)
	if err != nil {
		return CPU{}, err
	}
	defer client.Kill()
	if err := client.report(p.report); err != nil {
		return CPU{}, fmt.Errorf("%s: %w", p.what, withCause(err, server))
	}
	after, err := ReadCPU()
	if err != nil {
		return CPU{}, err
	}
	return after.Since(before), nil
}

// converse runs a server and its client. It reads the report of the client, and then the
// server's where there is one, and returns what the cores did while the client ran.
func converse(ctx context.Context, network string, port int, server, client part) (CPU, error) {
	serving, err := server.serve(ctx, network, port)
	if err != nil {
		return CPU{}, err
	}
	defer serving.Kill()
	cpu, err := client.ask(ctx, serving)
	if err != nil || server.report == nil {
		return cpu, err
	}
	if err := serving.report(server.report); err != nil {
		return CPU{}, fmt.Errorf("%s: %w", server.what, err)
	}
	return cpu, nil
}

// withCause adds to err why an instrument that should run has ended.
func withCause(err error, i *instrument) error {
	select {
	case <-i.Done():
		return errors.Join(i.Wait(), err)
	default:
		return err
	}
}

// report waits for the process and reads what it printed.
func (i *instrument) report(into any) error {
	if err := i.Wait(); err != nil {
		return err
	}
	if err := json.Unmarshal(i.out.Bytes(), into); err != nil {
		return fmt.Errorf("report of %s: %w", i, err)
	}
	return nil
}

// flags makes "--name=value" of pairs.
func flags(pairs ...any) []string {
	var out []string
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, fmt.Sprintf("--%s=%v", pairs[i], pairs[i+1]))
	}
	return out
}

// patience is how much longer than planned a run may take.
const patience = 15 * time.Second
