// Package limit forwards frames as fast as this machine can: a redirect by XDP or at tc
// without a look at them. It is what the lab measures every data path against.
//
// Its one invariant: nothing is pinned, so a Wire ends with the process at the
// latest. Do not use it where somebody else's XDP program should stay.
package limit

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Accept attaches a program that lets everything pass to an interface that has none, in
// the network namespace of the calling thread. A veth without one does not deliver
// what its other end sends back by XDP_TX.
func Accept(ifindex int) (*Wire, error) {
	spec, err := loadLimit()
	if err != nil {
		return nil, err
	}
	var objects struct {
		Pass *ebpf.Program `ebpf:"pass"`
	}
	if err := spec.LoadAndAssign(&objects, nil); err != nil {
		return nil, err
	}
	w := &Wire{closers: []interface{ Close() error }{objects.Pass}}
	switch err := w.attach(objects.Pass, ifindex); {
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EEXIST): // it has one
		return w, nil
	case err != nil:
		return nil, errors.Join(fmt.Errorf("accept at interface %d: %w", ifindex, err), w.Close())
	}
	return w, nil
}

// Wire is what is attached to interfaces of one network namespace.
type Wire struct{ closers []interface{ Close() error } }

// Join has every frame that arrives at one interface leave by the other, both ways.
// It works in the network namespace of the calling thread.
func Join(a, b int) (*Wire, error) {
	w := &Wire{}
	for _, way := range [][2]int{{a, b}, {b, a}} {
		if err := w.forward(way[0], way[1]); err != nil {
			return nil, errors.Join(fmt.Errorf("forward from interface %d to %d: %w", way[0], way[1], err), w.Close())
		}
	}
	return w, nil
}

// Between has every frame of an end system, whole segments too, that arrives at a host's veth
// access leave by underlay, and what arrives there delivered at the other end of access, by
// bare redirects at tc. It works in the network namespace of the calling thread.
func Between(access, underlay int) (*Wire, error) {
	spec, err := specOf(access, underlay)
	if err != nil {
		return nil, err
	}
	var objects struct {
		HandOver *ebpf.Program `ebpf:"hand_over"`
		Deliver  *ebpf.Program `ebpf:"deliver"`
	}
	if err := spec.LoadAndAssign(&objects, nil); err != nil {
		return nil, err
	}
	return attachBoth(access, objects.HandOver, underlay, objects.Deliver)
}

// specOf has the programs between two interfaces.
func specOf(access, underlay int) (*ebpf.CollectionSpec, error) {
	spec, err := loadLimit()
	if err != nil {
		return nil, err
	}
	return spec, errors.Join(spec.Variables[limitVarAccessIfindex].Set(uint32(access)), spec.Variables[limitVarUnderlayIfindex].Set(uint32(underlay)))
}

// attachBoth attaches a program to each of two interfaces, at tc.
func attachBoth(access int, fromAccess *ebpf.Program, underlay int, fromUnderlay *ebpf.Program) (*Wire, error) {
	w := &Wire{closers: []interface{ Close() error }{fromAccess, fromUnderlay}}
	for ifindex, program := range map[int]*ebpf.Program{access: fromAccess, underlay: fromUnderlay} {
		attached, err := link.AttachTCX(link.TCXOptions{Interface: ifindex, Program: program, Attach: ebpf.AttachTCXIngress})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("redirect from interface %d at tc: %w", ifindex, err), w.Close())
		}
		w.closers = append(w.closers, attached)
	}
	return w, nil
}

// forward loads a program of its own for each way: so it has no choice to make.
func (w *Wire) forward(from, to int) error {
	spec, err := loadLimit()
	if err != nil {
		return err
	}
	var objects struct {
		Limit *ebpf.Program `ebpf:"limit"`
		Out   *ebpf.Map     `ebpf:"out"`
	}
	if err := spec.LoadAndAssign(&objects, nil); err != nil {
		return err
	}
	w.closers = append(w.closers, objects.Limit, objects.Out)
	if err := objects.Out.Put(uint32(0), uint32(to)); err != nil {
		return err
	}
	return w.attach(objects.Limit, from)
}

func (w *Wire) attach(program *ebpf.Program, ifindex int) error {
	attached, err := link.AttachXDP(link.XDPOptions{Program: program, Interface: ifindex, Flags: link.XDPDriverMode})
	if err != nil {
		return fmt.Errorf("native XDP: %w", err)
	}
	w.closers = append(w.closers, attached)
	return nil
}

// Close takes the programs from the interfaces.
func (w *Wire) Close() error {
	var errs []error
	for i := len(w.closers) - 1; i >= 0; i-- {
		errs = append(errs, w.closers[i].Close())
	}
	w.closers = nil
	return errors.Join(errs...)
}
