// Package kernel is what the data path needs of the operating system: maps, programs,
// links, pins, a clock and a socket. Host is the real one.
//
// Its invariant: nothing here knows what maps hold or programs do, so that the package
// mapmodel can take its place in tests.
package kernel

import (
	"io"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
)

// Kernel is a kernel, or a model of one.
type Kernel struct {
	Loader Loader
	Linker Linker
	Pins   Pins
	Clock  Clock
	// Wire opens a socket that sends frames, in the network namespace of the caller.
	Wire func() (Wire, error)
	// Namespace is the cookie of the caller's network namespace, or 0 where it is not known.
	Namespace func() uint64
	// Random is a number that nobody guesses.
	Random func() uint64
}

// Map is a map. Its methods are those of ebpf.Map.
type Map interface {
	Lookup(key, value any) error
	Put(key, value any) error
	Update(key, value any, flags ebpf.MapUpdateFlags) error
	Delete(key any) error
	NextKey(key, next any) error
	Iterate() Iterator
	// BatchLookup ends with ebpf.ErrKeyNotExist, beside the last entries.
	BatchLookup(cursor *Cursor, keys, values any) (int, error)
	BatchUpdate(keys, values any, opts *ebpf.BatchOptions) (int, error)
	MaxEntries() uint32
	// Memlock is the memory that it takes, 0 where the kernel does not say.
	Memlock() uint64
	// Memory is what an array holds, for reading and writing at offsets.
	Memory() (Memory, error)
	// Mmap maps the memory of an array, entries aligned to 8 bytes; Munmap of Loader ends that.
	Mmap() ([]byte, error)
	Clone() (Map, error)
	String() string
	Close() error
}

// Iterator walks a map. It does not stop others from changing that.
type Iterator interface {
	Next(key, value any) bool
	Err() error
}

// Cursor is how far a walk by batches came. The zero value is at the beginning.
type Cursor struct {
	host ebpf.MapBatchCursor
	// Last is the key of the last entry that a model gave.
	Last []byte
}

// Memory is that of an array.
type Memory interface {
	io.ReaderAt
	io.WriterAt
}

// PinnedMap is a map by its pin.
type PinnedMap interface {
	Map
	// Compatible is ebpf.ErrMapIncompatible for a map that is not as the spec says.
	Compatible(spec *ebpf.MapSpec) error
	Pin(path string) error
	Unpin() error
}

// Program is a loaded program.
type Program interface {
	// Run runs it once, on a frame or on nothing.
	Run(opts *ebpf.RunOptions) (uint32, error)
	Close() error
}

// Ring reads a ring buffer. ReadInto fails with os.ErrDeadlineExceeded, and with os.ErrClosed
// when it is closed.
type Ring interface {
	ReadInto(record *ringbuf.Record) error
	SetDeadline(deadline time.Time)
	Close() error
}

// Objects are maps and programs by their names in an object file.
type Objects struct {
	Maps     map[string]Map
	Programs map[string]Program
}

// Loader makes maps and loads programs.
type Loader interface {
	// Cores is how many values each entry of a per-CPU map has.
	Cores() (int, error)
	// Load loads all of a spec. Maps to be pinned by name are adopted from pinDir, or pinned there.
	Load(spec *ebpf.CollectionSpec, pinDir string) (*Objects, error)
	// LoadUpon loads a spec upon those of maps that it has, which have sizes of their own.
	LoadUpon(spec *ebpf.CollectionSpec, maps map[string]Map) (*Objects, error)
	NewMap(spec *ebpf.MapSpec) (PinnedMap, error)
	// PinnedMap is fs.ErrNotExist where there is no pin.
	PinnedMap(path string) (PinnedMap, error)
	NewRing(m Map) (Ring, error)
	// Munmap ends a Mmap of a map.
	Munmap(memory []byte) error
}

// Link is a program at a hook. It ends when it is neither pinned nor open.
type Link interface {
	Update(p Program) error
	Info() (LinkInfo, error)
	Pin(path string) error
	Unpin() error
	Close() error
}

// LinkInfo is what a link is.
type LinkInfo struct {
	ID link.ID
	// Attach is AttachXDP, a type of tcx, AttachTraceRawTp for tracepoints, or AttachNone for links
	// of other kinds.
	Attach  ebpf.AttachType
	Ifindex int // 0: of none, or of one that is gone
}

// IsTCX reports whether the link is of a hook of tcx, in or out.
func (i LinkInfo) IsTCX() bool {
	return i.Attach == ebpf.AttachTCXIngress || i.Attach == ebpf.AttachTCXEgress
}

// IsXDP reports whether the link is of a driver, or right after it.
func (i LinkInfo) IsXDP() bool { return i.Attach == ebpf.AttachXDP }

// IsTracing reports whether the link is of a tracepoint.
func (i LinkInfo) IsTracing() bool { return i.Attach == ebpf.AttachTraceRawTp }

// Linker attaches programs.
type Linker interface {
	// AttachTCX attaches a program to what comes in, before a link; 0 is after all others.
	AttachTCX(ifindex int, p Program, before link.ID) (Link, error)
	AttachXDP(ifindex int, p Program, mode link.XDPAttachFlags) (Link, error)
	AttachTracing(p Program) (Link, error)
	PinnedLink(path string) (Link, error)
	// Attached are the links of tcx on what comes in, in the order of the programs.
	Attached(ifindex int) ([]link.ID, error)
}

// Pins is the file system of pins.
type Pins interface {
	// Mount makes sure that pins below root outlive the process.
	Mount(root string) error
	// Lock takes the right to drive what is pinned in dir, until it is closed or the process ends.
	Lock(dir string) (io.Closer, error)
	MakeDir(dir string) error
	// List are the names in dir.
	List(dir string) ([]string, error)
	// IsDir is fs.ErrNotExist where there is nothing.
	IsDir(path string) (bool, error)
	// Remove removes a pin or an empty directory.
	Remove(path string) error
	RemoveAll(path string) error
	// Rename gives a pin another path in its directory, in the place of what is there.
	Rename(from, to string) error
}

// Clock is that of the programs, in ns.
type Clock interface {
	// Monotonic is CLOCK_MONOTONIC.
	Monotonic() (uint64, error)
	// Coarse is what programs see of it: it is a tick of the kernel behind, at most.
	Coarse() (uint64, error)
}

// Wire sends frames as they are, and waits for no interface.
type Wire interface {
	// Send sends a frame to the hardware address of its beginning.
	Send(ifindex int, frame []byte) error
	Close() error
}
