package datapath

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/overlay"
)

const (
	// maxSegments is MAX_SEGMENTS of bpf/abi/forwarding.h.
	maxSegments = 4096
	// usualMembers is how many members a segment has at most where nothing is configured.
	usualMembers = 1024
)

// byVport are the maps that are as large as the table of vports.
func byVport() []string {
	return []string{bpfMapVports, bpfMapPorts, bpfMapTeps, bpfMapPathReports, bpfMapPathGroups, bpfMapTraffic}
}

// byOwner are the maps with an entry for each vport and segment.
func byOwner() []string {
	return []string{bpfMapOwnerLimits, bpfMapOwnerUsages, conntrackGcMapCtFoundCounts, natGcMapNatOwnerUsages}
}

// configureTables gives tables the sizes of the configuration.
func configureTables(spec *ebpf.CollectionSpec, t overlay.Tables) {
	set := func(size uint32, names ...string) {
		for _, name := range names {
			if m := spec.Maps[name]; m != nil && size > 0 {
				m.MaxEntries = size
			}
		}
	}
	set(t.Vports, byVport()...)
	if t.Vports > 0 {
		set(maxSegments+t.Vports, byOwner()...)
	}
	set(t.Members, bpfMapMembers)
	set(t.Remotes, bpfMapRemotes)
	set(t.Routes, bpfMapRoutes)
	set(t.NextHops, bpfMapNexthops)
	set(t.NextHopGroups, bpfMapNexthopGroups)
}

// resizedPrefix is of the pins of maps that are being filled. A process that ends leaves one.
const resizedPrefix = "resized_"

// segmentMembers is how many members of a segment get what is flooded.
func (pr *programs) segmentMembers() uint32 {
	if pr.cfg.Tables.SegmentMembers > 0 {
		return pr.cfg.Tables.SegmentMembers
	}
	return usualMembers
}

// keepNumbers has tables not shrink below the greatest number that a former process gave: hosts,
// connections and cached decisions refer to it.
func (pi *Pins) keepNumbers(spec *ebpf.CollectionSpec) error {
	for _, table := range []struct {
		name string
		size *uint32
		last func(kernel.Map) (uint32, error)
	}{
		{bpfMapVports, &pi.prog.cfg.Tables.Vports, lastUsed[bpfVport]},
		{bpfMapNexthops, &pi.prog.cfg.Tables.NextHops, lastUsed[bpfNexthop]},
		{bpfMapNexthopGroups, &pi.prog.cfg.Tables.NextHopGroups, lastUsed[bpfNexthopGroup]},
	} {
		m, err := pi.prog.kernel.Loader.PinnedMap(filepath.Join(pi.mapDir(), table.name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("open the pinned map %s: %w", table.name, err)
		}
		last, err := table.last(m)
		if err := errors.Join(err, m.Close()); err != nil {
			return err
		}
		wanted := *table.size
		if wanted == 0 {
			wanted = spec.Maps[table.name].MaxEntries
		}
		*table.size = max(wanted, last+1)
	}
	return nil
}

// lastUsed is the greatest number in an array whose entry is not zero.
func lastUsed[V comparable](m kernel.Map) (last uint32, err error) {
	var zero V
	err = walk(m, func(k uint32, v V) {
		if v != zero {
			last = max(last, k)
		}
	})
	return last, err
}

// tableCopies copy tables that keep what they hold when their size changes. Programs that are
// attached use the former ones until they are replaced.
var tableCopies = map[string]func(to, from kernel.Map) error{
	bpfMapVports:        copyArray[bpfVport],
	bpfMapPorts:         copyHash[bpfPortKey, uint32],
	bpfMapTeps:          copyHash[bpfPathKey, uint32],
	bpfMapPathReports:   copyHash[bpfPathKey, bpfPathReport],
	bpfMapPathGroups:    copyHash[bpfPathGroupKey, bpfPathGroup],
	bpfMapTraffic:       copyArray[[]bpfVportCounters],
	bpfMapOwnerLimits:   copyArray[bpfLimits],
	bpfMapOwnerUsages:   copyArray[bpfLimitUsage],
	bpfMapMembers:       copyHash[bpfMemberKey, uint32],
	bpfMapRemotes:       copyHash[bpfRemoteKey, uint32],
	bpfMapRoutes:        copyHash[bpfRouteKey, bpfRoute],
	bpfMapNexthops:      copyArray[bpfNexthop],
	bpfMapNexthopGroups: copyArray[bpfNexthopGroup],
}

// resize has a map of another size take the name and the entries of m, in one step: no process
// finds the name without its entries.
func (pi *Pins) resize(spec *ebpf.MapSpec, m kernel.Map) error {
	unpinned := spec.Copy()
	unpinned.Pinning = ebpf.PinNone
	to, err := pi.prog.kernel.Loader.NewMap(unpinned)
	if err != nil {
		return fmt.Errorf("make a table of %d entries: %w", spec.MaxEntries, err)
	}
	defer to.Close()
	if err := tableCopies[spec.Name](to, m); err != nil {
		return err
	}
	aside := filepath.Join(pi.mapDir(), resizedPrefix+spec.Name)
	if err := to.Pin(aside); err != nil {
		return err
	}
	return pi.prog.kernel.Pins.Rename(aside, filepath.Join(pi.mapDir(), spec.Name))
}

// dropUnfinished removes what a process has left that ended while it resized a map.
func (pi *Pins) dropUnfinished() error {
	names, err := pi.prog.kernel.Pins.List(pi.mapDir())
	for _, name := range names {
		if strings.HasPrefix(name, resizedPrefix) {
			err = errors.Join(err, pi.prog.kernel.Pins.Remove(filepath.Join(pi.mapDir(), name)))
		}
	}
	return err
}

// copyArray copies an array, as far as there is room.
func copyArray[V any](to, from kernel.Map) error {
	for i := range min(to.MaxEntries(), from.MaxEntries()) {
		var v V
		if err := from.Lookup(i, &v); err != nil {
			return fmt.Errorf("read the map %s: %w", from, err)
		}
		if err := to.Put(i, v); err != nil {
			return fmt.Errorf("write the map %s: %w", to, err)
		}
	}
	return nil
}

// copyHash copies a hash map or a trie, as far as there is room: what is wanted of the rest is
// written again.
func copyHash[K, V any](to, from kernel.Map) error {
	var key K
	var value V
	it := from.Iterate()
	for it.Next(&key, &value) {
		err := to.Put(key, value)
		if isFull(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("write the map %s: %w", to, err)
		}
	}
	if err := it.Err(); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("walk the map %s: %w", from, err)
	}
	return nil
}
