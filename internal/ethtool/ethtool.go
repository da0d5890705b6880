// Package ethtool asks and changes network adapters by the kernel's SIOCETHTOOL ioctl, whose
// structures are those of include/uapi/linux/ethtool.h.
//
// Its one invariant: the kernel writes into memory that is mapped for one question and has a
// guard behind it, never into the heap or a stack. An answer that is longer than the kernel said
// it would be (an adapter got more queues meanwhile) is EFAULT, not another variable's end.
package ethtool

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Sets of words: enum ethtool_stringset.
const (
	setStats    = 1
	setFeatures = 4
)

// DriverInfo tells who drives an interface.
type DriverInfo struct{ Driver, Version, FwVersion, BusInfo string }

// FeatureState is an offload and what may be done with it.
type FeatureState struct{ Available, Requested, Active, NeverChanged bool }

// Ring is how many frames an adapter's queues hold.
type Ring struct{ RxMaxPending, TxMaxPending, RxPending, TxPending uint32 }

// Channels are an adapter's queues.
type Channels struct{ MaxRx, MaxTx, MaxCombined, RxCount, TxCount, CombinedCount uint32 }

// Pause is Ethernet's flow control; 0 is off.
type Pause struct{ Autoneg, RxPause, TxPause uint32 }

// Coalesce is how long an adapter waits before it interrupts.
type Coalesce struct{ RxCoalesceUsecs, UseAdaptiveRxCoalesce uint32 }

// Tool asks in one network namespace. Its methods may be called from any thread, take an
// interface by its name and return the kernel's unix.Errno as it is.
type Tool struct{ fd int }

// Open opens a tool in the network namespace of the calling thread.
func Open() (*Tool, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &Tool{fd}, nil
}

// Close ends the asking.
func (t *Tool) Close() { unix.Close(t.fd) }

// Features are the offloads that are in force, by the kernel's names.
func (t *Tool) Features(name string) (map[string]bool, error) {
	states, err := t.FeaturesWithState(name)
	if err != nil {
		return nil, err
	}
	on := make(map[string]bool, len(states))
	for feature, s := range states {
		on[feature] = s.Active
	}
	return on, nil
}

// FeaturesWithState are the offloads by the kernel's names.
func (t *Tool) FeaturesWithState(name string) (map[string]FeatureState, error) {
	names, err := t.names(name, setFeatures)
	if err != nil {
		return nil, err
	}
	var blocks []featureBlock
	size := featureBlocks(len(names))
	err = t.ask(name, unix.ETHTOOL_GFEATURES, 8+16*size, func(m message) { m.put(4, uint32(size)) }, func(m message) {
		for i := range size {
			at := 8 + 16*i
			blocks = append(blocks, featureBlock{m.word(at), m.word(at + 4), m.word(at + 8), m.word(at + 12)})
		}
	})
	if err != nil {
		return nil, err
	}
	states := make(map[string]FeatureState, len(names))
	for i, feature := range names {
		if feature != "" {
			states[feature] = blocks[i/32].state(i % 32)
		}
	}
	return states, nil
}

// featureBlock has a bit for each of 32 offloads.
type featureBlock struct{ available, requested, active, neverChanged uint32 }

func featureBlocks(features int) int { return (features + 31) / 32 }

func (b featureBlock) state(bit int) FeatureState {
	is := func(word uint32) bool { return word>>bit&1 == 1 }
	return FeatureState{Available: is(b.available), Requested: is(b.requested), Active: is(b.active), NeverChanged: is(b.neverChanged)}
}

// Change turns offloads on or off, by the kernel's names. The driver may leave some as they
// were without an error; a name that the kernel does not know is one.
func (t *Tool) Change(name string, features map[string]bool) error {
	names, err := t.names(name, setFeatures)
	if err != nil {
		return err
	}
	numbers := make(map[string]int, len(names))
	for i, feature := range names {
		numbers[feature] = i
	}
	size := featureBlocks(len(names))
	valid, requested := make([]uint32, size), make([]uint32, size)
	for feature, on := range features {
		i, known := numbers[feature]
		if !known || feature == "" {
			return fmt.Errorf("the kernel knows no offload %q", feature)
		}
		valid[i/32] |= 1 << (i % 32)
		if on {
			requested[i/32] |= 1 << (i % 32)
		}
	}
	return t.ask(name, unix.ETHTOOL_SFEATURES, 8+8*size, func(m message) {
		m.put(4, uint32(size))
		for i := range size {
			m.put(8+8*i, valid[i])
			m.put(12+8*i, requested[i])
		}
	}, nil)
}

// DriverInfo tells who drives the interface.
func (t *Tool) DriverInfo(name string) (d DriverInfo, err error) {
	const size = 196
	err = t.ask(name, unix.ETHTOOL_GDRVINFO, size, nil, func(m message) {
		d = DriverInfo{Driver: m.text(4), Version: m.text(36), FwVersion: m.text(68), BusInfo: m.text(100)}
	})
	return d, err
}

// DriverName is the name of the interface's driver.
func (t *Tool) DriverName(name string) (string, error) {
	info, err := t.DriverInfo(name)
	return info.Driver, err
}

// Speed is in Mbit/s, by ETHTOOL_GSET, which the kernel converts to. The value for unknown is a
// number as well: all ones.
func (t *Tool) Speed(name string) (mbps uint32, err error) {
	const size, low, high = 44, 12, 28
	err = t.ask(name, unix.ETHTOOL_GSET, size, nil, func(m message) {
		mbps = uint32(m.half(high))<<16 | uint32(m.half(low))
		if mbps == 1<<16-1 {
			mbps = 1<<32 - 1
		}
	})
	return mbps, err
}

