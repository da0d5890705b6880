// Package inventory lists the BPF programs and maps of a host, whoever loaded them.
//
// Its one invariant: it changes nothing, and reads no entry of any map. Do not use it to read a data path (datapath).
package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// most are listed of each.
const most = 20_000

// Program is one program.
type Program struct {
	ID      uint32        `json:"id"`
	Name    string        `json:"name"`
	Type    string        `json:"type"`
	Tag     string        `json:"tag"`
	Memlock uint64        `json:"memlock_bytes"`
	Loaded  time.Duration `json:"loaded_after_boot_ns"`
	// Run is how often it ran and for how long, since the kernel.bpf_stats_enabled sysctl was set.
	Runs    uint64        `json:"runs"`
	RunTime time.Duration `json:"run_time_ns"`
	Misses  uint64        `json:"recursion_misses"`
	Maps    []uint32      `json:"maps"`
}

// Map is one map.
type Map struct {
	ID      uint32 `json:"id"`
	Name    string `json:"name"`
	Type    string `json:"type"`
	Key     uint32 `json:"key_bytes"`
	Value   uint32 `json:"value_bytes"`
	Entries uint32 `json:"max_entries"`
	Memlock uint64 `json:"memlock_bytes"`
}

// Link is what a program is attached by, with the kernel's numbers of types.
type Link struct {
	ID      uint32 `json:"id"`
	Type    uint32 `json:"type"` // enum bpf_link_type: 6 is XDP, 11 tcx
	Program uint32 `json:"program"`
	Ifindex uint32 `json:"ifindex,omitempty"`
	At      uint32 `json:"attach_type,omitempty"` // enum bpf_attach_type
}

// Inventory is what a host has.
type Inventory struct {
	Programs []Program `json:"programs"`
	Maps     []Map     `json:"maps"`
	Links    []Link    `json:"links"`
	Memlock  uint64    `json:"memlock_bytes"` // of all
	Left     bool      `json:"left_out"`      // there are more
}

// Read lists them. What goes meanwhile is left out.
func Read(ctx context.Context) (inv Inventory, err error) {
	var left [3]bool
	inv.Programs, left[0], err = list(ctx, func(id uint32) (uint32, error) {
		next, err := ebpf.ProgramGetNextID(ebpf.ProgramID(id))
		return uint32(next), err
	}, programOf)
	if err != nil {
		return inv, fmt.Errorf("list BPF programs: %w", err)
	}
	inv.Maps, left[1], err = list(ctx, func(id uint32) (uint32, error) {
		next, err := ebpf.MapGetNextID(ebpf.MapID(id))
		return uint32(next), err
	}, mapOf)
	if err != nil {
		return inv, fmt.Errorf("list BPF maps: %w", err)
	}
	for _, p := range inv.Programs {
		inv.Memlock += p.Memlock
	}
	for _, m := range inv.Maps {
		inv.Memlock += m.Memlock
	}
	inv.Links, left[2], err = links(ctx)
	inv.Left = left[0] || left[1] || left[2]
	return inv, err
}

// list lists objects by their numbers.
func list[T any](ctx context.Context, after func(id uint32) (uint32, error), read func(id uint32) (T, error)) (all []T, left bool, err error) {
	all = []T{}
	for id := uint32(0); ; {
		if id, err = after(id); errors.Is(err, fs.ErrNotExist) {
			return all, false, nil
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return all, true, err
		}
		if len(all) == most {
			return all, true, nil
		}
		one, err := read(id)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return all, true, err
		default:
			all = append(all, one)
		}
	}
}

// links lists what programs are attached by.
func links(ctx context.Context) (all []Link, left bool, err error) {
	all = []Link{}
	var it link.Iterator
	defer it.Close()
	for it.Next() {
		if len(all) == most || ctx.Err() != nil {
			return all, true, ctx.Err()
		}
		info, err := it.Link.Info()
		if err != nil {
			continue // it went, or is of a kind that nothing is known of
		}
		l := Link{ID: uint32(info.ID), Type: uint32(info.Type), Program: uint32(info.Program)}
		if tcx := info.TCX(); tcx != nil {
			l.Ifindex, l.At = tcx.Ifindex, uint32(tcx.AttachType)
		} else if xdp := info.XDP(); xdp != nil {
			l.Ifindex = xdp.Ifindex
		}
		all = append(all, l)
	}
	return all, false, it.Err()
}

func programOf(id uint32) (p Program, err error) {
	prog, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if err != nil {
		return p, fmt.Errorf("BPF program %d: %w", id, err)
	}
	defer prog.Close()
	info, err := prog.Info()
	if err != nil {
		return p, fmt.Errorf("BPF program %d: %w", id, err)
	}
	p = Program{ID: id, Name: info.Name, Type: info.Type.String(), Tag: info.Tag, Maps: []uint32{}}
	p.Memlock, _ = info.Memlock()
	p.Loaded, _ = info.LoadTime()
	if stats, err := prog.Stats(); err == nil {
		p.Runs, p.RunTime, p.Misses = stats.RunCount, stats.Runtime, stats.RecursionMisses
	}
	ids, _ := info.MapIDs()
	for _, m := range ids {
		p.Maps = append(p.Maps, uint32(m))
	}
	return p, nil
}

func mapOf(id uint32) (m Map, err error) {
	table, err := ebpf.NewMapFromID(ebpf.MapID(id))
	if err != nil {
		return m, fmt.Errorf("BPF map %d: %w", id, err)
	}
	defer table.Close()
	info, err := table.Info()
	if err != nil {
		return m, fmt.Errorf("BPF map %d: %w", id, err)
	}
	m = Map{ID: id, Name: info.Name, Type: info.Type.String(), Key: info.KeySize, Value: info.ValueSize, Entries: info.MaxEntries}
	m.Memlock, _ = info.Memlock()
	return m, nil
}
