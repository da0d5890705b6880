package datapath

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// readPerCPU reads an array of which each core has its own, with one system call: the
// cores' values of the first entry, then those of the next.
func readPerCPU[V any](pr *programs, m kernel.Map) (values []V, cores int, err error) {
	return readSomePerCPU[V](pr, m, m.MaxEntries())
}

// readSomePerCPU reads the first n entries.
func readSomePerCPU[V any](pr *programs, m kernel.Map, n uint32) (values []V, cores int, err error) {
	cores, err = pr.kernel.Loader.Cores()
	if err != nil {
		return nil, 0, err
	}
	keys := make([]uint32, n)
	values = make([]V, len(keys)*cores)
	var cursor kernel.Cursor
	read, err := m.BatchLookup(&cursor, keys, values)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, 0, fmt.Errorf("read the map %s: %w", m, err)
	}
	if read != len(keys) {
		return nil, 0, fmt.Errorf("read %d of %d entries of the map %s", read, len(keys), m)
	}
	return values, cores, nil
}

// Drops lists every reason with its counter, those at zero too.
func (tf *Traffic) Drops() ([]Drop, error) {
	counters, cores, err := readPerCPU[bpfCounter](tf.prog, tf.maps.Drops)
	if err != nil {
		return nil, err
	}
	list := make([]Drop, 0, len(tf.prog.words.reasons))
	for i, w := range tf.prog.words.reasons {
		if bpfReason(i) == bpfReasonREASON_FORWARDED {
			continue
		}
		drop := Drop{Reason: w.name, Description: w.text}
		for _, c := range counters[i*cores : (i+1)*cores] {
			drop.Packets += c.Packets
			drop.Bytes += c.Bytes
		}
		list = append(list, drop)
	}
	return list, nil
}

// event is one of the counters of Events, without what is added to those of hits and transit.
func (tf *Traffic) event(e bpfEvent) (n uint64, err error) {
	var perCPU []uint64
	if err := tf.maps.Events.Lookup(uint32(e), &perCPU); err != nil {
		return 0, fmt.Errorf("read counter %d of events: %w", e, err)
	}
	for _, c := range perCPU {
		n += c
	}
	return n, nil
}

// Events counts what the data path did, by name.
func (tf *Traffic) Events() (map[string]uint64, error) {
	counters, cores, err := readPerCPU[uint64](tf.prog, tf.maps.Events)
	if err != nil {
		return nil, err
	}
	events := make(map[string]uint64, len(tf.prog.words.events))
	for i, w := range tf.prog.words.events {
		for _, n := range counters[i*cores : (i+1)*cores] {
			events[w.name] += n
		}
	}
	fast, err := tf.fastPackets()
	for _, event := range []bpfEvent{bpfEventEVENT_HIT, bpfEventEVENT_TRANSIT} {
		events[tf.prog.words.events[event].name] += fast
	}
	return events, err
}
