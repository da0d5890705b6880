package mapmodel

import (
	"encoding/binary"
	"fmt"
	"path"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// Map is the map that is pinned by a name, in whatever directory; nil where there is none. Its
// keys and values may be bytes.
func (m *Machine) Map(name string) kernel.Map {
	t, at := m.find(name)
	if t == nil {
		return nil
	}
	return m.handle(t, at)
}

// Used is how many entries a pinned map has; of an array how many are not zero.
func (m *Machine) Used(name string) int {
	t, _ := m.find(name)
	if t == nil {
		return 0
	}
	return t.used()
}

// Writes is how many writes there were to a pinned map, those that were refused too.
func (m *Machine) Writes(name string) int {
	t, _ := m.find(name)
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.writes
}

// Contents are the entries of a pinned map, as text: keys and values in hexadecimal. Of an array
// those that are not zero.
func (m *Machine) Contents(name string) map[string]string {
	t, _ := m.find(name)
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[string]string{}
	if t.isArray() {
		for i := range int(t.MaxEntries) {
			if value := t.array[i*t.stride() : (i+1)*t.stride()]; !isZero(value) {
				all[fmt.Sprintf("%x", binary.NativeEndian.AppendUint32(nil, uint32(i)))] = fmt.Sprintf("%x", value[:t.valueSize()])
			}
		}
		return all
	}
	for key, ok := t.next(nil); ok; key, ok = t.next(key) {
		value, err := t.find(key)
		if err == nil {
			all[fmt.Sprintf("%x", key)] = fmt.Sprintf("%x", value)
		}
	}
	return all
}

// Record has a program write to a ring buffer that is pinned by a name.
func (m *Machine) Record(name string, record []byte) error {
	t, _ := m.find(name)
	if t == nil || t.Type != ebpf.RingBuf {
		return fmt.Errorf("no ring buffer is pinned by the name %s", name)
	}
	t.ring.add(append([]byte{}, record...))
	return nil
}

// Pinned are the paths of all pins of a machine.
func (m *Machine) Pinned() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []string
	for name, n := range m.pins {
		if !n.isDir() {
			list = append(list, name)
		}
	}
	return list
}

func (m *Machine) find(name string) (t *table, at string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at, n := range m.pins {
		if n.table != nil && path.Base(at) == name {
			return n.table, at
		}
	}
	return nil, ""
}

// allowWrite asks whether a write may be done.
func (m *Machine) allowWrite(name string, w Write) error {
	m.mu.Lock()
	refuse := m.faults.Write
	m.writes[name]++
	w.Map, w.N = name, m.writes[name]
	m.mu.Unlock()
	if refuse == nil {
		return nil
	}
	return refuse(w)
}