// Ring is the size of the queues.
func (t *Tool) Ring(name string) (r Ring, err error) {
	err = t.ask(name, unix.ETHTOOL_GRINGPARAM, 36, nil, func(m message) {
		r = Ring{RxMaxPending: m.word(4), TxMaxPending: m.word(16), RxPending: m.word(20), TxPending: m.word(32)}
	})
	return r, err
}

// Channels is the number of queues.
func (t *Tool) Channels(name string) (c Channels, err error) {
	err = t.ask(name, unix.ETHTOOL_GCHANNELS, 36, nil, func(m message) {
		c = Channels{
			MaxRx: m.word(4), MaxTx: m.word(8), MaxCombined: m.word(16),
			RxCount: m.word(20), TxCount: m.word(24), CombinedCount: m.word(32),
		}
	})
	return c, err
}

// Pause is the flow control.
func (t *Tool) Pause(name string) (p Pause, err error) {
	err = t.ask(name, unix.ETHTOOL_GPAUSEPARAM, 16, nil, func(m message) {
		p = Pause{Autoneg: m.word(4), RxPause: m.word(8), TxPause: m.word(12)}
	})
	return p, err
}

// SetPause asks for a flow control. Drivers may drop the link for a moment.
func (t *Tool) SetPause(name string, p Pause) error {
	return t.ask(name, unix.ETHTOOL_SPAUSEPARAM, 16, func(m message) {
		m.put(4, p.Autoneg)
		m.put(8, p.RxPause)
		m.put(12, p.TxPause)
	}, nil)
}

// Coalesce is the rule for interrupts.
func (t *Tool) Coalesce(name string) (c Coalesce, err error) {
	err = t.ask(name, unix.ETHTOOL_GCOALESCE, 92, nil, func(m message) {
		c = Coalesce{RxCoalesceUsecs: m.word(4), UseAdaptiveRxCoalesce: m.word(40)}
	})
	return c, err
}

// SetRing asks for queues of so many frames. Drivers may round them, and may drop the link for a
// moment.
func (t *Tool) SetRing(name string, rx, tx uint32) error {
	return t.edit(name, unix.ETHTOOL_GRINGPARAM, unix.ETHTOOL_SRINGPARAM, 36, func(m message) {
		m.put(20, rx)
		m.put(32, tx)
	})
}

// SetCoalesce asks for a rule for interrupts. Its other parts stay.
func (t *Tool) SetCoalesce(name string, c Coalesce) error {
	return t.edit(name, unix.ETHTOOL_GCOALESCE, unix.ETHTOOL_SCOALESCE, 92, func(m message) {
		m.put(4, c.RxCoalesceUsecs)
		m.put(40, c.UseAdaptiveRxCoalesce)
	})
}

// Flow types of RSSFields.
const (
	UDPv4 = 2 // UDP_V4_FLOW
	UDPv6 = 6 // UDP_V6_FLOW
)

// Fields of a packet that RSS hashes: RXH_IP_SRC and so on.
const (
	HashSource      = 1 << 4
	HashDestination = 1 << 5
	HashPorts       = 1<<6 | 1<<7 // the first four bytes behind IP
)

// RSSFields are the fields that choose the queue of a flow type's packets.
func (t *Tool) RSSFields(name string, flow uint32) (fields uint64, err error) {
	err = t.ask(name, unix.ETHTOOL_GRXFH, rxnfcLength, func(m message) { m.put(4, flow) }, func(m message) { fields = m.long(8) })
	return fields, err
}

// SetRSSFields asks for them.
func (t *Tool) SetRSSFields(name string, flow uint32, fields uint64) error {
	return t.ask(name, unix.ETHTOOL_SRXFH, rxnfcLength, func(m message) {
		m.put(4, flow)
		m.putLong(8, fields)
	}, nil)
}

// rxnfcLength is that of struct ethtool_rxnfc.
const rxnfcLength = 192

// edit changes a part of what the kernel has.
func (t *Tool) edit(name string, get, set uint32, size int, change func(message)) error {
	was := make(message, size)
	if err := t.ask(name, get, size, nil, func(m message) { copy(was, m) }); err != nil {
		return err
	}
	return t.ask(name, set, size, func(m message) {
		copy(m[4:], was[4:])
		change(m)
	}, nil)
}

// Stats are the counters of the driver. Those of one name, as some drivers have one a queue, are added.
func (t *Tool) Stats(name string) (map[string]uint64, error) {
	names, err := t.names(name, setStats)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	stats := make(map[string]uint64, len(names))
	err = t.ask(name, unix.ETHTOOL_GSTATS, 8+8*len(names), func(m message) { m.put(4, uint32(len(names))) }, func(m message) {
		for i, stat := range names[:min(len(names), int(m.word(4)))] {
			stats[stat] += m.long(8 + 8*i)
		}
	})
	return stats, err
}

// names are the words of a set, by number.
func (t *Tool) names(name string, set uint32) (list []string, err error) {
	var count int
	err = t.ask(name, unix.ETHTOOL_GSSET_INFO, 16+4, func(m message) { m.putLong(8, 1<<set) }, func(m message) {
		if m.long(8)>>set&1 == 1 {
			count = int(m.word(16))
		}
	})
	if err != nil || count == 0 {
		return nil, err
	}
	err = t.ask(name, unix.ETHTOOL_GSTRINGS, 12+count*textLength, func(m message) {
		m.put(4, set)
		m.put(8, uint32(count))
	}, func(m message) {
		for i := range min(count, int(m.word(8))) {
			list = append(list, m.text(12+i*textLength))
		}
	})
	return list, err
}
