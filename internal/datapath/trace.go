package datapath

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// TraceInput is a frame and where it shall seem to come from: a port, or a remote
// in a segment.
type TraceInput struct {
	Port    string
	Remote  netip.Addr
	Segment string
	Frame   []byte // from its Ethernet header on, without tunnel headers
}

// TraceStep is what one stage found, in words.
type TraceStep struct{ Stage, What string }

// Trace is a packet's way through the data path.
type Trace struct {
	Steps   []TraceStep
	Verdict string // "sent", "flooded", "fragmented", "dropped" or "left to the host"
	Out     []byte // the packet as it is sent
}

// Verdicts of the programs (enum tcx_action of bpf/include/kernel.h).
const (
	tcxNext     = ^uint32(0)
	tcxRedirect = 7
)

// maxPacket bounds what a traced packet may grow to.
const maxPacket = 1 << 16

// Trace runs the loaded programs on a frame against the live maps. The copy of
// the programs that runs neither learns nor counts, and sends nothing.
func (tr *Tracer) Trace(in TraceInput) (Trace, error) {
	p, err := tr.traced(in)
	if err != nil {
		return Trace{}, err
	}
	program, err := tr.prog.tracer(p.program)
	if err != nil {
		return Trace{}, err
	}
	defer program.Close()
	return tr.run(program, p)
}

// tracedPacket is a packet as it comes in, and to which program.
type tracedPacket struct {
	program string
	ifindex uint32
	data    []byte
}

func (tr *Tracer) traced(in TraceInput) (p tracedPacket, err error) {
	if in.Port == "" {
		p.program = bpfProgFromUnderlay
		p.data, p.ifindex, err = tr.fromRemote(in)
		return p, err
	}
	id, ok := tr.numbers.names.portIDs[in.Port]
	if !ok {
		return p, fmt.Errorf("there is no port %q with an interface", in.Port)
	}
	return tracedPacket{bpfProgFromPort, tr.numbers.vports[id].Ifindex, in.Frame}, nil
}

// run runs a tracing program on a packet.
func (tr *Tracer) run(program kernel.Program, p tracedPacket) (Trace, error) {
	if err := tr.clearTrace(); err != nil {
		return Trace{}, err
	}
	opts := &ebpf.RunOptions{
		Data: p.data, DataOut: make([]byte, maxPacket), Context: traceContext{Ifindex: p.ifindex},
	}
	ret, err := program.Run(opts)
	if err != nil {
		return Trace{}, fmt.Errorf("run the traced packet of %d bytes: %w", len(p.data), err)
	}
	t := Trace{Verdict: "dropped"}
	switch ret {
	case tcxRedirect:
		t.Verdict, t.Out = "sent", opts.DataOut
	case tcxNext:
		t.Verdict = "left to the host"
	}
	var copied string
	t.Steps, copied, err = tr.steps()
	if copied != "" && t.Verdict == "dropped" { // the original ends, its copies go on
		t.Verdict = copied
	}
	return t, err
}

// traceContext is the beginning of struct __sk_buff.
type traceContext struct {
	_       [10]uint32
	Ifindex uint32
	_       [37]uint32
}

// tracer loads a program once more, on the same maps.
func (pr *programs) tracer(name string) (kernel.Program, error) {
	spec, err := loadBpf()
	if err != nil {
		return nil, err
	}
	if err := pr.configure(spec); err != nil {
		return nil, err
	}
	if err := spec.Variables[bpfVarTracing].Set(true); err != nil {
		return nil, fmt.Errorf("set %s: %w", bpfVarTracing, err)
	}
	program, err := pr.loadOne(spec, name, pr.maps())
	if err != nil {
		return nil, fmt.Errorf("load the tracing program: %w", err)
	}
	return program, nil
}

// fromRemote wraps the frame as the remote would.
func (tr *Tracer) fromRemote(in TraceInput) (packet []byte, ifindex uint32, err error) {
	vport, ok := tr.numbers.names.tepIDs[in.Remote]
	if !ok {
		return nil, 0, fmt.Errorf("there is no remote %s", in.Remote)
	}
	segment, ok := tr.numbers.names.segIDs[in.Segment]
	if !ok {
		return nil, 0, fmt.Errorf("there is no segment %q", in.Segment)
	}
	packet = wrap(tr.prog.cfg.TEPs[0], in.Remote, tr.numbers.segments[segment], in.Frame)
	copy(packet, tr.numbers.vports[vport].Outer[6:12]) // to the MAC address that we send from
	return packet, tr.numbers.vports[vport].Ifindex, nil
}

func (tr *Tracer) clearTrace() error {
	for i := range tr.maps.Trace.MaxEntries() {
		if err := tr.maps.Trace.Put(i, bpfTraceStep{Stage: bpfStageSTAGE_MAX}); err != nil {
			return fmt.Errorf("clear the trace: %w", err)
		}
	}
	return nil
}

// steps reads what the stages told, and how copies of the packet itself were sent: "flooded",
// "fragmented" or not at all.
func (tr *Tracer) steps() (steps []TraceStep, copied string, err error) {
	for i := range tr.maps.Trace.MaxEntries() {
		var s bpfTraceStep
		if err := tr.maps.Trace.Lookup(i, &s); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil, "", fmt.Errorf("read the trace: %w", err)
		}
		if int(s.Stage) >= len(tr.prog.words.stages) {
			break
		}
		switch {
		case s.Stage == bpfStageSTAGE_FLOOD && s.B == 0:
			copied = "flooded"
		case s.Stage == bpfStageSTAGE_FRAGMENT:
			copied = "fragmented"
		case s.Stage == bpfStageSTAGE_DROP:
			copied = ""
		}
		steps = append(steps, TraceStep{Stage: tr.prog.words.stages[s.Stage].text, What: tr.describe(s)})
	}
	return steps, copied, nil
}
