package experiments

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/cores"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/gen"
)

// Gen is the command line of the generator by itself.
type Gen struct {
	Interface []string `placeholder:"IF" help:"Interfaces that frames leave by; flows take turns. Without one, the generator sends to its own sink, which shows how fast it can be."`
	Netns     string   `placeholder:"NAME" help:"Network namespace of the interfaces, as ip netns has it."`
	DstMAC    string   `name:"dst-mac" placeholder:"MAC" help:"Destination of the frames: the device under test. By default the sink, if there is one."`
	Sink      []string `placeholder:"IF[@NETNS]" help:"Interfaces that receive the frames and check them."`
	Answer    bool     `help:"Have the sink answer ARP requests and neighbour solicitations, for every address."`

	Rate     Rate          `group:"Load" default:"max" help:"Frames/s, such as 1Mpps, 250kpps or 5000pps; ${default} is as fast as possible."`
	Gbps     float64       `group:"Load" placeholder:"GBIT/S" help:"Rate on an Ethernet wire, preamble and gap of 20 bytes included (RFC 2544 section 20), in place of --rate."`
	Duration time.Duration `group:"Load" default:"5s" help:"Duration of sending."`
	Frames   uint64        `group:"Load" placeholder:"N" help:"Stop after N frames."`
	Burst    int           `group:"Load" default:"1" help:"Frames per burst; the mean rate stays the same."`
	Core     Core          `group:"Load" placeholder:"N" default:"first" help:"Core of the generator, the ${default} usable one by default; -1 is any."`
	Settle   time.Duration `group:"Load" default:"200ms" help:"Wait between the last frame and the reading of the sink."`

	Frame  int     `group:"Frames" placeholder:"BYTES" help:"Size with FCS; 64 by default, 84 with IPv6."`
	IMIX   []Share `name:"imix" group:"Frames" placeholder:"SIZE:WEIGHT" help:"Mix of sizes instead of one: 64:7,594:4,1518:1."`
	Flows  int     `group:"Frames" default:"1280" help:"Flows: 20 sources by 64 destinations; more flows use more UDP ports."`
	Family int     `group:"Frames" enum:"4,6" default:"4" help:"IP version: ${enum}."`

	Encap       string     `group:"Tunnel" enum:"none,vxlan,geneve,nvgre" default:"none" help:"Encapsulate the frames: ${enum}."`
	Local       netip.Addr `group:"Tunnel" default:"192.0.2.1" help:"Tunnel endpoint that the packets come from; ${default}."`
	Remote      netip.Addr `group:"Tunnel" default:"192.0.2.2" help:"Tunnel endpoint that they go to; ${default}."`
	VNI         uint32     `group:"Tunnel" default:"100" help:"Their segment; ${default}."`
	InnerSrcMAC string     `name:"inner-src-mac" group:"Tunnel" placeholder:"MAC" default:"02:00:00:00:00:01" help:"Source inside the tunnel; ${default}."`
	InnerDstMAC string     `name:"inner-dst-mac" group:"Tunnel" placeholder:"MAC" default:"02:00:00:00:00:02" help:"Destination inside the tunnel; ${default}."`

	Output string `short:"o" enum:"table,json" default:"table" help:"Print a table or JSON: ${enum}."`
}

// Rate is frames/s; 0 is as fast as it goes.
type Rate float64

// UnmarshalText reads "1.5Mpps", "250kpps", "5000pps", or "max".
func (r *Rate) UnmarshalText(text []byte) error {
	if string(text) == "max" {
		*r = 0
		return nil
	}
	for _, unit := range []struct {
		name   string
		frames float64
	}{{"Mpps", 1e6}, {"kpps", 1e3}, {"pps", 1}} {
		number, ok := strings.CutSuffix(string(text), unit.name)
		if n, err := strconv.ParseFloat(number, 64); ok && err == nil && n > 0 {
			*r = Rate(n * unit.frames)
			return nil
		}
	}
	return fmt.Errorf("%q is not max or a rate like 1Mpps, 250kpps or 5000pps", text)
}

