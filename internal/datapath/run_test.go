package datapath

import (
	"fmt"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// skBuff is the kernel's struct __sk_buff as BPF_PROG_TEST_RUN takes it.
type skBuff struct {
	Len, PktType, Mark, QueueMapping, Protocol     uint32
	VlanPresent, VlanTCI, VlanProto, Priority      uint32
	IngressIfindex, Ifindex, TCIndex               uint32
	CB                                             [5]uint32
	Hash, TCClassid, Data, DataEnd, NapiID, Family uint32
	RemoteIP4, LocalIP4                            uint32
	RemoteIP6, LocalIP6                            [4]uint32
	RemotePort, LocalPort, DataMeta                uint32
	FlowKeys, Tstamp                               uint64
	WireLen, GSOSegs                               uint32
	SK                                             uint64
	GSOSize                                        uint32
	TstampType                                     uint8
	_                                              [3]uint8
	Hwtstamp                                       uint64
}

// verdict is what a program returned.
type verdict uint32

const (
	next      verdict = 0xffffffff // TCX_NEXT: the host's
	dropped   verdict = 2          // TCX_DROP
	forwarded verdict = 7          // TCX_REDIRECT
)

func (v verdict) String() string {
	switch v {
	case next:
		return "left to the host"
	case dropped:
		return "dropped"
	case forwarded:
		return "forwarded"
	}
	return fmt.Sprintf("verdict %d", uint32(v))
}

// result is a verdict and the packet as the program left it.
type result struct {
	verdict verdict
	out     []byte
}

// packet is what a program is given.
type packet struct {
	bytes   []byte
	gsoSize uint32 // of a large segment
	repeat  uint32 // run so many times on the same buffer; 0: once
}

// fromPort runs a packet through the program of ports, as if it came from dev.
func (w *world) fromPort(t testing.TB, dev string, frame []byte) result {
	t.Helper()
	return w.run(t, w.dp.prog.objs.FromPort, dev, packet{bytes: frame})
}

// fromUnderlay runs a packet through the program of the underlay.
func (w *world) fromUnderlay(t testing.TB, frame []byte) result {
	t.Helper()
	return w.run(t, w.dp.prog.objs.FromUnderlay, "u0", packet{bytes: frame})
}

func (w *world) run(t testing.TB, prog kernel.Program, dev string, p packet) result {
	t.Helper()
	var r result
	w.do(t, func() {
		var err error
		if r, err = runProgram(prog, w.dev[dev].Index, p); err != nil {
			t.Fatal(err)
		}
	})
	return r
}

// runProgram must be called in the device's namespace.
func runProgram(prog kernel.Program, ifindex int, p packet) (result, error) {
	in := skBuff{Ifindex: uint32(ifindex), GSOSize: p.gsoSize}
	out := make([]byte, len(p.bytes)+512)
	opts := &ebpf.RunOptions{Data: p.bytes, DataOut: out, Context: in, Repeat: p.repeat}
	ret, err := prog.Run(opts)
	if err != nil {
		return result{}, fmt.Errorf("run with %d bytes from ifindex %d: %w", len(p.bytes), ifindex, err)
	}
	return result{verdict(ret), opts.DataOut}, nil
}

// reload replaces the programs by ones with other load-time constants, on the same maps,
// for a test or until the next reload.
func (w *world) reload(t testing.TB, constants map[string]any) {
	t.Helper()
	spec, err := loadBpf()
	must(t, err)
	must(t, w.dp.prog.configure(spec))
	w.dp.Limits.configureLimits(spec)
	for name, value := range constants {
		if err := spec.Variables[name].Set(value); err != nil {
			t.Fatalf("set %s: %v", name, err)
		}
	}
	loaded, err := w.dp.prog.loadUpon(spec, w.dp.prog.maps())
	must(t, err)
	dp, previous := w.dp, w.dp.prog.objs
	w.dp.prog.objs.FromPort, w.dp.prog.objs.FromUnderlay = loaded.Programs[bpfProgFromPort], loaded.Programs[bpfProgFromUnderlay]
	t.Cleanup(func() {
		loaded.Close()
		dp.prog.objs = previous
	})
}
