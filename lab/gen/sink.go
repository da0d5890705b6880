package gen

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Sink takes the frames of a stream in, as a native XDP program. Frames that
// are not the stream's go on to the kernel.
type Sink struct {
	o        SinkOptions
	receiver receiver
	flows    *ebpf.Map
	current  *ebpf.Variable
}

// receiver is what a Sink and a Reflector have in common: a program that counts,
// on interfaces.
type receiver struct {
	program   *ebpf.Program
	counters  *ebpf.Map
	arounds   *ebpf.Map
	foreigns  *ebpf.Map
	addresses *ebpf.Map
	mode      Mode
	links     []link.Link
}

// NewSink attaches a Sink to interfaces of a network namespace, as NewSender has
// it, that have no XDP program. It counts frames of the Sender's first run, until
// Reset.
func NewSink(namespace string, ifindexes []int, o SinkOptions) (*Sink, error) {
	if o.Flows < 0 || o.Flows > MaxFlows {
		return nil, fmt.Errorf("%d flows to check are not within 0 … %d", o.Flows, MaxFlows)
	}
	s, err := loadSink(o)
	if err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	if err := s.receiver.attach(namespace, ifindexes); err != nil {
		return nil, errors.Join(fmt.Errorf("sink: %w", err), s.Close())
	}
	return s, nil
}

// loadSink is a Sink that is at no interface yet.
func loadSink(o SinkOptions) (*Sink, error) {
	spec, err := o.spec()
	if err != nil {
		return nil, err
	}
	spec.Maps[genMapFollowed].MaxEntries = uint32(max(1, o.Flows))
	if err := setVariables(spec, map[string]any{
		genVarCheckFlows: uint32(o.Flows), genVarCheckLatency: o.Latency, genVarSinkStream: o.Stream, genVarCurrentRun: uint8(1), genVarTurns: o.Turns,
	}); err != nil {
		return nil, err
	}
	var objects struct {
		Program   *ebpf.Program  `ebpf:"sink"`
		Counters  *ebpf.Map      `ebpf:"counters"`
		Arounds   *ebpf.Map      `ebpf:"arounds"`
		Foreigns  *ebpf.Map      `ebpf:"foreigns"`
		Addresses *ebpf.Map      `ebpf:"addresses"`
		Followed  *ebpf.Map      `ebpf:"followed"`
		Current   *ebpf.Variable `ebpf:"current_run"`
	}
	if err := spec.LoadAndAssign(&objects, nil); err != nil {
		return nil, err
	}
	return &Sink{o: o, flows: objects.Followed, current: objects.Current, receiver: receiver{
		mode: o.Mode, program: objects.Program, counters: objects.Counters, arounds: objects.Arounds, foreigns: objects.Foreigns, addresses: objects.Addresses,
	}}, nil
}

// spec is the programs with what a Sink and a Reflector are told alike.
func (o SinkOptions) spec() (*ebpf.CollectionSpec, error) {
	spec, err := loadGen()
	if err != nil {
		return nil, err
	}
	values := map[string]any{genVarAnswering: o.Answer}
	if o.VXLANPort != 0 {
		values[genVarVxlanPort] = o.VXLANPort
	}
	if o.GenevePort != 0 {
		values[genVarGenevePort] = o.GenevePort
	}
	return spec, setVariables(spec, values)
}