// Core is a usable one, or gen.Anywhere.
type Core int

// Decode reads a core, -1 too, which kong takes for a flag elsewhere.
func (c *Core) Decode(ctx *kong.DecodeContext) error {
	text := ctx.Scan.Pop().String()
	if text == "first" {
		*c = Core(cores.Usable()[0])
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n != gen.Anywhere && !slices.Contains(cores.Usable(), n) {
		return fmt.Errorf("%s is none of the usable cores %v, nor -1", text, cores.Usable())
	}
	*c = Core(n)
	return nil
}

// Share is a size of a mix.
type Share gen.Share

// UnmarshalText reads "SIZE:WEIGHT".
func (s *Share) UnmarshalText(text []byte) error {
	size, weight, ok := strings.Cut(string(text), ":")
	_, errSize := fmt.Sscan(size, &s.Frame)
	_, errWeight := fmt.Sscan(weight, &s.Weight)
	if !ok || errSize != nil || errWeight != nil {
		return fmt.Errorf("%q is not SIZE:WEIGHT, such as 64:7", text)
	}
	return nil
}

// Validate checks what belongs together and fills in what follows from the rest.
func (c *Gen) Validate() error {
	if c.Frame == 0 && len(c.IMIX) == 0 {
		c.Frame = 64
		if c.Family == 6 {
			c.Frame = 84
		}
	}
	for _, check := range []func() error{c.checkLoad, c.checkPlaces, c.checkMACs, c.stream().Check} {
		if err := check(); err != nil {
			return err
		}
	}
	return c.tunnel().Check()
}

func (c *Gen) checkLoad() error {
	switch {
	case c.Gbps < 0 || c.Gbps > 0 && c.Rate > 0:
		return errors.New("--gbps: give it or --rate, and more than 0")
	case c.Duration < time.Millisecond:
		return fmt.Errorf("--duration: %s is less than 1ms", c.Duration)
	case c.Burst < 1:
		return fmt.Errorf("--burst: %d is not 1 or more", c.Burst)
	case c.Settle < 0:
		return fmt.Errorf("--settle: %s is less than 0", c.Settle)
	}
	return nil
}

func (c *Gen) checkPlaces() error {
	if len(c.Interface) == 0 && (c.Netns != "" || len(c.Sink) > 0 || c.DstMAC != "") {
		return errors.New("--interface is missing: the generator's own loop has no --netns, --sink or --dst-mac")
	}
	if len(c.Interface) > 0 && c.DstMAC == "" && len(c.Sink) != 1 {
		return errors.New("--dst-mac is missing: give it, or one --sink, which then gets the frames")
	}
	return nil
}

func (c *Gen) checkMACs() error {
	for _, mac := range []struct{ flag, value string }{{"--dst-mac", c.DstMAC}, {"--inner-src-mac", c.InnerSrcMAC}, {"--inner-dst-mac", c.InnerDstMAC}} {
		if _, err := overlay.ParseMAC(mac.value); err != nil && mac.value != "" {
			return fmt.Errorf("%s: %w", mac.flag, err)
		}
	}
	return nil
}

func (c *Gen) stream() gen.Stream {
	s := gen.Stream{Frame: c.Frame, Flows: c.Flows, Family: c.Family}
	for _, share := range c.IMIX {
		s.IMIX = append(s.IMIX, gen.Share(share))
	}
	return s
}

func (c *Gen) load() gen.Load {
	load := gen.Load{Rate: float64(c.Rate), Frames: c.Frames, Duration: c.Duration, Burst: c.Burst}
	if c.Gbps > 0 {
		const outage = 20 // preamble and the outage between frames
		load.Rate = c.Gbps * 1e9 / 8 / (c.stream().MeanFrame(c.tunnel()) + outage)
	}
	return load
}

func (c *Gen) tunnel() *gen.Tunnel {
	if c.Encap == "none" {
		return nil
	}
	from, _ := net.ParseMAC(c.InnerSrcMAC) // Validate has read both
	to, _ := net.ParseMAC(c.InnerDstMAC)
	return &gen.Tunnel{
		Encapsulation: overlay.Encapsulation(c.Encap), Local: c.Local, Remote: c.Remote, VNI: overlay.VNI(c.VNI), SrcMAC: from, DstMAC: to,
	}
}

// Run sends and says what arrived.
func (c *Gen) Run(ctx context.Context, console *experiment.Console) error {
	if os.Geteuid() != 0 {
		return errors.New("XDP programs and network namespaces need root: run it with sudo")
	}
	ctx, stop := experiment.WithHangup(ctx)
	defer stop()
	if len(c.Interface) == 0 {
		return c.loop(ctx, console)
	}
	outcome, err := c.send(ctx)
	if outcome != nil {
		err = errors.Join(err, c.print(console.Out, *outcome))
	}
	return err
}

// loop is the generator without a device, or anybody's interface.
func (c *Gen) loop(ctx context.Context, console *experiment.Console) error {
	load := c.load()
	self, err := gen.Ceiling(ctx, gen.Loop{
		Stream: c.stream(), Tunnel: c.tunnel(), Core: int(c.Core), Load: load, Runs: 1,
		Sink: gen.SinkOptions{Flows: c.Flows, Latency: true},
	})
	if err != nil {
		return err
	}
	return c.print(console.Out, genOutcome{Sent: self.Last, Received: &self.Received, Lost: &self.Lost})
}

// send sends from the interfaces. When ctx ends it says what was until then.
func (c *Gen) send(ctx context.Context) (outcome *genOutcome, err error) {
	sink, mac, err := c.openSink()
	if err != nil {
		return nil, err
	}
	if sink != nil {
		defer func() { err = errors.Join(err, sink.Close()) }()
	}
	ports, err := c.ports(mac)
	if err != nil {
		return nil, err
	}
	sender, err := gen.NewSender(c.Netns, ports, c.stream(), int(c.Core))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sender.Close()) }()
	outcome = &genOutcome{}
	if outcome.Sent, err = sender.Run(ctx, c.load()); sink == nil {
		return outcome, err
	}
	if err == nil {
		select {
		case <-ctx.Done():
		case <-time.After(c.Settle):
		}
	}
	received, failed := sink.Read()
	lost := received.Lost(outcome.Sent)
	outcome.Received, outcome.Lost = &received, &lost
	return outcome, errors.Join(err, failed)
}

