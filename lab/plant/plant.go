// Package plant harms one of two equal data paths by a known amount: packets take longer, or
// one of many is lost. With it the A/B experiment proves what it can see.
//
// Its one invariant: what it did is counted, and ends with the process at the latest. It is no
// part of any target: do not use it to imitate a slow network.
package plant

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Harm is what happens to IPv4 packets that leave an interface.
type Harm struct {
	// UDP, SmallTCP and BulkTCP are the turns of a loop of nothing for each packet; of TCP,
	// BulkTCP for segments that are not cut yet. A turn takes one or two ns.
	UDP, SmallTCP, BulkTCP uint32
	// OneOf has every so many-th UDP packet dropped; 0 none.
	OneOf uint32
}

// Plant is harm at one interface.
type Plant struct {
	program            *ebpf.Program
	link               link.Link
	delayed, discarded *ebpf.Variable
}

// At plants harm at the egress of an interface, after all that is there, in the network
// namespace of the calling thread.
func At(ifindex int, harm Harm) (*Plant, error) {
	spec, err := loadPlant()
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]any{
		plantVarUdpTurns: harm.UDP, plantVarSmallTcpTurns: harm.SmallTCP, plantVarBulkTcpTurns: harm.BulkTCP, plantVarOneOf: harm.OneOf,
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	var objects struct {
		Plant   *ebpf.Program  `ebpf:"plant"`
		Delayed *ebpf.Variable `ebpf:"delayed"`
		Dropped *ebpf.Variable `ebpf:"dropped"`
	}
	if err := spec.LoadAndAssign(&objects, nil); err != nil {
		return nil, err
	}
	p := &Plant{program: objects.Plant, delayed: objects.Delayed, discarded: objects.Dropped}
	p.link, err = link.AttachTCX(link.TCXOptions{Interface: ifindex, Program: p.program, Attach: ebpf.AttachTCXEgress})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("plant harm at interface %d: %w", ifindex, err), p.program.Close())
	}
	return p, nil
}

// Count is how many packets were held up and how many were dropped.
func (p *Plant) Count() (delayed, dropped uint64, err error) {
	return delayed, dropped, errors.Join(p.delayed.Get(&delayed), p.discarded.Get(&dropped))
}

// Close removes it.
func (p *Plant) Close() error { return errors.Join(p.link.Close(), p.program.Close()) }
