package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

	AppInstruments
	TimedInstruments
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

// startInstrument starts this program as one of Instruments, which pins itself.
func startInstrument(ctx context.Context, h *topo.Host, args ...string) (*instrument, error) {
	return startPinned(ctx, h, Unpinned, args...)
}

// startPinned starts it with all its threads on a core.
func startPinned(ctx context.Context, h *topo.Host, core int, args ...string) (*instrument, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("path of this program: %w", err)
	}
	i := &instrument{Command: h.Command(ctx, append([]string{self}, args...)...)}
	i.Env = []string{instrumentEnv + "=1", "GODEBUG=asyncpreemptoff=1"}
	i.Stdout = &i.out
	i.CPUs = cpus(core)
	return i, i.Start()
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
