package gen

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Anywhere is no core in particular.
const Anywhere = -1

// Sender sends one Stream. Its methods but Next may be called by one goroutine at
// a time.
type Sender struct {
	stream     Stream
	part       bool // of several, who count together what interfaces refuse
	core       int
	first      []byte // a frame, as the kernel's buffers begin
	interfaces []genInterface
	objects    senderObjects
	attachment *attachment
	large      bool // frames do not fit into a page
	sockets    packetSockets
	links      []link.Link

	mu   sync.Mutex
	next uint16
}

type senderObjects struct {
	Generate        *ebpf.Program  `ebpf:"generate"`
	Refused         *ebpf.Program  `ebpf:"refused"`
	RedirectError   *ebpf.Program  `ebpf:"redirect_error"`
	Ports           *ebpf.Map      `ebpf:"ports"`
	FailedRedirects *ebpf.Map      `ebpf:"failed_redirects"`
	Current         *ebpf.Variable `ebpf:"current"`
	PacketTemplates *ebpf.Variable `ebpf:"packet_templates"`
	Generator       *ebpf.Variable `ebpf:"generator"`
	Unredirected    *ebpf.Variable `ebpf:"unredirected"`
}

func (o *senderObjects) closers() []interface{ Close() error } {
	return []interface{ Close() error }{o.Generate, o.Refused, o.RedirectError, o.Ports, o.FailedRedirects}
}

// NewSender makes a Sender whose frames leave by ports of a network namespace
// (a name of ip-netns(8), or "" for the caller's own). core is the CPU that it
// runs on, or Anywhere. Each port's other side has to take redirected frames: a
// veth does where its peer has GRO on or an XDP program. Nobody else may redirect
// frames to the ports, or those that are refused are taken for the Sender's. Frames
// that are larger than a page go by packet sockets instead.
func NewSender(namespace string, ports []Port, stream Stream, core int) (*Sender, error) {
	if err := stream.Check(); err != nil {
		return nil, err
	}
	return newSender(namespace, ports, &Sender{stream: stream.withDefaults(), core: core, next: 1})
}

func newSender(namespace string, ports []Port, s *Sender) (*Sender, error) {
	if err := s.checkPorts(ports); err != nil {
		return nil, err
	}
	if err := s.load(ports); err != nil {
		return nil, errors.Join(fmt.Errorf("generator: %w", err), s.Close())
	}
	if err := within(namespace, func() error { return s.connect(ports) }); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Sender) checkPorts(ports []Port) error {
	if len(ports) < 1 || len(ports) > maxPorts {
		return fmt.Errorf("%d ports of a generator are not within 1 … %d", len(ports), maxPorts)
	}
	for _, p := range ports {
		if err := errors.Join(checkMACs(p.SrcMAC, p.DstMAC, fmt.Sprintf("of port %d", p.Ifindex)), p.Tunnel.Check()); err != nil {
			return err
		}
		if p.placesOf(0) != ports[0].placesOf(0) {
			return errors.New("the tunnels or tags of a generator's ports differ in the places of their headers: use a generator for each")
		}
		if n := s.stream.portLen(s.stream.largest(), p) + FCS; n > MaxFrame {
			return fmt.Errorf("frames of %d bytes, tunnel and tag included, are larger than %d, the most that the generator makes", n, MaxFrame)
		} else if isLarge(n) {
			s.large = true
		}
		if p.VLAN > mostVLAN {
			return fmt.Errorf("VLAN %d of port %d is not within 1 … %d", p.VLAN, p.Ifindex, mostVLAN)
		}
		if n := p.placesOf(s.stream.headers()).header; n > len(genPacketTemplate{}.Header) {
			return fmt.Errorf("headers of %d bytes are more than %d: leave out the tag or some options", n, len(genPacketTemplate{}.Header))
		}
	}
	return nil
}

