package mapmodel

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// handle is a map as a process has it.
type handle struct {
	m      *Machine
	t      *table
	closed atomic.Bool
	pin    string // the path it was pinned or opened by
}

func (m *Machine) handle(t *table, pin string) *handle {
	h := &handle{m: m, t: t, pin: pin}
	m.keep(h)
	return h
}

// String implements kernel.Map.
func (h *handle) String() string { return fmt.Sprintf("%s(%s)#%d", h.t.Type, h.t.Name, h.t.id) }

// MaxEntries implements kernel.Map.
func (h *handle) MaxEntries() uint32 { return h.t.MaxEntries }

// Memlock implements kernel.Map.
func (h *handle) Memlock() uint64 {
	return uint64(h.t.MaxEntries) * uint64(int(h.t.KeySize)+h.t.stride())
}

// Lookup implements kernel.Map.
func (h *handle) Lookup(key, value any) error {
	k, err := h.key(key)
	if err != nil {
		return fmt.Errorf("lookup: %w", err)
	}
	h.t.mu.Lock()
	v, err := h.t.find(k)
	h.t.mu.Unlock()
	if err != nil {
		return fmt.Errorf("lookup: %w", err)
	}
	return h.decode(v, value)
}

func (h *handle) key(key any) ([]byte, error) {
	if h.closed.Load() {
		return nil, errClosed
	}
	return encode(key, h.t.KeySize)
}

func (h *handle) decode(v []byte, to any) error {
	if h.t.isPerCPU() {
		return decodePerCPU(v, int(h.t.ValueSize), kernel.Stride(h.t.ValueSize), to)
	}
	return decode(v, to)
}

// Put implements kernel.Map.
func (h *handle) Put(key, value any) error { return h.Update(key, value, ebpf.UpdateAny) }

// Update implements kernel.Map.
func (h *handle) Update(key, value any, flags ebpf.MapUpdateFlags) error {
	k, err := h.key(key)
	if err != nil {
		return fmt.Errorf("update: %w", err)
	}
	v, inner, err := h.value(value)
	if err == nil {
		err = h.write(Write{Key: k, Value: v}, func() error { return h.t.put(k, v, flags) })
	}
	if err != nil {
		return fmt.Errorf("update: %w", err)
	}
	if inner != nil {
		h.t.mu.Lock()
		defer h.t.mu.Unlock()
		h.t.inner[uint32(inner.id)] = inner
	}
	return nil
}

// value is one as the map has it. In a map of maps that is the number of one.
func (h *handle) value(value any) (v []byte, inner *table, err error) {
	if m, ok := value.(*handle); ok && h.t.Type == ebpf.ArrayOfMaps {
		v, err = encode(uint32(m.t.id), h.t.ValueSize)
		return v, m.t, err
	}
	if h.t.isPerCPU() {
		v, err = encodePerCPU(value, h.t.ValueSize)
	} else {
		v, err = encode(value, h.t.ValueSize)
	}
	return v, nil, err
}

// write does a write unless it is refused.
func (h *handle) write(w Write, do func() error) error {
	h.t.mu.Lock()
	h.t.writes++
	h.t.mu.Unlock()
	if err := h.m.allowWrite(h.t.Name, w); err != nil {
		return err
	}
	h.t.mu.Lock()
	defer h.t.mu.Unlock()
	return do()
}

// Delete implements kernel.Map.
func (h *handle) Delete(key any) error {
	k, err := h.key(key)
	if err == nil {
		err = h.write(Write{Key: k, Delete: true}, func() error { return h.t.remove(k) })
	}
	if err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return nil
}

// NextKey implements kernel.Map.
func (h *handle) NextKey(key, next any) error {
	var k []byte
	if key != nil {
		var err error
		if k, err = h.key(key); err != nil {
			return fmt.Errorf("next key: %w", err)
		}
	}
	h.t.mu.Lock()
	n, ok := h.t.next(k)
	h.t.mu.Unlock()
	if !ok {
		return fmt.Errorf("next key: %w", ebpf.ErrKeyNotExist)
	}
	return decode(n, next)
}

// iterator walks a map.
type iterator struct {
	h    *handle
	last []byte
	err  error
}

// Iterate implements kernel.Map.
func (h *handle) Iterate() kernel.Iterator { return &iterator{h: h} }

// Next implements kernel.Iterator.
func (i *iterator) Next(key, value any) bool {
	if i.h.closed.Load() {
		i.err = errClosed
	}
	if i.err != nil {
		return false
	}
	k, v, ok := i.h.after(i.last)
	if !ok {
		return false
	}
	i.last = k
	i.err = errors.Join(decode(k, key), i.h.decode(v, value))
	return i.err == nil
}

