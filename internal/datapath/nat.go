package datapath

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
)

const (
	// maxNATFragments is how many datagrams are remembered until their last fragment came.
	maxNATFragments = 16384
	// mostHosts bounds the sources whose bindings are counted.
	mostHosts = 65536
	// leastRing is the smallest ring buffer that the kernel makes: a page.
	leastRing = 4096
)

// translation is what of Tables.Egress is in force.
type translation struct {
	// changing is held by SteerEgress and Apply while they write entries and pool, and by
	// who reads those.
	changing sync.Mutex
	entries  []edgeEgress // by number; 0 is never used
	pool     []edgeAddr
	taken    []bool                  // which of pool are an entry's, or were before the last change
	next     uint32                  // where the search for free ones begins
	owned    map[edgeLocalKey]uint32 // locals of the addresses that gateways answer for
	own      map[edgeLocalKey]bool   // and those of the edge itself, which are not theirs
	owners   map[edgeLocalKey]egressOwner

	// rules is nil where no policy is. numbers are those that its image was made with.
	rules   *policy.Policy
	numbers policy.Numbers

	news     *ringbuf.Reader // nil until it is asked for, and so is sweeper
	sweeping sync.Mutex
	sweeper  *natSweeper
}

func (n *translation) close() error {
	var news error
	if n.news != nil {
		news = n.news.Close()
	}
	swept := n.sweeper.close()
	n.news, n.sweeper = nil, nil
	return errors.Join(news, swept)
}

// configureEgress sizes the tables and sets what the programs have to know of e.
func configureEgress(spec *ebpf.CollectionSpec, e *overlay.Egress) error {
	if e == nil { // what takes memory before it is used has one entry, as others in bpf/abi/maps.h
		spec.Maps[edgeMapNews].MaxEntries = leastRing
		spec.Maps[edgeMapForwards].MaxEntries = 1
		return nil
	}
	if e.Bindings == 0 {
		return errors.New("egress: table of bindings without entries")
	}
	for name, size := range map[string]uint32{
		edgeMapBindings: e.Bindings, edgeMapReturns: 2 * e.Bindings,
		edgeMapHostCounts: min(e.Bindings, mostHosts), edgeMapNatFragments: maxNATFragments,
	} {
		spec.Maps[name].MaxEntries = size
	}
	var timeouts [sweepConnStateSTATE_MAX]uint64
	for state, timeout := range stateTimeouts(e.Timeouts) {
		if timeout <= 0 {
			return fmt.Errorf("egress: timeout of state %q is %s", StateNames[state], timeout)
		}
		timeouts[state] = uint64(timeout)
	}
	for name, value := range map[string]any{edgeVarWithNat: true, edgeVarNatTimeouts: timeouts, edgeVarNatNews: hasReaders(e)} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// hasReaders reports whether somebody reads the news of bindings.
func hasReaders(e *overlay.Egress) bool {
	for _, g := range e.Gateways {
		if g.Replication != nil {
			return true
		}
	}
	return e.Log
}

// restoreEgress reads which numbers a former process gave to egresses.
func (d *Datapath) restoreEgress() error {
	d.nat.entries = make([]edgeEgress, d.objs.Egresses.MaxEntries())
	d.nat.pool = make([]edgeAddr, d.objs.Pool.MaxEntries())
	d.nat.taken = make([]bool, len(d.nat.pool))
	if err := readArray(d.objs.Egresses, d.nat.entries); err != nil {
		return err
	}
	return readArray(d.objs.Pool, d.nat.pool)
}
