package datapath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/cilium/ebpf"
)

// stampSlots is how many stamps each core has room for in an edge that takes any: 4 MB.
const stampSlots = 1 << 18

// Point is what a packet has behind it when a stamp is taken.
type Point uint8

// The points of bpf/core/stamp.h. PointPort and PointUnderlay are where programs begin;
// PointSent is the last of a packet that goes on.
const (
	PointPort     = Point(bpfPointPOINT_PORT)
	PointUnderlay = Point(bpfPointPOINT_UNDERLAY)
	PointParsed   = Point(bpfPointPOINT_PARSED)
	PointCached   = Point(bpfPointPOINT_CACHED)
	PointSwitched = Point(bpfPointPOINT_RESOLVED)
	PointPoliced  = Point(bpfPointPOINT_ADMITTED)
	PointDecided  = Point(bpfPointPOINT_DECIDED)
	PointSent     = Point(bpfPointPOINT_SENT)
)

// Stamp is when a packet passed a point. Those of one core are in order, and those of
// one packet next to each other.
type Stamp struct {
	At    time.Duration // CLOCK_MONOTONIC
	CPU   int
	Point Point
}

// configureTiming has the edge's programs take stamps when asked to.
func configureTiming(spec *ebpf.CollectionSpec, timing bool) error {
	if !timing {
		return nil
	}
	return TakeStamps(spec)
}

// TakeStamps has programs that include bpf/core/stamp.h take stamps, which Stamps reads.
func TakeStamps(spec *ebpf.CollectionSpec) error {
	cores, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("count the cores: %w", err)
	}
	spec.Maps[bpfMapStamps].MaxEntries = uint32(cores) * stampSlots
	if err := spec.Variables[bpfVarStampSlots].Set(uint32(stampSlots)); err != nil {
		return fmt.Errorf("set %s: %w", bpfVarStampSlots, err)
	}
	return nil
}

// Stamps are what programs have written down, an edge's of this process or another.
type Stamps struct {
	stamps, stamped *ebpf.Map
	memory          *ebpf.Memory
}

// OpenStamps opens those of the edge that is named, whose pins are below PinRoot(pinRoot). It fails when the edge takes none.
func OpenStamps(pinRoot, name string) (*Stamps, error) {
	pinRoot = PinRoot(pinRoot)
	dir := (&Pins{dir: filepath.Join(pinRoot, name)}).mapDir()
	var maps [2]*ebpf.Map
	for i, file := range []string{bpfMapStamps, bpfMapStamped} {
		opened, err := ebpf.LoadPinnedMap(filepath.Join(dir, file), nil)
		if err != nil {
			maps[0].Close()
			return nil, fmt.Errorf("stamps of edge %s: %w (does it run, and is it of this version?)", name, err)
		}
		maps[i] = opened
	}
	if maps[0].MaxEntries() < stampSlots {
		maps[0].Close()
		maps[1].Close()
		return nil, fmt.Errorf("edge %s takes no stamps: start it with SELVAGE_TIMING=1", name)
	}
	s, err := NewStamps(maps[0], maps[1])
	if err != nil {
		return nil, fmt.Errorf("edge %s: %w", name, err)
	}
	return s, nil
}

// NewStamps reads the maps of that name of programs that TakeStamps was called for. It
// closes them, also when it fails.
func NewStamps(stamps, stamped *ebpf.Map) (*Stamps, error) {
	s := &Stamps{stamps: stamps, stamped: stamped}
	memory, err := stamps.Memory()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read stamps: %w", err), s.Close())
	}
	s.memory = memory
	return s, nil
}

// Close lets go of them; the edge goes on.
func (s *Stamps) Close() error { return errors.Join(s.stamps.Close(), s.stamped.Close()) }

// Clear forgets all stamps. Packets that pass meanwhile may leave some.
func (s *Stamps) Clear() error {
	cores, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("count the cores: %w", err)
	}
	if err := s.stamped.Put(uint32(0), make([]bpfStamped, cores)); err != nil {
		return fmt.Errorf("clear the stamps: %w", err)
	}
	return nil
}

// Read returns the stamps since Clear, one core's after the other's, and how many more
// there was no room for.
func (s *Stamps) Read() (stamps []Stamp, lost uint64, err error) {
	var parts []bpfStamped
	if err := s.stamped.Lookup(uint32(0), &parts); err != nil {
		return nil, 0, fmt.Errorf("read the stamps: %w", err)
	}
	for cpu, part := range parts {
		lost += uint64(part.Lost)
		some, err := s.ofCore(cpu, int(part.Kept))
		if err != nil {
			return nil, 0, err
		}
		stamps = slices.Concat(stamps, some)
	}
	return stamps, lost, nil
}

func (s *Stamps) ofCore(cpu, n int) ([]Stamp, error) {
	size := binary.Size(bpfStamp{})
	raw := make([]byte, n*size)
	if _, err := s.memory.ReadAt(raw, int64(cpu)*stampSlots*int64(size)); n > 0 && err != nil {
		return nil, fmt.Errorf("read %d stamps of core %d: %w", n, cpu, err)
	}
	packed := make([]bpfStamp, n)
	if _, err := binary.Decode(raw, binary.NativeEndian, packed); err != nil {
		return nil, fmt.Errorf("read %d stamps of core %d: %w", n, cpu, err)
	}
	stamps := make([]Stamp, n)
	for i, p := range packed {
		stamps[i] = Stamp{At: time.Duration(p.Ns), CPU: int(p.Cpu), Point: Point(p.Point)}
	}
	return stamps, nil
}
