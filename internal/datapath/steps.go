package datapath

import (
	"net/netip"

	"github.com/selvage/selvage/internal/fib"
)

// Steps are what an Apply lets happen while it works. The zero value has nothing happen.
type Steps struct {
	// Yield is called between objects, by the goroutine of Apply. Steer, SteerEgress, PutRoutes, PutBGPMACs, PutARPEntries,
	// Forget and those of HostEvents may be called in it. Before Latest they are about the tables that were
	// applied last, after it about those that are being applied: what they write stays.
	Yield func()
	// Beside has do done by another goroutine, in the edge's network namespace, and may do meanwhile what Yield does.
	Beside func(do func())
	// Latest returns the tables as they are wanted by now, right before they are written. They differ from those
	// that Apply began with only by which paths, gateways and routes are used.
	Latest func(t fib.Tables) fib.Tables
}

// underway is the Apply that is under way.
type underway struct {
	steps Steps
	// inForce are the names of the tables that were applied last, until others are written.
	inForce *namesInForce
	// plan is what is being written; nil before that begins, and without an Apply.
	plan *plan
}

// namesInForce are names that the maps agree with.
type namesInForce struct {
	names names
	edges map[netip.Addr]netip.Addr
}

// keepNames remembers the names in force, before others are given.
func (nu *numbers) keepNames() { nu.underway.inForce = &namesInForce{nu.names, nu.edges} }

// exchangeNames has the names in force be the others of the two.
func (nu *numbers) exchangeNames() {
	if f := nu.underway.inForce; f != nil {
		nu.names, f.names = f.names, nu.names
		nu.edges, f.edges = f.edges, nu.edges
	}
}

// yield lets happen what is more urgent than an Apply.
func (nu *numbers) yield() {
	if nu.underway.steps.Yield == nil {
		return
	}
	nu.exchangeNames()
	nu.underway.steps.Yield()
	nu.exchangeNames()
}

// beside does what takes long and has nothing to do with names, paths, gateways, routes and hosts.
func (nu *numbers) beside(do func() error) (err error) {
	if nu.underway.steps.Beside == nil {
		return do()
	}
	nu.exchangeNames()
	nu.underway.steps.Beside(func() { err = do() })
	nu.exchangeNames()
	return err
}

// latest are the tables of t as they are wanted by now, of which p is to be written.
func (nu *numbers) latest(t fib.Tables, p *plan) fib.Tables {
	if nu.underway.steps.Latest != nil {
		t = nu.underway.steps.Latest(t)
		if nu.names.incomplete {
			t = nu.within(t)
		}
	}
	nu.underway.inForce, nu.underway.plan = nil, p
	return t
}

// end is that of an Apply. One that has written nothing leaves the names as they were.
func (nu *numbers) end() {
	nu.exchangeNames()
	nu.underway = underway{}
}
