package transit

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/dut/router"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/losses"
)

// Site is what instruments stand around: a testbed that was built, or ports that exist.
type Site interface {
	// Ends says where the frames of a direction start and arrive.
	Ends(direction string) (Ends, error)
	// Drops are the counters of lost packets that can be seen, by name.
	Drops(ctx context.Context) (losses.Counts, error)
	// Accounts says whether these name every lost frame. Else they are the tester's own.
	Accounts() bool
}

// Ends are what the frames of a direction start at and arrive at.
type Ends struct {
	From, To netip.Prefix // of the stream
	Send     func(gen.Stream) (Sender, error)
	Sink     func(gen.SinkOptions) (Sink, error)
	// Stand, by turns, is what has to stand before anything is sent: what loops frames back, and what drivers need.
	Stand []func() (stop func() error, err error)
}

// Sender offers loads, one after the other, each a run with a number.
type Sender interface {
	Next() uint16 // the number of the next run
	Run(context.Context, gen.Load) (gen.Sent, error)
	Close() error
}

// Sink takes frames in, those of one run.
type Sink interface {
	Reset(run uint16) error
	Read() (gen.Report, error)
	Close() error
}

// Ends are the testbed's.
func (b *Testbed) Ends(direction string) (e Ends, err error) {
	n := b.Net
	namespace := n.Tester.Namespace
	e = Ends{From: n.Outside, To: n.Inside}
	into, loop := n.Underlays, n.Uplinks
	if direction == Decap {
		e.From, e.To = n.Inside, n.Outside
	}
	if direction != Encap {
		into, loop = n.Uplinks, n.Underlays
	}
	ports, err := b.ports(direction)
	if err != nil {
		return e, err
	}
	sinks, err := b.indexes(into)
	if err != nil {
		return e, err
	}
	core, _ := pins()
	e.Send = func(s gen.Stream) (Sender, error) { return NewSender(namespace, ports, s, []int{core}) }
	e.Sink = func(o gen.SinkOptions) (Sink, error) { return gen.NewSink(namespace, sinks, o) }
	if direction != Both {
		return e, nil
	}
	loops, err := b.indexes(loop)
	if err != nil {
		return e, err
	}
	e.Stand = append(e.Stand, n.AcceptBack, func() (func() error, error) {
		r, err := gen.NewReflector(namespace, loops, gen.ReflectorOptions{})
		if err != nil {
			return nil, err
		}
		return r.Close, nil
	})
	return e, nil
}

// Accounts is true: the testbed's hosts are this machine's.
func (b *Testbed) Accounts() bool { return true }

// Drops are all counters of lost packets of the testbed's hosts: reasons of the kernel, and
// what its driver and the device itself counted besides.
func (b *Testbed) Drops(ctx context.Context) (losses.Counts, error) {
	all := losses.Counts{}
	for host, inode := range b.netns {
		counts, err := b.watch.Read(inode)
		if err != nil {
			return nil, err
		}
		for name, n := range counts {
			if !b.excused(host, name) {
				all[host+" "+name] = n
			}
		}
	}
	driver, err := b.Net.DriverDrops()
	if err != nil {
		return nil, err
	}
	if b.Device.Drops != nil {
		own, err := b.Device.Drops(ctx)
		if err != nil {
			return nil, err
		}
		for name, n := range own {
			all["device "+name] = n
		}
	}
	for name, n := range driver {
		if !b.Device.Programs || !strings.HasPrefix(name, router.DroppedByXDP) {
			all["device "+name] = n
		}
	}
	return all, nil
}

// excused are counters that count no loss, or one that the device counts itself, and what
// the tester's own interface did not take from the generator, which counts that (overrun).
func (b *Testbed) excused(host, name string) bool {
	if host == b.Net.Tester.Name {
		return strings.HasPrefix(name, losses.Transmit)
	}
	reason, freed := strings.CutPrefix(name, losses.Freed)
	return freed && slices.Contains(b.Device.Excused, reason)
}
