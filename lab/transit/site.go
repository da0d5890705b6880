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

// Ends are where the frames of a direction start and arrive.
type Ends struct {
	From, To  netip.Prefix // of the stream
	Namespace string       // of Ports
	Ports     []gen.Port
	Cores     []int // of the generator

	SinkNamespace string // of Into
	Into          []int  // interfaces of the sink
	SinkMode      gen.Mode
	Loop          []int // interfaces that send frames back, if there are any
	LoopNamespace string
	LoopPlain     bool // frames without a tunnel, too
	LoopRedirect  bool // as gen.ReflectorOptions has it
	// Begin, unless nil, prepares the site for the direction.
	Begin func() (stop func() error, err error)
}

// Ends are the testbed's.
func (b *Testbed) Ends(direction string) (e Ends, err error) {
	n := b.Net
	e = Ends{From: n.Outside, To: n.Inside, Namespace: n.Tester.Namespace, SinkNamespace: n.Tester.Namespace}
	into, loop := n.Underlays, n.Uplinks
	if direction == Decap {
		e.From, e.To = n.Inside, n.Outside
	}
	if direction != Encap {
		into, loop = n.Uplinks, n.Underlays
	}
	if e.Ports, err = b.ports(direction); err != nil {
		return e, err
	}
	if e.Into, err = b.indexes(into); err != nil {
		return e, err
	}
	if direction == Both {
		e.Begin, e.LoopNamespace = n.AcceptBack, n.Tester.Namespace
		if e.Loop, err = b.indexes(loop); err != nil {
			return e, err
		}
	}
	core, _ := cores()
	e.Cores = []int{core}
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
