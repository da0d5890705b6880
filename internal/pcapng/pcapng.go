// Package pcapng writes capture files (draft-ietf-opsawg-pcapng) with comments, directions and verdicts of packets.
//
// Its one invariant: what is written is a whole block, so that a reader of a file that grows, or of a pipe, has whole
// packets. It only writes; tests read its files with tshark.
package pcapng

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// Block types and options.
const (
	blockSection    = 0x0a0d0d0a
	blockInterface  = 1
	blockStatistics = 5
	blockPacket     = 6

	optEnd     = 0
	optComment = 1

	sectionProgram                             = 4
	interfaceName, interfaceText, interfaceRes = 2, 3, 9
	packetFlags, packetDropped, packetID       = 2, 4, 5
	packetVerdict                              = 7
	statisticsReceived, statisticsDropped      = 4, 5

	linkEthernet = 1
	nanoseconds  = 9 // 10^-9
	magic        = 0x1a2b3c4d
)

// Direction is that of a packet at an interface.
type Direction uint32

// Directions (epb_flags).
const (
	Unknown  Direction = 0
	Inbound  Direction = 1
	Outbound Direction = 2
)

// Hook is whose verdict a packet has.
type Hook byte

// Hooks (epb_verdict).
const (
	TC  Hook = 1
	XDP Hook = 2
)

// Interface is where packets are captured.
type Interface struct {
	Name, Description string
	Snaplen           uint32
}

// Packet is a packet at an interface, by its place in the list.
type Packet struct {
	Interface int
	Time      time.Time
	Length    int // of the whole packet
	Bytes     []byte
	Comment   string
	Direction Direction
	ID        uint64 // the same at all interfaces
	Dropped   uint64 // packets that are missing since the one before
	Hook      Hook
	Verdict   int64
}

// Writer writes a file.
type Writer struct {
	out   io.Writer
	block []byte
	start int // of the block that is made
}

// New begins a file. program is who writes it.
func New(out io.Writer, program string, interfaces []Interface) (*Writer, error) {
	w := &Writer{out: out}
	w.begin(blockSection)
	w.u32(magic)
	w.u32(1)          // version 1.0
	w.u64(^uint64(0)) // of any length
	w.option(sectionProgram, []byte(program))
	w.end()
	for _, i := range interfaces {
		w.begin(blockInterface)
		w.u32(linkEthernet)
		w.u32(i.Snaplen)
		w.option(interfaceName, []byte(i.Name))
		w.option(interfaceText, []byte(i.Description))
		w.option(interfaceRes, []byte{nanoseconds})
		w.end()
	}
	return w, w.flush()
}

// Write appends a packet.
func (w *Writer) Write(p Packet) error {
	w.begin(blockPacket)
	w.u32(uint32(p.Interface))
	w.time(p.Time)
	w.u32(uint32(len(p.Bytes)))
	w.u32(uint32(max(p.Length, len(p.Bytes))))
	w.padded(p.Bytes)
	if p.Comment != "" {
		w.option(optComment, []byte(p.Comment))
	}
	if p.Direction != Unknown {
		w.option(packetFlags, binary.LittleEndian.AppendUint32(nil, uint32(p.Direction)))
	}
	if p.Dropped > 0 {
		w.option(packetDropped, binary.LittleEndian.AppendUint64(nil, p.Dropped))
	}
	w.option(packetID, binary.LittleEndian.AppendUint64(nil, p.ID))
	if p.Hook != 0 {
		w.option(packetVerdict, binary.LittleEndian.AppendUint64([]byte{byte(p.Hook)}, uint64(p.Verdict)))
	}
	w.end()
	return w.flush()
}

// Statistics ends an interface: packets that were seen there, and those of them that are not in the file.
func (w *Writer) Statistics(index int, at time.Time, received, dropped uint64, comment string) error {
	w.begin(blockStatistics)
	w.u32(uint32(index))
	w.time(at)
	if comment != "" {
		w.option(optComment, []byte(comment))
	}
	w.option(statisticsReceived, binary.LittleEndian.AppendUint64(nil, received))
	w.option(statisticsDropped, binary.LittleEndian.AppendUint64(nil, dropped))
	w.end()
	return w.flush()
}

// begin begins a block, whose length end sets.
func (w *Writer) begin(kind uint32) {
	w.block = append(w.block, 0, 0, 0, 0, 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(w.block[len(w.block)-8:], kind)
	w.start = len(w.block) - 8
}

func (w *Writer) end() {
	w.u32(optEnd)
	length := uint32(len(w.block) - w.start + 4)
	w.u32(length)
	binary.LittleEndian.PutUint32(w.block[w.start+4:], length)
}

func (w *Writer) flush() error {
	_, err := w.out.Write(w.block)
	w.block = w.block[:0]
	if err != nil {
		return fmt.Errorf("write the capture: %w", err)
	}
	return nil
}

func (w *Writer) u32(v uint32) { w.block = binary.LittleEndian.AppendUint32(w.block, v) }
func (w *Writer) u64(v uint64) { w.block = binary.LittleEndian.AppendUint64(w.block, v) }

// time is in ns, the upper half first.
func (w *Writer) time(t time.Time) {
	ns := uint64(t.UnixNano())
	w.u32(uint32(ns >> 32))
	w.u32(uint32(ns))
}

// padded is of whole words.
func (w *Writer) padded(b []byte) {
	w.block = append(w.block, b...)
	w.block = append(w.block, make([]byte, -len(b)&3)...)
}

// mostOption is the length of an option.
const mostOption = 0xffff

func (w *Writer) option(code uint16, value []byte) {
	value = value[:min(len(value), mostOption)]
	w.block = binary.LittleEndian.AppendUint16(w.block, code)
	w.block = binary.LittleEndian.AppendUint16(w.block, uint16(len(value)))
	w.padded(value)
}
