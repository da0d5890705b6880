package datapath

import (
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// runner calls BPF_PROG_TEST_RUN and reads events, some hundred thousand times a second: without
// memory of its own for each. It belongs to a thread that stays on one core.
type runner struct {
	skb    skBuff
	xdp    xdpMD
	out    []byte
	attr   testRunAttr
	cpu    int
	events int // descriptor of the map
	perCPU []uint64
	lookup lookupAttr
}

// testRunAttr is union bpf_attr's part for BPF_PROG_TEST_RUN.
type testRunAttr struct {
	prog, ret, sizeIn, sizeOut uint32
	in, out                    uint64
	repeat, duration           uint32
	ctxSizeIn, ctxSizeOut      uint32
	ctxIn, ctxOut              uint64
	flags, cpu, batch, _       uint32
}

// lookupAttr is that for BPF_MAP_LOOKUP_ELEM.
type lookupAttr struct {
	fd, _      uint32
	key, value uint64
	flags      uint64
}

func newRunner(events kernel.Map, cpu int) *runner {
	return &runner{out: make([]byte, 4096), cpu: cpu, events: kernel.HostMap(events).FD(), perCPU: make([]uint64, ebpf.MustPossibleCPU())}
}

// run gives a frame to a program. What it left is good until the next run.
func (r *runner) run(prog kernel.Program, xdp bool, ifindex int, frame []byte) (verdict, []byte, error) {
	a := &r.attr
	*a = testRunAttr{prog: uint32(kernel.HostProgram(prog).FD()), sizeIn: uint32(len(frame)), sizeOut: uint32(len(r.out)), in: address(&frame[0]), out: address(&r.out[0])}
	if xdp {
		r.xdp = xdpMD{DataEnd: uint32(len(frame)), IngressIfindex: uint32(ifindex)}
		a.ctxIn, a.ctxSizeIn = address(&r.xdp), uint32(unsafe.Sizeof(r.xdp))
	} else {
		r.skb = skBuff{Ifindex: uint32(ifindex)}
		a.ctxIn, a.ctxSizeIn = address(&r.skb), uint32(unsafe.Sizeof(r.skb))
	}
	_, _, err := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_TEST_RUN, uintptr(unsafe.Pointer(a)), unsafe.Sizeof(*a))
	runtime.KeepAlive(frame)
	if err != 0 {
		return 0, nil, err
	}
	return verdict(a.ret), r.out[:a.sizeOut], nil
}

// event is what this core has counted.
func (r *runner) event(e bpfEvent) (uint64, error) {
	key := uint32(e)
	r.lookup = lookupAttr{fd: uint32(r.events), key: address(&key), value: address(&r.perCPU[0])}
	_, _, err := unix.Syscall(unix.SYS_BPF, unix.BPF_MAP_LOOKUP_ELEM, uintptr(unsafe.Pointer(&r.lookup)), unsafe.Sizeof(r.lookup))
	runtime.KeepAlive(&key)
	if err != 0 {
		return 0, err
	}
	return r.perCPU[r.cpu], nil
}

func address[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }
