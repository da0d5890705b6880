package tester

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/cores"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/losses"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/neighbour"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/lab/transit"
)

// local are ports of this host.
type local struct {
	host       Host
	links      []topo.Port
	neighbours []*neighbour.Responder
}

// Open reads ports of this host.
func Open(names []Name) (Ports, error) {
	p, err := open(names)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func open(names []Name) (*local, error) {
	boot, err := agent.BootID()
	if err != nil {
		return nil, err
	}
	p := &local{host: Host{Cores: cores.Usable(), Boot: boot}}
	var uname unix.Utsname
	if unix.Uname(&uname) == nil { // it fails for a bad pointer alone
		p.host.Kernel = unix.ByteSliceToString(uname.Release[:])
	}
	for _, name := range names {
		if name.Namespace != names[0].Namespace {
			return nil, fmt.Errorf("ports of namespaces %q and %q are not of one side", names[0].Namespace, name.Namespace)
		}
		port, err := topo.ReadPort(name.Namespace, name.Name)
		if err != nil {
			return nil, err
		}
		p.links = append(p.links, port)
	}
	if len(p.links) == 0 {
		return nil, errors.New("no ports were named")
	}
	return p, nil
}

func (p *local) Host() Host { return p.host }

func (p *local) Links() []topo.Port { return p.links }

func (p *local) namespace() string { return p.links[0].Namespace }

func (p *local) Answer(_ context.Context, by []neighbour.Options) error {
	if len(by) != len(p.links) || len(p.neighbours) > 0 {
		return fmt.Errorf("answers for neighbours at %d of %d ports, which has to be said once", len(by), len(p.links))
	}
	for i, o := range by {
		r, err := neighbour.Open(p.links[i], o)
		if err != nil {
			return err
		}
		p.neighbours = append(p.neighbours, r)
	}
	return nil
}

// at is who answers at a port.
func (p *local) at(port int) (*neighbour.Responder, error) {
	if port < 0 || port >= len(p.neighbours) {
		return nil, fmt.Errorf("nobody answers for neighbours at port %d of %d", port, len(p.neighbours))
	}
	return p.neighbours[port], nil
}

func (p *local) Resolve(ctx context.Context, q Question) (net.HardwareAddr, error) {
	r, err := p.at(q.Port)
	if err != nil {
		return nil, err
	}
	return r.Resolve(ctx, q.Addr, q.From)
}

func (p *local) Announce(_ context.Context, port int, addr netip.Addr) error {
	r, err := p.at(port)
	if err != nil {
		return err
	}
	return r.Announce(addr)
}

func (p *local) Answered(context.Context) (sum uint64, err error) {
	for _, r := range p.neighbours {
		sum += r.Answered()
	}
	return sum, nil
}

func (p *local) Overflows(context.Context) (losses.Counts, error) {
	counts := losses.Counts{}
	for _, l := range p.links {
		port, err := topo.ReadPort(l.Namespace, l.Name)
		if err != nil {
			return nil, err
		}
		counts[port.String()] = port.Overflows
	}
	return counts, nil
}

func (p *local) CPU(context.Context) (measure.CPUClock, error) { return measure.ReadCPU() }

func (p *local) Sender(o SenderOptions) (transit.Sender, error) {
	return transit.NewSender(p.namespace(), o.Ports, o.Stream, o.Cores)
}

func (p *local) Sink(at []int, o gen.SinkOptions) (transit.Sink, error) {
	s, err := gen.NewSink(p.namespace(), at, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (p *local) Reflector(at []int, o gen.ReflectorOptions) (stop func() error, err error) {
	r, err := gen.NewReflector(p.namespace(), at, o)
	if err != nil {
		return nil, err
	}
	return r.Close, nil
}

func (p *local) Close() error {
	var errs []error
	for _, r := range p.neighbours {
		errs = append(errs, r.Close())
	}
	p.neighbours = nil
	return errors.Join(errs...)
}
