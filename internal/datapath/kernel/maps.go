package kernel

import (
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// hostMap is a map of the kernel.
type hostMap struct{ *ebpf.Map }

// HostMap is the kernel's own of a map of Host, for what Map has no method for.
func HostMap(m Map) *ebpf.Map { return m.(hostMap).Map }

// Put implements Map. A value may be a Map.
func (m hostMap) Put(key, value any) error {
	if inner, ok := value.(hostMap); ok {
		value = inner.Map
	}
	return m.Map.Put(key, value)
}

// Iterate implements Map.
func (m hostMap) Iterate() Iterator { return m.Map.Iterate() }

// BatchLookup implements Map.
func (m hostMap) BatchLookup(cursor *Cursor, keys, values any) (int, error) {
	return m.Map.BatchLookup(&cursor.host, keys, values, nil)
}

// Memlock implements Map.
func (m hostMap) Memlock() uint64 {
	info, err := m.Info()
	if err != nil {
		return 0
	}
	n, _ := info.Memlock()
	return n
}

// Memory implements Map.
func (m hostMap) Memory() (Memory, error) {
	memory, err := m.Map.Memory()
	if err != nil {
		return nil, fmt.Errorf("map the memory of the map %s: %w", m, err)
	}
	return memory, nil
}

// Mmap implements Map.
func (m hostMap) Mmap() ([]byte, error) {
	page, stride := os.Getpagesize(), Stride(m.ValueSize())
	size := (int(m.MaxEntries())*stride + page - 1) / page * page
	memory, err := unix.Mmap(m.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the memory of the map %s: %w", m, err)
	}
	return memory, nil
}

// Clone implements Map.
func (m hostMap) Clone() (Map, error) {
	clone, err := m.Map.Clone()
	if err != nil {
		return nil, err
	}
	return hostMap{clone}, nil
}

// Compatible implements PinnedMap.
func (m hostMap) Compatible(spec *ebpf.MapSpec) error { return spec.Compatible(m.Map) }

// Stride is how far apart arrays have entries of a size.
func Stride(valueSize uint32) int { return int(valueSize+7) &^ 7 }

// Munmap implements Loader.
func (hostLoader) Munmap(memory []byte) error { return unix.Munmap(memory) }
