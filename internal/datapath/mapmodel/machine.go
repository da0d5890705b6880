// Package mapmodel is a kernel in memory, for tests of the control plane: maps, programs, links
// and pins without root. Programs do nothing until a test says what they do.
//
// Its invariant: whatever is pinned in a Machine outlives the handles, so that the next data
// path that is opened on it adopts what the last one left. It is no place to test packets.
package mapmodel

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// Cores is how many cores a Machine has.
const Cores = 2

// Machine is what outlives processes: a kernel with its pins.
type Machine struct {
	mu     sync.Mutex
	seed   uint64
	boot   time.Time
	random *rand.Rand

	pins    map[string]*node
	locked  map[string]*lock
	links   map[link.ID]*linkState
	lastMap ebpf.MapID
	lastID  link.ID
	open    map[closer]bool // handles of processes
	gone    map[int]bool    // interfaces
	frames  []Frame
	writes  map[string]int // by map name

	faults Faults
	runs   map[string]Run
}

// closer is what a killed process lets go of.
type closer interface{ Close() error }

// Faults are what a Machine refuses. They are called without its lock, one at a time.
type Faults struct {
	// Write is asked before each write to a map, and returns the error of one that fails.
	Write func(w Write) error
	// Attach is asked before a program is attached, or takes the place of another.
	Attach func(a Attach) error
}

// Write is about to change an entry of a map.
type Write struct {
	Map    string
	Delete bool
	Key    []byte
	Value  []byte // nil of a Delete
	N      int    // how many writes to maps of that name this is, from 1
}

// Attach is about to put a program before packets.
type Attach struct {
	Program string
	Type    ebpf.AttachType
	Ifindex int
	Swap    bool // by a link that there is
}

// Run is what a program does when it is run by hand. maps are those that it was loaded with.
type Run func(maps map[string]kernel.Map, opts *ebpf.RunOptions) (uint32, error)

// Frame is one that was sent by a packet socket.
type Frame struct {
	Ifindex int
	Bytes   []byte
}

// New is a machine that has just booted. Its numbers and the order of its maps come from seed: with
// 0 maps are walked in the order of the keys' bytes.
func New(seed uint64) *Machine {
	return &Machine{
		seed: seed, boot: time.Now().Add(-time.Hour), random: rand.New(rand.NewPCG(seed, 1)),
		pins: map[string]*node{}, locked: map[string]*lock{}, links: map[link.ID]*linkState{},
		open: map[closer]bool{}, gone: map[int]bool{}, writes: map[string]int{}, runs: map[string]Run{},
	}
}

// Kernel is the machine as a process sees it.
func (m *Machine) Kernel() kernel.Kernel {
	return kernel.Kernel{
		Loader: loader{m}, Linker: linker{m}, Pins: pins{m}, Clock: clock{m},
		Wire: func() (kernel.Wire, error) { return wire{m}, nil }, Random: m.number,
		Namespace: func() uint64 { return 1 },
	}
}

// Refuse sets what is refused from now on.
func (m *Machine) Refuse(f Faults) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = f
}

// OnRun sets what a program does when it is run. Others return 0.
func (m *Machine) OnRun(program string, do Run) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runs[program] = do
}

// Kill ends all processes: what is not pinned is gone.
func (m *Machine) Kill() {
	m.mu.Lock()
	handles := make([]closer, 0, len(m.open))
	for h := range m.open {
		handles = append(handles, h)
	}
	m.mu.Unlock()
	for _, h := range handles {
		_ = h.Close() // by a kernel that never fails
	}
}

// RemoveInterface ends an interface. Links to it stay, and lead nowhere.
func (m *Machine) RemoveInterface(ifindex int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone[ifindex] = true
}

// Sent are the frames that packet sockets have sent, the first ones first, and forgets them.
func (m *Machine) Sent() []Frame {
	m.mu.Lock()
	defer m.mu.Unlock()
	sent := m.frames
	m.frames = nil
	return sent
}

// number is never 0.
func (m *Machine) number() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.random.Uint64() | 1
}

// keep notes a handle of a process.
func (m *Machine) keep(h closer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open[h] = true
}

// release forgets it, and reports whether it was open.
func (m *Machine) release(h closer) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.open[h]
	delete(m.open, h)
	return was
}

// clock goes as time.Now does.
type clock struct{ m *Machine }

// Monotonic implements kernel.Clock.
func (c clock) Monotonic() (uint64, error) { return uint64(time.Since(c.m.boot)), nil }

// Coarse implements kernel.Clock.
func (c clock) Coarse() (uint64, error) { return c.Monotonic() }

type wire struct{ m *Machine }

// Send implements kernel.Wire.
func (w wire) Send(ifindex int, frame []byte) error {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	w.m.frames = append(w.m.frames, Frame{ifindex, append([]byte{}, frame...)})
	return nil
}

// Close implements kernel.Wire.
func (w wire) Close() error { return nil }