// load loads the programs for the stream.
func (s *Sender) load(ports []Port) error {
	spec, err := loadGen()
	if err != nil {
		return err
	}
	turns, skip := s.stream.pattern()
	var pattern [maxPattern]uint8
	copy(pattern[:], turns)
	s.first = make([]byte, s.stream.portLen(s.stream.largest(), ports[0]))
	where := ports[0].placesOf(s.stream.headers())
	if err := setVariables(spec, map[string]any{
		genVarFlows: uint32(s.stream.Flows), genVarSources: uint32(s.stream.Sources), genVarDestinations: uint32(s.stream.Destinations),
		genVarFromHost: host(s.stream.From) + uint32(s.stream.shift), genVarFirstFlow: uint32(s.stream.firstFlow), genVarToHost: host(s.stream.To), genVarFamily: uint32(s.stream.Family),
		genVarPortsLen: uint32(len(ports)), genVarSizesLen: uint32(len(s.stream.shares())), genVarBufferLen: uint32(len(s.first)),
		genVarPatternLen: uint32(len(turns)), genVarPatternSkip: uint32(skip), genVarPattern: pattern, genVarStream: s.stream.ID,
		genVarHeaderLen: uint32(where.header), genVarIpOff: uint32(where.ip), genVarOuterUdpOff: uint32(where.outerUDP),
		genVarOuterSumOff: uint32(where.outerSum), genVarFlowIdOff: uint32(where.flowID),
	}); err != nil {
		return err
	}
	if err := spec.LoadAndAssign(&s.objects, nil); err != nil {
		return err
	}
	var packetTemplates [maxPorts * maxSizes]genPacketTemplate
	for i, p := range ports {
		for k, share := range s.stream.shares() {
			packetTemplates[i*maxSizes+k] = s.stream.packetTemplate(p, share.Frame)
		}
	}
	return s.objects.PacketTemplates.Set(packetTemplates)
}

func setVariables(spec *ebpf.CollectionSpec, values map[string]any) error {
	for name, value := range values {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// connect works in the namespace of the ports.
func (s *Sender) connect(ports []Port) error {
	netns, err := netnsInode()
	if err != nil {
		return err
	}
	for i, p := range ports {
		dev, err := interfaceUp(p.Ifindex)
		if err != nil {
			return err
		}
		if n, header := len(s.first), 14+p.tagLen(); n > dev.MTU+header {
			return fmt.Errorf("frames of %d bytes without FCS do not leave by %s, whose MTU is %d: it needs %d", n, dev.Name, dev.MTU, n-header)
		}
		if s.large {
			if err := s.sockets.open(p.Ifindex); err != nil {
				return err
			}
		}
		if err := s.objects.Ports.Put(uint32(i), uint32(p.Ifindex)); err != nil {
			return fmt.Errorf("redirect to interface %s: %w", dev.Name, err)
		}
		key := genInterface{Netns: netns, Ifindex: uint32(p.Ifindex)}
		s.interfaces = append(s.interfaces, key)
		if err := s.objects.FailedRedirects.Put(key, uint64(0)); err != nil {
			return fmt.Errorf("count what %s refuses: %w", dev.Name, err)
		}
	}
	return s.attach()
}

func (s *Sender) attach() error {
	info, err := s.objects.Generate.Info()
	if err != nil {
		return err
	}
	id, _ := info.ID()
	if err := s.objects.Generator.Set(uint32(id)); err != nil {
		return err
	}
	for _, program := range []*ebpf.Program{s.objects.Refused, s.objects.RedirectError} {
		attached, err := link.AttachTracing(link.TracingOptions{Program: program})
		if err != nil {
			return fmt.Errorf("count refused frames by %s: %w", program, err)
		}
		s.links = append(s.links, attached)
	}
	s.attachment, err = newAttachment(s.objects.Generate)
	return err
}

// Next is the number of the next Run, for Sink.Reset.
func (s *Sender) Next() uint16 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// Run sends once and returns when the last frame was handed over; an end of ctx
// ends it within about 50 ms, with what was sent until then and ctx's error.
// Sequence numbers begin at 0 again.
func (s *Sender) Run(ctx context.Context, load Load) (Sent, error) {
	load = load.withDefaults()
	if err := load.check(); err != nil {
		return Sent{}, err
	}
	s.mu.Lock()
	id := s.next
	s.next = id%255 + 1
	s.mu.Unlock()
	r := load.run(id)
	if err := s.objects.Current.Set(r); err != nil {
		return Sent{}, err
	}
	before, err := s.overrun()
	if err != nil {
		return Sent{}, err
	}
	start := time.Now()
	var used time.Duration
	failed := pinned(s.core, func() (err error) {
		used, err = s.loop(ctx, load, &r)
		return err
	})
	sent, err := s.outcome(load, r, id, before, time.Since(start))
	sent.Busy = used
	return sent, errors.Join(failed, err)
}

const (
	liveFrames = 1 << 1 // BPF_F_TEST_XDP_LIVE_FRAMES
	// callTime is how long one call into the kernel shall take: it cannot be
	// interrupted, and costs about 13 µs.
	callTime              = 20 * time.Millisecond
	leastCalls, mostCalls = 256, 1 << 20
)

// loop calls the program until all was offered, and says for how long this thread
// was on a core.
func (s *Sender) loop(ctx context.Context, load Load, r *genRun) (used time.Duration, err error) {
	before, err := busy()
	if err != nil {
		return 0, err
	}
	defer func() {
		after, failed := busy()
		used, err = after-before, errors.Join(err, failed)
	}()
	if s.large {
		return 0, s.loopLarge(ctx, r)
	}
	options := &ebpf.RunOptions{Data: s.first, Repeat: leastCalls, Flags: liveFrames, BatchSize: uint32(load.Batch)}
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		began := time.Now()
		if _, err := s.objects.Generate.Run(options); err != nil {
			return 0, fmt.Errorf("run the generator: %w", err)
		}
		if err := s.objects.Current.Get(r); err != nil {
			return 0, err
		}
		if r.Offered >= r.Frames {
			return 0, nil
		}
		options.Repeat = repeats(options.Repeat, time.Since(began), min(callTime, load.left(*r)))
		if load.Rate == 0 && r.Frames-r.Offered < uint64(options.Repeat) {
			options.Repeat = uint32(r.Frames - r.Offered)
		}
	}
}

// repeats is how often the program is to be called to take that time, after it
// was called last times in took.
func repeats(last uint32, took, want time.Duration) uint32 {
	n := float64(last) * float64(want) / float64(max(took, time.Microsecond))
	return uint32(min(max(n, leastCalls), mostCalls, 8*float64(last)))
}

// skip leaves the next run out, as a part of several that has nothing to send.
func (s *Sender) skip() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = s.next%255 + 1
}

