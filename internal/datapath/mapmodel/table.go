package mapmodel

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// table is a map as the machine has it.
type table struct {
	ebpf.MapSpec
	id   ebpf.MapID
	seed uint64

	mu     sync.Mutex
	array  []byte // of arrays, with a stride
	hashed map[string]*entry
	order  []string // the keys of hashed, with some that are gone; nil: to be made anew
	clock  uint64   // of writes, for what was not written for longest
	queue  [][]byte
	ring   *records
	inner  map[uint32]*table
	writes int
}

// entry is one of a hash or a trie, whose key may have bits behind its prefix.
type entry struct {
	key     []byte
	value   []byte
	written uint64
}

func newTable(spec *ebpf.MapSpec, id ebpf.MapID, seed uint64) *table {
	t := &table{MapSpec: *spec, id: id, seed: seed, hashed: map[string]*entry{}, inner: map[uint32]*table{}, ring: newRecords()}
	if t.isArray() {
		t.array = aligned(int(t.MaxEntries) * t.stride())
	}
	return t
}

func (t *table) isPerCPU() bool {
	return t.Type == ebpf.PerCPUArray || t.Type == ebpf.PerCPUHash || t.Type == ebpf.LRUCPUHash
}

func (t *table) isArray() bool { return t.Type == ebpf.Array || t.Type == ebpf.PerCPUArray }

// isNumbered reports whether keys are places.
func (t *table) isNumbered() bool {
	return t.isArray() || t.Type == ebpf.DevMap || t.Type == ebpf.ArrayOfMaps
}

// stride is the size of an entry's value, of all cores.
func (t *table) stride() int {
	if t.isPerCPU() {
		return Cores * kernel.Stride(t.ValueSize)
	}
	return kernel.Stride(t.ValueSize)
}

// valueSize is the size of an entry's value as it is read.
func (t *table) valueSize() int {
	if t.isPerCPU() {
		return t.stride()
	}
	return int(t.ValueSize)
}

// place is the number that a key is.
func (t *table) place(key []byte) (int, error) {
	n := binary.NativeEndian.Uint32(key)
	if n >= t.MaxEntries {
		return 0, unix.E2BIG
	}
	return int(n), nil
}

// name is by which a key is found in hashed: of tries without what is behind the prefix.
func (t *table) name(key []byte) (string, error) {
	if t.Type != ebpf.LPMTrie {
		return string(key), nil
	}
	bits := binary.NativeEndian.Uint32(key)
	if int(bits) > 8*(len(key)-4) {
		return "", unix.EINVAL
	}
	return prefix(key, bits), nil
}

// prefix is the key of the first bits.
func prefix(key []byte, bits uint32) string {
	b := make([]byte, len(key))
	binary.NativeEndian.PutUint32(b, bits)
	whole := 4 + int(bits/8)
	copy(b[4:whole], key[4:])
	if rest := bits % 8; rest != 0 {
		b[whole] = key[whole] & (0xff << (8 - rest))
	}
	return string(b)
}

// find is an entry's value; of tries that of the longest prefix.
func (t *table) find(key []byte) ([]byte, error) {
	if t.isArray() {
		i, err := t.place(key)
		if err != nil {
			return nil, ebpf.ErrKeyNotExist
		}
		value := load(t.array[i*t.stride() : (i+1)*t.stride()])
		if t.isPerCPU() {
			return value, nil
		}
		return value[:t.ValueSize], nil
	}
	name, err := t.name(key)
	if err != nil {
		return nil, err
	}
	e := t.hashed[name]
	if t.Type == ebpf.LPMTrie {
		for bits := binary.NativeEndian.Uint32(key); e == nil && bits > 0; {
			bits--
			e = t.hashed[prefix(key, bits)]
		}
	}
	if e == nil {
		return nil, ebpf.ErrKeyNotExist
	}
	return e.value, nil
}