// openSink attaches the sink, if there shall be one; mac is its first interface's.
func (c *Gen) openSink() (sink *gen.Sink, mac net.HardwareAddr, err error) {
	if len(c.Sink) == 0 {
		return nil, nil, nil
	}
	var namespace string
	var indexes []int
	for i, place := range c.Sink {
		name, at, named := strings.Cut(place, "@")
		if !named {
			at = c.Netns
		}
		if i > 0 && at != namespace {
			return nil, nil, fmt.Errorf("--sink: %s is not in namespace %q as the others are", place, namespace)
		}
		dev, err := gen.Interface(at, name)
		if err != nil {
			return nil, nil, fmt.Errorf("--sink: %w", err)
		}
		if i == 0 {
			namespace, mac = at, dev.HardwareAddr
		}
		indexes = append(indexes, dev.Index)
	}
	sink, err = gen.NewSink(namespace, indexes, gen.SinkOptions{Flows: c.Flows, Latency: true, Answer: c.Answer})
	return sink, mac, err
}

func (c *Gen) ports(mac net.HardwareAddr) ([]gen.Port, error) {
	if c.DstMAC != "" {
		mac, _ = net.ParseMAC(c.DstMAC) // Validate has read it
	}
	var ports []gen.Port
	for _, name := range c.Interface {
		dev, err := gen.Interface(c.Netns, name)
		if err != nil {
			return nil, fmt.Errorf("--interface: %w", err)
		}
		ports = append(ports, gen.Port{Ifindex: dev.Index, SrcMAC: dev.HardwareAddr, DstMAC: mac, Tunnel: c.tunnel()})
	}
	return ports, nil
}
