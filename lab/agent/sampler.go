package agent

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/cores"
	"github.com/selvage/selvage/lab/result"
)

// sampler looks again and again at which kernel function each core is in (perf_event_open(2), by
// the clock, which needs no hardware). A nil one does nothing.
type sampler struct {
	hertz uint64
	rings []ring
}

// ring is a core's event and the memory that the kernel writes samples to.
type ring struct {
	fd     int
	memory []byte
}

const (
	mostHertz = 997 // prime, so that it keeps step with nothing that has a round period
	// ringPages are of 4 KiB, a power of 2, and hold 16,000 samples.
	ringPages = 64
	// mostSamples a core fill three quarters of its ring.
	mostSamples = 12_000
)

// startSampler opens an event on each core; they do not count yet.
func startSampler(d time.Duration) (*sampler, error) {
	online, err := cores.Online()
	if err != nil {
		return nil, fmt.Errorf("cores that are online: %w", err)
	}
	s := &sampler{hertz: max(1, min(mostHertz, uint64(mostSamples/max(1, d.Seconds()))))}
	for _, core := range online {
		r, err := openRing(core, s.hertz)
		if errors.Is(err, unix.ENODEV) { // the core went off
			continue
		}
		if err != nil {
			s.close()
			return nil, err
		}
		s.rings = append(s.rings, r)
	}
	return s, nil
}

func openRing(core int, hertz uint64) (r ring, err error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample: hertz, Sample_type: unix.PERF_SAMPLE_IP,
		Bits: unix.PerfBitDisabled | unix.PerfBitExcludeUser | unix.PerfBitExcludeIdle | unix.PerfBitExcludeHv | unix.PerfBitFreq,
	}
	if r.fd, err = unix.PerfEventOpen(&attr, -1, core, -1, unix.PERF_FLAG_FD_CLOEXEC); err != nil {
		return r, fmt.Errorf("perf_event_open on core %d: %w (root, or kernel.perf_event_paranoid below 1, may)", core, err)
	}
	r.memory, err = unix.Mmap(r.fd, 0, (1+ringPages)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return r, errors.Join(fmt.Errorf("map samples of core %d: %w", core, err), unix.Close(r.fd))
	}
	return r, nil
}

func (s *sampler) control(request uint) {
	if s == nil {
		return
	}
	for _, r := range s.rings {
		_ = unix.IoctlSetInt(r.fd, request, 0) // without it there are no samples, which is seen
	}
}

func (s *sampler) enable()  { s.control(unix.PERF_EVENT_IOC_ENABLE) }
func (s *sampler) disable() { s.control(unix.PERF_EVENT_IOC_DISABLE) }

func (s *sampler) close() {
	if s == nil {
		return
	}
	for _, r := range s.rings {
		_ = unix.Munmap(r.memory)
		_ = unix.Close(r.fd)
	}
	s.rings = nil
}

// addresses are those of a core's samples since it was enabled.
func (r ring) addresses() (all []uint64) {
	page := (*unix.PerfEventMmapPage)(unsafe.Pointer(&r.memory[0]))
	data := r.memory[os.Getpagesize():]
	head := atomic.LoadUint64(&page.Data_head)
	at := func(offset uint64) []byte { // records are multiples of 8 bytes, and a word never wraps
		offset %= uint64(len(data))
		return data[offset : offset+8]
	}
	for tail := page.Data_tail; tail+16 <= head; {
		header := at(tail) // struct perf_event_header: type, misc, size
		kind, size := binary.NativeEndian.Uint32(header), uint64(binary.NativeEndian.Uint16(header[6:]))
		if size < 8 {
			break
		}
		if kind == unix.PERF_RECORD_SAMPLE && size >= 16 {
			all = append(all, binary.NativeEndian.Uint64(at(tail+8)))
		}
		tail += size
	}
	return all
}

// functions are the busiest kernel functions, in cores.
func (s *sampler) functions(took time.Duration) ([]result.FunctionTime, error) {
	var addresses []uint64
	for _, r := range s.rings {
		addresses = append(addresses, r.addresses()...)
	}
	if len(addresses) == 0 {
		return nil, errors.New("the clock event gave no samples")
	}
	symbols, err := readSymbols("/proc/kallsyms")
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, address := range addresses {
		i, _ := slices.BinarySearchFunc(symbols, address, func(s symbol, address uint64) int {
			return cmp.Or(cmp.Compare(s.address, address), -1) // the last of those that are not after it
		})
		if i > 0 {
			counts[symbols[i-1].name]++
		}
	}
	var list []result.FunctionTime
	for name, n := range counts {
		list = append(list, result.FunctionTime{Name: name, Cores: float64(n) / float64(s.hertz) / took.Seconds()})
	}
	slices.SortFunc(list, func(a, b result.FunctionTime) int {
		return cmp.Or(cmp.Compare(b.Cores, a.Cores), cmp.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), mostFunctions)], nil
}

// symbol is a function of the kernel.
type symbol struct {
	address uint64
	name    string
}

// readSymbols reads addresses, types and names of code, BPF programs' too.
func readSymbols(path string) (symbols []symbol, err error) {
	err = eachLine(path, func(words []string) error {
		if len(words) < 3 || words[1] != "t" && words[1] != "T" && words[1] != "w" && words[1] != "W" {
			return nil
		}
		address, err := strconv.ParseUint(words[0], 16, 64)
		if err != nil {
			return err
		}
		if address != 0 {
			symbols = append(symbols, symbol{address, words[2]})
		}
		return nil
	})
	if err == nil && len(symbols) == 0 {
		err = errors.New("the kernel hides its addresses (kernel.kptr_restrict): only root may see them")
	}
	slices.SortStableFunc(symbols, func(a, b symbol) int { return cmp.Compare(a.address, b.address) })
	return symbols, err
}