// put writes an entry as the kernel does, with its errors.
func (t *table) put(key, value []byte, flags ebpf.MapUpdateFlags) error {
	if t.isNumbered() {
		return t.putPlace(key, value, flags)
	}
	if t.Type == ebpf.Queue {
		if len(t.queue) >= int(t.MaxEntries) {
			return unix.E2BIG
		}
		t.queue = append(t.queue, value)
		return nil
	}
	name, err := t.name(key)
	if err != nil {
		return err
	}
	old := t.hashed[name]
	switch {
	case flags == ebpf.UpdateNoExist && old != nil:
		return ebpf.ErrKeyExist
	case flags == ebpf.UpdateExist && old == nil:
		return ebpf.ErrKeyNotExist
	}
	if old == nil {
		if err := t.makeRoom(); err != nil {
			return err
		}
		t.order = nil
	}
	t.clock++
	t.hashed[name] = &entry{key, value, t.clock}
	return nil
}

func (t *table) putPlace(key, value []byte, flags ebpf.MapUpdateFlags) error {
	i, err := t.place(key)
	if err != nil {
		return err
	}
	if flags == ebpf.UpdateNoExist {
		return ebpf.ErrKeyExist
	}
	if t.isArray() {
		store(t.array[i*t.stride():(i+1)*t.stride()], value)
		return nil
	}
	if t.hashed[string(key)] == nil {
		t.order = nil
	}
	t.hashed[string(key)] = &entry{key: key, value: value}
	return nil
}

// makeRoom makes room for one more entry.
func (t *table) makeRoom() error {
	if len(t.hashed) < int(t.MaxEntries) {
		return nil
	}
	switch t.Type {
	case ebpf.LPMTrie:
		return unix.ENOSPC
	case ebpf.LRUHash, ebpf.LRUCPUHash:
		oldest := ""
		for name, e := range t.hashed {
			if oldest == "" || e.written < t.hashed[oldest].written {
				oldest = name
			}
		}
		delete(t.hashed, oldest)
		return nil
	}
	return unix.E2BIG
}

func (t *table) remove(key []byte) error {
	if t.isArray() {
		return unix.EINVAL
	}
	name, err := t.name(key)
	if err != nil {
		return err
	}
	if t.hashed[name] == nil && t.Type != ebpf.DevMap {
		return ebpf.ErrKeyNotExist
	}
	delete(t.hashed, name)
	return nil
}

// next is the key after another one; nil is before the first.
func (t *table) next(key []byte) ([]byte, bool) {
	if t.isArray() {
		n := uint32(0)
		if key != nil {
			n = binary.NativeEndian.Uint32(key) + 1
		}
		return binary.NativeEndian.AppendUint32(nil, n), n < t.MaxEntries
	}
	if t.order == nil {
		t.order = make([]string, 0, len(t.hashed))
		for name := range t.hashed {
			t.order = append(t.order, name)
		}
		slices.SortFunc(t.order, t.compare)
	}
	i := 0
	if key != nil {
		name, err := t.name(key)
		if err != nil {
			return nil, false
		}
		at, found := slices.BinarySearchFunc(t.order, name, t.compare)
		if i = at; found {
			i++
		}
	}
	for ; i < len(t.order); i++ {
		if e := t.hashed[t.order[i]]; e != nil {
			return e.key, true
		}
	}
	return nil, false
}

// compare orders keys: by their bytes, or by chance that the seed decides.
func (t *table) compare(a, b string) int {
	if t.seed == 0 {
		return cmp.Compare(a, b)
	}
	return cmp.Or(cmp.Compare(t.chance(a), t.chance(b)), cmp.Compare(a, b))
}

func (t *table) chance(key string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(binary.NativeEndian.AppendUint64(nil, t.seed)) // never fails
	_, _ = h.Write([]byte(key))
	return h.Sum64()
}

// compatible is as ebpf.MapSpec.Compatible.
func (t *table) compatible(spec *ebpf.MapSpec) error {
	if t.Type == spec.Type && t.KeySize == spec.KeySize && t.ValueSize == spec.ValueSize && t.MaxEntries == spec.MaxEntries && t.Flags == spec.Flags {
		return nil
	}
	return fmt.Errorf("%s of %d entries was %s of %d: %w", spec.Type, spec.MaxEntries, t.Type, t.MaxEntries, ebpf.ErrMapIncompatible)
}

// used is how many entries a table without numbered places has.
func (t *table) used() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isArray() {
		n := 0
		for i := 0; i < len(t.array); i += t.stride() {
			if !isZero(load(t.array[i : i+t.stride()])) {
				n++
			}
		}
		return n
	}
	return len(t.hashed) + len(t.queue)
}
