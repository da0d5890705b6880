package datapath

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/selvage/selvage/test/tier"
)

// BenchmarkDependentAccess is what one access to a table costs at least: each next entry of 64 bytes is only known when the one before has
// been read, in random order over the whole table. It is the limit of a look-up among so many flows.
//
//	sudo make bench T=./internal/datapath B=DependentAccess
//
// "array" is one map, as the transit cache is: its memory lies in pages of 4 kB. "parts" is an array of maps of 32 KiB, which the kernel takes
// from its own mapping, in large pages.
func BenchmarkDependentAccess(b *testing.B) {
	tier.Root(b)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, entries := range []int{1 << 10, 1 << 14, 1 << 17, 1 << 20} {
		for _, inParts := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dKiB/%s", entries*chaseEntry>>10, map[bool]string{false: "array", true: "parts"}[inParts]), func(b *testing.B) {
				c := newChase(b, entries, inParts)
				var took time.Duration
				for b.Loop() {
					ret, each, err := c.program.Benchmark(make([]byte, 14), chaseRuns, b.ResetTimer)
					if err != nil || ret == 0 {
						b.Fatalf("returned %d: %v", ret, err)
					}
					took += each
				}
				b.ReportMetric(0, "ns/op") // of many accesses
				b.ReportMetric(float64(took.Nanoseconds())/float64(b.N)/chaseLength, "ns/access")
			})
		}
	}
}

const (
	chaseEntry  = 64  // bytes
	chasePart   = 448 // entries of a part, which is below 32 KiB with the map's own header
	chaseLength = 64  // accesses of a run of the program
	chaseRuns   = 20_000
)

// chase is a program that follows a chain of entries, each of which has the index of the next.
type chase struct{ program *ebpf.Program }

func newChase(b *testing.B, entries int, inParts bool) chase {
	b.Helper()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	order := rand.New(rand.NewPCG(1, 2)).Perm(entries)
	table := func(name string, n int) *ebpf.Map {
		m, err := ebpf.NewMap(&ebpf.MapSpec{Name: name, Type: ebpf.Array, KeySize: 4, ValueSize: chaseEntry, MaxEntries: uint32(n)})
		must(err)
		b.Cleanup(func() { m.Close() })
		return m
	}
	state, err := ebpf.NewMap(&ebpf.MapSpec{Name: "chase_state", Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	must(err)
	b.Cleanup(func() { state.Close() })
	var parts []*ebpf.Map
	size := entries
	if inParts {
		size = chasePart
	}
	for i := 0; i < entries; i += size {
		parts = append(parts, table("chase_entries", size))
	}
	values := make([][]byte, len(parts)*size)
	for i := range values {
		values[i] = make([]byte, chaseEntry)
	}
	// A part and a place in it, so that the program divides nothing.
	number := func(i int) uint32 { return uint32(i/size)<<16 | uint32(i%size) }
	if !inParts {
		number = func(i int) uint32 { return uint32(i) }
	}
	for i, at := range order {
		next := number(order[(i+1)%entries])
		values[at][0], values[at][1], values[at][2], values[at][3] = byte(next), byte(next>>8), byte(next>>16), byte(next>>24)
	}
	for p, m := range parts {
		for k := range size {
			must(m.Put(uint32(k), values[p*size+k]))
		}
	}
	outer := parts[0]
	if inParts {
		outer, err = ebpf.NewMap(&ebpf.MapSpec{
			Name: "chase_parts", Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: uint32(len(parts)),
			InnerMap: &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: chaseEntry, MaxEntries: chasePart},
		})
		must(err)
		b.Cleanup(func() { outer.Close() })
		for i, m := range parts {
			must(outer.Put(uint32(i), m))
		}
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "chase", Type: ebpf.SchedCLS, License: "GPL", Instructions: chaseInstructions(state, outer, inParts)})
	must(err)
	b.Cleanup(func() { program.Close() })
	return chase{program}
}

// chaseInstructions go on where the last run ended. They return 1, or 0 where a look-up failed.
func chaseInstructions(state, table *ebpf.Map, inParts bool) asm.Instructions {
	const key = -4
	lookUp := func(load asm.Instruction) asm.Instructions {
		return asm.Instructions{
			asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, key), load,
			asm.FnMapLookupElem.Call(), asm.JEq.Imm(asm.R0, 0, "fail"),
		}
	}
	store := func(from asm.Register) asm.Instruction { return asm.StoreMem(asm.RFP, key, from, asm.Word) }
	code := asm.Instructions{asm.StoreImm(asm.RFP, key, 0, asm.Word)}
	code = append(code, lookUp(asm.LoadMapPtr(asm.R1, state.FD()))...)
	code = append(code, asm.Mov.Reg(asm.R9, asm.R0), asm.LoadMem(asm.R6, asm.R0, 0, asm.Word))
	for range chaseLength {
		if inParts {
			code = append(code, asm.Mov.Reg(asm.R7, asm.R6), asm.RSh.Imm(asm.R7, 16), store(asm.R7))
			code = append(code, lookUp(asm.LoadMapPtr(asm.R1, table.FD()))...)
			code = append(code, asm.And.Imm(asm.R6, 0xffff), store(asm.R6))
			code = append(code, lookUp(asm.Mov.Reg(asm.R1, asm.R0))...)
		} else {
			code = append(code, store(asm.R6))
			code = append(code, lookUp(asm.LoadMapPtr(asm.R1, table.FD()))...)
		}
		code = append(code, asm.LoadMem(asm.R6, asm.R0, 0, asm.Word))
	}
	return append(code, asm.StoreMem(asm.R9, 0, asm.R6, asm.Word),
		asm.Mov.Imm(asm.R0, 1), asm.Return(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("fail"), asm.Return())
}