// Err implements kernel.Iterator.
func (i *iterator) Err() error { return i.err }

// after is the entry after a key.
func (h *handle) after(key []byte) (k, v []byte, ok bool) {
	h.t.mu.Lock()
	defer h.t.mu.Unlock()
	k, ok = h.t.next(key)
	if !ok {
		return nil, nil, false
	}
	v, err := h.t.find(k)
	return k, v, err == nil
}

// BatchLookup implements kernel.Map.
func (h *handle) BatchLookup(cursor *kernel.Cursor, keys, values any) (int, error) {
	if h.closed.Load() {
		return 0, errClosed
	}
	k, v := reflect.ValueOf(keys), reflect.ValueOf(values)
	for n := range k.Len() {
		key, value, ok := h.after(cursor.Last)
		if !ok {
			return n, ebpf.ErrKeyNotExist
		}
		cursor.Last = key
		if err := decode(key, k.Index(n).Addr().Interface()); err != nil {
			return n, err
		}
		if err := h.decodeBatch(value, v, n); err != nil {
			return n, err
		}
	}
	return k.Len(), nil
}

// decodeBatch writes the value of an entry, or those of all cores, to its place.
func (h *handle) decodeBatch(value []byte, to reflect.Value, n int) error {
	if !h.t.isPerCPU() {
		if isZero(value) { // as most of an array is
			to.Index(n).SetZero()
			return nil
		}
		return decode(value, to.Index(n).Addr().Interface())
	}
	size, stride := int(h.t.ValueSize), kernel.Stride(h.t.ValueSize)
	for core := range Cores {
		if err := decode(value[core*stride:core*stride+size], to.Index(n*Cores+core).Addr().Interface()); err != nil {
			return err
		}
	}
	return nil
}

// BatchUpdate implements kernel.Map.
func (h *handle) BatchUpdate(keys, values any, opts *ebpf.BatchOptions) (int, error) {
	flags := ebpf.UpdateAny
	if opts != nil {
		flags = ebpf.MapUpdateFlags(opts.ElemFlags)
	}
	k, v := reflect.ValueOf(keys), reflect.ValueOf(values)
	for n := range k.Len() {
		if err := h.Update(k.Index(n).Interface(), v.Index(n).Interface(), flags); err != nil {
			return n, err
		}
	}
	return k.Len(), nil
}

// memory is that of an array.
type memory struct{ array []byte }

// ReadAt implements io.ReaderAt.
func (m memory) ReadAt(b []byte, at int64) (int, error) {
	if at > int64(len(m.array)) {
		return 0, io.EOF
	}
	n := copy(b, m.array[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements io.WriterAt.
func (m memory) WriteAt(b []byte, at int64) (int, error) {
	if at+int64(len(b)) > int64(len(m.array)) {
		return 0, io.ErrShortWrite
	}
	return copy(m.array[at:], b), nil
}

// Memory implements kernel.Map.
func (h *handle) Memory() (kernel.Memory, error) {
	array, err := h.Mmap()
	return memory{array}, err
}

// Mmap implements kernel.Map.
func (h *handle) Mmap() ([]byte, error) {
	if h.t.Type != ebpf.Array {
		return nil, fmt.Errorf("%s has no memory of its own", h)
	}
	return h.t.array, nil
}

// Clone implements kernel.Map.
func (h *handle) Clone() (kernel.Map, error) {
	if h.closed.Load() {
		return nil, errClosed
	}
	return h.m.handle(h.t, ""), nil
}

// Compatible implements kernel.PinnedMap.
func (h *handle) Compatible(spec *ebpf.MapSpec) error { return h.t.compatible(spec) }

// Pin implements kernel.PinnedMap. A pin moves.
func (h *handle) Pin(name string) error {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if err := h.m.pin(name, &node{table: h.t}); err != nil {
		return err
	}
	if h.pin != "" {
		h.m.unpin(h.pin)
	}
	h.pin = name
	return nil
}

// Unpin implements kernel.PinnedMap.
func (h *handle) Unpin() error {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if h.pin == "" || h.m.pins[h.pin] == nil {
		return nil
	}
	h.m.unpin(h.pin)
	h.pin = ""
	return nil
}

// Close implements kernel.Map.
func (h *handle) Close() error {
	h.closed.Store(true)
	h.m.release(h)
	return nil
}

// isZero reports whether an entry of an array was never written.
func isZero(b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), len(zeros))
		if !bytes.Equal(b[:n], zeros[:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}

// zeros are what bytes are compared with.
var zeros [1024]byte