func (r *receiver) attach(namespace string, ifindexes []int) error {
	if len(ifindexes) == 0 {
		return errors.New("no interface to take frames in at")
	}
	return within(namespace, func() error {
		for _, ifindex := range ifindexes {
			if err := r.attachOne(ifindex); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *receiver) attachOne(ifindex int) error {
	dev, err := interfaceUp(ifindex)
	if err != nil {
		return err
	}
	if len(dev.HardwareAddr) == 6 {
		if err := r.addresses.Put(uint32(ifindex), [6]byte(dev.HardwareAddr)); err != nil {
			return fmt.Errorf("address of %s: %w", dev.Name, err)
		}
	}
	flags, words := link.XDPDriverMode, "native XDP to %s (another program may be there, or the driver has none): %w"
	if r.mode == Generic {
		flags, words = link.XDPGenericMode, "generic XDP to %s (another program may be there): %w"
	}
	attached, err := link.AttachXDP(link.XDPOptions{Program: r.program, Interface: ifindex, Flags: flags})
	if err != nil {
		return fmt.Errorf("attach "+words, dev.Name, err)
	}
	r.links = append(r.links, attached)
	return nil
}

// reset forgets all counts.
func (r *receiver) reset() error {
	cores, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	if err := r.counters.Put(uint32(0), make([]genCounts, cores)); err != nil {
		return fmt.Errorf("forget counts: %w", err)
	}
	none := make([]uint64, cores)
	for i := range genAroundAROUND_LEN {
		if err := r.arounds.Put(i, none); err != nil {
			return fmt.Errorf("forget encapsulations: %w", err)
		}
	}
	for i := range genForeignFOREIGN_LEN {
		if err := r.foreigns.Put(i, none); err != nil {
			return fmt.Errorf("forget foreign frames: %w", err)
		}
	}
	return nil
}

var (
	aroundNames  = [genAroundAROUND_LEN]string{"plain", "vxlan", "geneve", "nvgre"}
	foreignNames = [genForeignFOREIGN_LEN]string{"", "arp", "nd", "icmp", "ip", "ethertype", "short", "stream", "stale"}
)

// read fills in a Report but for what is known of flows.
func (r *receiver) read() (Report, error) {
	var cores []genCounts
	if err := r.counters.Lookup(uint32(0), &cores); err != nil {
		return Report{}, fmt.Errorf("read counts: %w", err)
	}
	report := Report{Around: map[string]uint64{}, Foreign: map[string]uint64{}, Latency: latencyOf(cores)}
	for _, c := range cores {
		report.Core = append(report.Core, c.Frames)
		report.Frames += c.Frames
		report.Bytes += c.Bytes
		report.Answered += c.Answered
		report.Unknown += c.Unknown
		if shortest := int(c.Shortest); shortest > 0 && (report.Shortest == 0 || shortest < report.Shortest) {
			report.Shortest = shortest
		}
		report.Longest = max(report.Longest, int(c.Longest))
	}
	for i, name := range aroundNames {
		if err := add(report.Around, name, r.arounds, genAround(i)); err != nil {
			return Report{}, err
		}
	}
	for i, name := range foreignNames {
		if err := add(report.Foreign, name, r.foreigns, genForeign(i)); err != nil {
			return Report{}, err
		}
	}
	return report, nil
}

// add puts a count of all cores into a table, unless it is 0.
func add[K any](table map[string]uint64, name string, m *ebpf.Map, key K) error {
	var cores []uint64
	if err := m.Lookup(key, &cores); err != nil {
		return fmt.Errorf("read %s: %w", m, err)
	}
	for _, n := range cores {
		if n > 0 {
			table[name] += n
		}
	}
	return nil
}

func (r *receiver) close() error {
	var errs []error
	for _, l := range r.links {
		// A process that starts just now may hold a copy of the descriptor until it is another
		// program: so closing alone may leave the interface taken for a while.
		errs = append(errs, l.Detach(), l.Close())
	}
	for _, c := range []interface{ Close() error }{r.program, r.counters, r.arounds, r.foreigns, r.addresses} {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Reset forgets everything, and has the sink count the frames of that run
// (Sender.Next) only.
func (s *Sink) Reset(run uint16) error {
	if err := s.current.Set(uint8(run)); err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	if err := s.receiver.reset(); err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	return s.forgetFlows()
}

// Read says what was counted since Reset. Frames that come meanwhile may be in one
// count and not in another, so let them settle first.
func (s *Sink) Read() (Report, error) {
	report, err := s.receiver.read()
	if err == nil {
		err = s.readFlows(&report)
	}
	if err != nil {
		return Report{}, fmt.Errorf("sink: %w", err)
	}
	return report, nil
}

// Close detaches it.
func (s *Sink) Close() error {
	return errors.Join(s.receiver.close(), s.flows.Close())
}
