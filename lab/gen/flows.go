package gen

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"unsafe"
)

const (
	flowLen = int(unsafe.Sizeof(genFlow{}))
	// flowsAtATime are read or forgotten with one buffer.
	flowsAtATime = 4096
)

// forgetFlows begins all flows at sequence number 0.
func (s *Sink) forgetFlows() error {
	memory, err := s.flows.Memory()
	if err != nil {
		return fmt.Errorf("sink: flows: %w", err)
	}
	none := make([]byte, flowLen*flowsAtATime)
	for at := 0; at < flowLen*s.o.Flows; at += len(none) {
		part := none[:min(len(none), flowLen*s.o.Flows-at)]
		if _, err := memory.WriteAt(part, int64(at)); err != nil {
			return fmt.Errorf("sink: forget flows: %w", err)
		}
	}
	return nil
}

// eachFlow calls f for the flows that were seen, in their order.
func (s *Sink) eachFlow(f func(Flow)) error {
	memory, err := s.flows.Memory()
	if err != nil {
		return fmt.Errorf("flows: %w", err)
	}
	buffer := make([]byte, flowLen*flowsAtATime)
	for first := 0; first < s.o.Flows; first += flowsAtATime {
		n := min(flowsAtATime, s.o.Flows-first)
		if _, err := io.ReadFull(io.NewSectionReader(memory, int64(first*flowLen), int64(n*flowLen)), buffer[:n*flowLen]); err != nil {
			return fmt.Errorf("read flows: %w", err)
		}
		for i := range n {
			b := buffer[i*flowLen:]
			next := binary.NativeEndian.Uint64(b[unsafe.Offsetof(genFlow{}.Next):])
			if next == 0 {
				continue
			}
			gaps := binary.NativeEndian.Uint64(b[unsafe.Offsetof(genFlow{}.Gaps):])
			f(Flow{
				Flow: first + i, Frames: next - gaps, Gaps: gaps,
				Reordered:  uint64(binary.NativeEndian.Uint32(b[unsafe.Offsetof(genFlow{}.Reordered):])),
				Duplicated: uint64(binary.NativeEndian.Uint32(b[unsafe.Offsetof(genFlow{}.Duplicated):])),
			})
		}
	}
	return nil
}

func (f Flow) faults() uint64 { return f.Gaps + f.Reordered + f.Duplicated }

func (s *Sink) readFlows(report *Report) error {
	return s.eachFlow(func(f Flow) {
		report.Flows++
		report.Gaps += f.Gaps
		report.Reordered += f.Reordered
		report.Duplicated += f.Duplicated
		report.Worst = worse(report.Worst, f)
	})
}

// worse puts a flow among the worst if it belongs there.
func worse(worst []Flow, f Flow) []Flow {
	if f.faults() == 0 {
		return worst
	}
	at, _ := slices.BinarySearchFunc(worst, f, func(a, b Flow) int {
		if a.faults() >= b.faults() {
			return -1
		}
		return 1
	})
	if at == WorstFlows {
		return worst
	}
	worst = slices.Insert(worst, at, f)
	return worst[:min(len(worst), WorstFlows)]
}

// Flows are all flows that were seen since Reset, in their order.
func (s *Sink) Flows() ([]Flow, error) {
	var flows []Flow
	if err := s.eachFlow(func(f Flow) { flows = append(flows, f) }); err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	return flows, nil
}
