package lockstep

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/datapath/mapmodel"
)

// Map is the map that is pinned by a name, in both; nil where there is none.
func (m *Machine) Map(name string) kernel.Map {
	for _, at := range m.pinned() {
		if path.Base(at) != name {
			continue
		}
		if opened, err := m.Kernel().Loader.PinnedMap(at); err == nil {
			return opened
		}
	}
	return nil
}

// Contents are the entries that a pinned map has in the kernel, as mapmodel has them.
func (m *Machine) Contents(name string) map[string]string {
	for _, at := range m.pinned() {
		if path.Base(at) == name {
			if all, err := m.contents(at); err == nil {
				return all
			}
		}
	}
	return nil
}

// Attached are the links that are pinned and lead to interfaces, as the kernel says.
func (m *Machine) Attached() []mapmodel.Attached {
	var list []mapmodel.Attached
	for _, at := range m.pinned() {
		l, err := m.host.Linker.PinnedLink(at)
		if err != nil { // it is a map
			continue
		}
		info, err := l.Info()
		if err == nil && (info.Ifindex != 0 || info.IsTracing()) {
			list = append(list, mapmodel.Attached{Type: info.Attach, Ifindex: info.Ifindex, Pin: at})
		}
		_ = l.Close() // of what only was looked at
	}
	return list
}

// Compare notes how what is pinned, attached and held differs.
func (m *Machine) Compare() {
	m.mu.Lock()
	defer m.mu.Unlock()
	var words [2][]string
	for i, list := range [][]mapmodel.Attached{m.Attached(), m.model.Attached()} {
		for _, a := range list {
			words[i] = append(words[i], fmt.Sprintf("%s at %d as %s", a.Type, a.Ifindex, a.Pin))
		}
		slices.Sort(words[i])
	}
	if !slices.Equal(words[0], words[1]) {
		m.differ("attached are %v, in the model %v", words[0], words[1])
	}
	for _, at := range m.pinned() {
		if strings.Contains(at, "/links/") {
			continue
		}
		if err := m.compareMap(at); err != nil {
			m.differ("%s: %v", at, err)
		}
	}
}

// compareMap compares what a pinned map has, unless it cannot be read, is written past the model or
// was not written since the last time.
func (m *Machine) compareMap(at string) error {
	name := path.Base(at)
	writes := m.model.Writes(name)
	if before, ok := m.compared[name]; m.written[name] || ok && before == writes {
		return nil
	}
	m.compared[name] = writes
	host, err := m.contents(at)
	if err != nil {
		return err
	}
	if host == nil {
		return nil
	}
	model := m.model.Contents(name)
	if maps.Equal(host, model) {
		return nil
	}
	for key, value := range host {
		if said, ok := model[key]; said != value {
			m.differ("map %s: %s is %s, in the model %q (%t)", name, key, value, said, ok)
		}
	}
	for key, said := range model {
		if _, ok := host[key]; !ok {
			m.differ("map %s: the model alone has %s: %s", name, key, said)
		}
	}
	return nil
}

// pinned are the paths of all pins, those of the model.
func (m *Machine) pinned() []string {
	list := m.model.Pinned()
	slices.Sort(list)
	return list
}

// contents are the entries of a map of the kernel; nil of one that has no keys or values to compare.
func (m *Machine) contents(at string) (map[string]string, error) {
	opened, err := m.host.Loader.PinnedMap(at)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	own := kernel.HostMap(opened)
	if own.Type() != ebpf.Array {
		// A batch of an empty table takes each of its buckets in turn.
		first := make([]byte, own.KeySize())
		if err := opened.NextKey(nil, &first); errors.Is(err, ebpf.ErrKeyNotExist) {
			return map[string]string{}, nil
		}
	}
	switch own.Type() {
	case ebpf.Hash, ebpf.LRUHash, ebpf.Array, ebpf.LPMTrie:
		return read(opened, own.KeySize(), own.ValueSize(), own.Type() == ebpf.Array)
	}
	return nil, nil
}

// read reads all entries; of an array those that are not zero.
func read(m kernel.Map, keySize, valueSize uint32, isArray bool) (map[string]string, error) {
	const most = 1024
	list := func(size uint32) reflect.Value {
		t := reflect.SliceOf(reflect.ArrayOf(int(size), reflect.TypeFor[byte]()))
		return reflect.MakeSlice(t, most, most)
	}
	keys, values, zero := list(keySize), list(valueSize), make([]byte, valueSize)
	all := map[string]string{}
	var cursor kernel.Cursor
	for {
		n, err := m.BatchLookup(&cursor, keys.Interface(), values.Interface())
		for i := range n {
			if value := values.Index(i).Bytes(); !isArray || !bytes.Equal(value, zero) {
				all[fmt.Sprintf("%x", keys.Index(i).Bytes())] = fmt.Sprintf("%x", value)
			}
		}
		switch {
		case errors.Is(err, ebpf.ErrKeyNotExist):
			return all, nil
		case err != nil:
			return nil, err
		}
	}
}