// overrun is how many frames were refused since the sender was made.
func (s *Sender) overrun() (uint64, error) {
	var unredirected uint64
	if err := s.objects.Unredirected.Get(&unredirected); err != nil || s.part {
		return unredirected + s.sockets.refused, err
	}
	refused, err := s.refused()
	return unredirected + s.sockets.refused + refused, err
}

// refused is how many frames the interfaces refused since then, whoever they are of.
func (s *Sender) refused() (sum uint64, err error) {
	for _, key := range s.interfaces {
		var n uint64
		if err := s.objects.FailedRedirects.Lookup(key, &n); err != nil {
			return 0, fmt.Errorf("count of refused frames: %w", err)
		}
		sum += n
	}
	return sum, nil
}

func (s *Sender) outcome(load Load, r genRun, id uint16, before uint64, wall time.Duration) (Sent, error) {
	after, err := s.overrun()
	if err != nil {
		return Sent{}, err
	}
	made := r.Offered - r.Unsent
	if len(s.interfaces) == 1 {
		r.Sent[0] = made
	}
	sent := Sent{Run: id, Offered: r.Offered, Unsent: r.Unsent, Overrun: after - before, PortFrames: r.Sent[:len(s.interfaces)]}
	sent.Frames = made - min(made, sent.Overrun)
	switch {
	case len(s.stream.shares()) == 1:
		sent.Bytes = sent.Frames * uint64(len(s.first))
	case sent.Overrun == 0:
		sent.Bytes = r.Bytes
	default: // of refused frames only the number is known
		sent.Bytes = uint64(float64(r.Bytes) / float64(made) * float64(sent.Frames))
	}
	if r.StartNs > 0 {
		sent.Duration = load.took(r, wall)
	}
	if load.Rate > 0 && sent.Duration > 0 {
		sent.RateError = sent.Rate()/load.Rate - 1
	}
	return sent, nil
}

// Close frees the programs.
func (s *Sender) Close() error {
	var errs []error
	if s.attachment != nil {
		errs = append(errs, s.attachment.Close())
	}
	s.sockets.close()
	for _, l := range s.links {
		errs = append(errs, l.Close())
	}
	for _, o := range s.objects.closers() {
		errs = append(errs, o.Close())
	}
	return errors.Join(errs...)
}
