package mapmodel

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

type loader struct{ m *Machine }

// Cores implements kernel.Loader.
func (loader) Cores() (int, error) { return Cores, nil }

// Load implements kernel.Loader.
func (l loader) Load(spec *ebpf.CollectionSpec, pinDir string) (*kernel.Objects, error) {
	objects := &kernel.Objects{Maps: map[string]kernel.Map{}}
	for _, name := range slices.Sorted(maps.Keys(spec.Maps)) {
		m, err := l.pinned(spec.Maps[name], pinDir)
		if err != nil {
			return nil, fmt.Errorf("map %s: %w", name, err)
		}
		objects.Maps[name] = m
	}
	l.programs(spec, objects)
	return objects, nil
}

// pinned adopts or makes a map.
func (l loader) pinned(spec *ebpf.MapSpec, pinDir string) (kernel.Map, error) {
	if spec.Pinning != ebpf.PinByName {
		return l.NewMap(spec)
	}
	name := path.Join(pinDir, spec.Name)
	if m, err := l.PinnedMap(name); err == nil {
		return m, m.Compatible(spec)
	}
	m, err := l.NewMap(spec)
	if err != nil {
		return nil, err
	}
	return m, m.Pin(name)
}

func (l loader) programs(spec *ebpf.CollectionSpec, objects *kernel.Objects) {
	shared := maps.Clone(objects.Maps)
	objects.Programs = map[string]kernel.Program{}
	for name := range spec.Programs {
		objects.Programs[name] = &program{m: l.m, name: name, maps: shared}
	}
}

// LoadUpon implements kernel.Loader.
func (l loader) LoadUpon(spec *ebpf.CollectionSpec, shared map[string]kernel.Map) (*kernel.Objects, error) {
	objects := &kernel.Objects{Maps: map[string]kernel.Map{}}
	for _, name := range slices.Sorted(maps.Keys(spec.Maps)) {
		var m kernel.Map
		var err error
		if other := shared[name]; other != nil {
			m, err = other.Clone()
		} else {
			m, err = l.NewMap(spec.Maps[name])
		}
		if err != nil {
			return nil, fmt.Errorf("map %s: %w", name, err)
		}
		objects.Maps[name] = m
	}
	l.programs(spec, objects)
	return objects, nil
}

// NewMap implements kernel.Loader.
func (l loader) NewMap(spec *ebpf.MapSpec) (kernel.PinnedMap, error) {
	l.m.mu.Lock()
	l.m.lastMap++
	t := newTable(spec, l.m.lastMap, l.m.seed)
	l.m.mu.Unlock()
	return l.m.handle(t, ""), nil
}

// PinnedMap implements kernel.Loader.
func (l loader) PinnedMap(name string) (kernel.PinnedMap, error) {
	l.m.mu.Lock()
	n := l.m.pins[name]
	l.m.mu.Unlock()
	if n == nil || n.table == nil {
		return nil, pathError("open", name, fs.ErrNotExist)
	}
	return l.m.handle(n.table, name), nil
}

// Munmap implements kernel.Loader.
func (loader) Munmap([]byte) error { return nil }

// program is a loaded program.
type program struct {
	m      *Machine
	name   string
	maps   map[string]kernel.Map
	closed atomic.Bool
}

func (p *program) isOpen() bool { return !p.closed.Load() }

// Run implements kernel.Program.
func (p *program) Run(opts *ebpf.RunOptions) (uint32, error) {
	if !p.isOpen() {
		return 0, errClosed
	}
	p.m.mu.Lock()
	do := p.m.runs[p.name]
	p.m.mu.Unlock()
	if do == nil {
		return 0, nil
	}
	return do(p.maps, opts)
}

// Close implements kernel.Program.
func (p *program) Close() error {
	p.closed.Store(true)
	return nil
}

// records are what a ring buffer holds.
type records struct {
	mu     sync.Mutex
	list   [][]byte
	signal chan struct{}
}

func newRecords() *records { return &records{signal: make(chan struct{}, 1)} }

func (r *records) add(record []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, record)
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

func (r *records) take() ([]byte, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) == 0 {
		return nil, false
	}
	first := r.list[0]
	r.list = r.list[1:]
	return first, true
}

// ring reads a ring buffer.
type ring struct {
	m        *Machine
	records  *records
	deadline time.Time
	closed   chan struct{}
}

// NewRing implements kernel.Loader.
func (l loader) NewRing(m kernel.Map) (kernel.Ring, error) {
	h, ok := m.(*handle)
	if !ok || h.t.Type != ebpf.RingBuf {
		return nil, fmt.Errorf("%s is no ring buffer", m)
	}
	r := &ring{m: l.m, records: h.t.ring, closed: make(chan struct{})}
	l.m.keep(r)
	return r, nil
}

// ReadInto implements kernel.Ring.
func (r *ring) ReadInto(record *ringbuf.Record) error {
	for {
		select {
		case <-r.closed:
			return os.ErrClosed
		default:
		}
		if b, ok := r.records.take(); ok {
			record.RawSample = append(record.RawSample[:0], b...)
			return nil
		}
		var late <-chan time.Time
		if !r.deadline.IsZero() {
			left := time.Until(r.deadline)
			if left <= 0 {
				return os.ErrDeadlineExceeded
			}
			timer := time.NewTimer(left)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-r.closed:
		case <-r.records.signal:
		case <-late:
		}
	}
}

// SetDeadline implements kernel.Ring. It is for who reads.
func (r *ring) SetDeadline(deadline time.Time) { r.deadline = deadline }

// Close implements kernel.Ring.
func (r *ring) Close() error {
	if r.m.release(r) {
		close(r.closed)
	}
	return nil
}
