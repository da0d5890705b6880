package lockstep

import (
	"reflect"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/datapath/mapmodel"
)

// table is a map in both.
type table struct {
	m     *Machine
	model kernel.PinnedMap
	host  kernel.PinnedMap
	name  string
}

// isNumber reports whether values are the kernel's own numbers.
func (t *table) isNumber() bool { return kernel.HostMap(t.host).Type() == ebpf.ArrayOfMaps }

// isApart reports whether the model has other cores than the kernel, and no such values.
func (t *table) isApart() bool {
	switch kernel.HostMap(t.host).Type() {
	case ebpf.PerCPUArray, ebpf.PerCPUHash, ebpf.LRUCPUHash:
		return ebpf.MustPossibleCPU() != mapmodel.Cores
	}
	return false
}

// both is that of the machine; of a map that is apart only the kernel has it.
func (t *table) both(what string, model, host func() error) error {
	if t.isApart() {
		return host()
	}
	return t.m.both(what+" "+t.name, model, host)
}

// modelOf and hostOf are a value as either has it.
func modelOf(value any) any {
	if t, ok := value.(*table); ok {
		return t.model
	}
	return value
}

func hostOf(value any) any {
	if t, ok := value.(*table); ok {
		return t.host
	}
	return value
}

// Lookup implements kernel.Map.
func (t *table) Lookup(key, value any) error {
	said := reflect.New(reflect.TypeOf(value).Elem())
	return t.both("lookup", func() error { return t.model.Lookup(key, said.Interface()) }, func() error {
		err := t.host.Lookup(key, value)
		if got := reflect.ValueOf(value).Elem(); err == nil && !t.m.written[t.name] && !t.isNumber() && !reflect.DeepEqual(got.Interface(), said.Elem().Interface()) {
			t.m.differ("map %s: %v is %v, in the model %v", t.name, key, got, said.Elem())
		}
		return err
	})
}

// Put implements kernel.Map.
func (t *table) Put(key, value any) error {
	return t.both("put", func() error { return t.model.Put(key, modelOf(value)) }, func() error { return t.host.Put(key, hostOf(value)) })
}

// Update implements kernel.Map.
func (t *table) Update(key, value any, flags ebpf.MapUpdateFlags) error {
	return t.both("update", func() error { return t.model.Update(key, value, flags) }, func() error { return t.host.Update(key, value, flags) })
}

// Delete implements kernel.Map.
func (t *table) Delete(key any) error {
	return t.both("delete", func() error { return t.model.Delete(key) }, func() error { return t.host.Delete(key) })
}

// NextKey implements kernel.Map. The model's order is another one.
func (t *table) NextKey(key, next any) error { return t.host.NextKey(key, next) }

// Iterate implements kernel.Map, likewise.
func (t *table) Iterate() kernel.Iterator { return t.host.Iterate() }

// BatchLookup implements kernel.Map, likewise.
func (t *table) BatchLookup(cursor *kernel.Cursor, keys, values any) (int, error) {
	return t.host.BatchLookup(cursor, keys, values)
}

// BatchUpdate implements kernel.Map. Where an entry is refused those before it are written.
func (t *table) BatchUpdate(keys, values any, opts *ebpf.BatchOptions) (n int, err error) {
	if t.isApart() {
		return t.host.BatchUpdate(keys, values, opts)
	}
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	t.m.refused = false
	written, said := t.model.BatchUpdate(keys, values, opts)
	if !t.m.refused {
		n, err = t.host.BatchUpdate(keys, values, opts)
		t.m.compare("batch update "+t.name, err, said)
		return n, err
	}
	if written == 0 {
		return 0, said
	}
	k, v := reflect.ValueOf(keys).Slice(0, written), reflect.ValueOf(values).Slice(0, written)
	n, err = t.host.BatchUpdate(k.Interface(), v.Interface(), opts)
	t.m.compare("batch update "+t.name, err, nil)
	return n, said
}

// MaxEntries implements kernel.Map.
func (t *table) MaxEntries() uint32 { return t.host.MaxEntries() }

// Memlock implements kernel.Map.
func (t *table) Memlock() uint64 { return t.host.Memlock() }

// String implements kernel.Map.
func (t *table) String() string { return t.host.String() }

// Memory implements kernel.Map.
func (t *table) Memory() (kernel.Memory, error) {
	t.own()
	return t.host.Memory()
}

// Mmap implements kernel.Map.
func (t *table) Mmap() ([]byte, error) {
	t.own()
	return t.host.Mmap()
}

// own notes that what the map has is written past both.
func (t *table) own() {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	t.m.written[t.name] = true
}

// Clone implements kernel.Map.
func (t *table) Clone() (kernel.Map, error) {
	var model, host kernel.Map
	err := t.m.both("clone "+t.name, func() (err error) {
		model, err = t.model.Clone()
		return err
	}, func() (err error) {
		host, err = t.host.Clone()
		return err
	})
	if err != nil {
		return nil, err
	}
	return t.m.table(t.name, model, host), nil
}

// Compatible implements kernel.PinnedMap.
func (t *table) Compatible(spec *ebpf.MapSpec) error {
	return t.m.both("compare "+t.name, func() error { return t.model.Compatible(spec) }, func() error { return t.host.Compatible(spec) })
}

// Pin implements kernel.PinnedMap.
func (t *table) Pin(path string) error {
	return t.m.both("pin "+path, func() error { return t.model.Pin(path) }, func() error { return t.host.Pin(path) })
}

// Unpin implements kernel.PinnedMap.
func (t *table) Unpin() error { return t.m.both("unpin "+t.name, t.model.Unpin, t.host.Unpin) }

// Close implements kernel.Map.
func (t *table) Close() error {
	return t.m.both("close "+t.name, t.model.Close, func() error {
		delete(t.m.open, t.host)
		return t.host.Close()
	})
}

// table is a map that both have opened.
func (m *Machine) table(name string, model, host kernel.Map) kernel.PinnedMap {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &table{m: m, model: model.(kernel.PinnedMap), host: host.(kernel.PinnedMap), name: name}
	m.keep(host)
	return t
}
