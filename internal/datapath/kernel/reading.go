package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/cilium/ebpf"
)

// HostForReading is Host for who changes nothing: the kernel refuses what writes to a map that was
// opened by its pin.
func HostForReading() Kernel {
	k := Host()
	k.Loader = readingLoader{}
	return k
}

type readingLoader struct{ hostLoader }

// PinnedMap implements Loader.
func (readingLoader) PinnedMap(path string) (PinnedMap, error) {
	m, err := ebpf.LoadPinnedMap(path, &ebpf.LoadPinOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	return readingMap{hostMap{m}}, nil
}

// Munmap implements Loader.
func (readingLoader) Munmap([]byte) error { return nil }

// readingMap is a map whose handle reads alone. The kernel lets nobody map the memory of such: it is a copy.
type readingMap struct{ hostMap }

// Mmap implements Map.
func (m readingMap) Mmap() ([]byte, error) {
	const batch = 4096
	size, stride := int(m.ValueSize()), Stride(m.ValueSize())
	memory := make([]byte, int(m.MaxEntries())*stride)
	keys := make([]uint32, batch)
	values := reflect.MakeSlice(reflect.SliceOf(reflect.ArrayOf(size, reflect.TypeFor[byte]())), batch, batch)
	var cursor Cursor
	for {
		n, err := m.BatchLookup(&cursor, keys, values.Interface())
		for i, key := range keys[:n] {
			copy(memory[int(key)*stride:], values.Index(i).Bytes())
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return memory, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the map %s: %w", m, err)
		}
	}
}

// Memory implements Map.
func (m readingMap) Memory() (Memory, error) {
	memory, err := m.Mmap()
	if err != nil {
		return nil, err
	}
	return readingMemory{bytes.NewReader(memory)}, nil
}

type readingMemory struct{ io.ReaderAt }

// WriteAt implements Memory.
func (readingMemory) WriteAt([]byte, int64) (int, error) { return 0, errors.ErrUnsupported }
