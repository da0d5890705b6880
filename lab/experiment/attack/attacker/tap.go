package attacker

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/topo"
)

// match is a condition on bytes of a frame, of 1, 2 or 4 bytes from an offset.
type match struct {
	offset, size uint32
	mask, want   uint32
	not          bool
}

// clause is conditions that all hold. Offsets must not go beyond what the earlier ones imply the
// frame to have: a filter ends with "no" there.
type clause []match

func field(offset, size, want uint32) match {
	return match{offset: offset, size: size, mask: 0xffffffff, want: want}
}

func not(m match) match {
	m.not = true
	return m
}

// Signatures of frames.
func attackMAC() clause { return clause{field(6, 2, 0x06a7)} }
func marked4() clause {
	return clause{field(12, 2, etherIPv4), field(15, 1, class), field(18, 2, marker)}
}
func marked6() clause { return clause{field(12, 2, etherIPv6), field(14, 4, 6<<28|class<<20|marker)} }

// toHonest are unicast frames to an honest guest of a segment.
func toHonest(segment uint32) []clause {
	return []clause{
		{field(0, 4, 0x02000000), field(4, 2, segment<<8|1)},
		{field(0, 4, 0x02000000), field(4, 2, segment<<8|2)},
	}
}

// Tap counts frames that arrive at an interface and match, on a socket that nobody reads: the kernel
// counts those that the filter lets pass also where there is no room for them.
type Tap struct {
	fd   int
	name string
}

// packetIgnoreOutgoing is PACKET_IGNORE_OUTGOING of if_packet.h.
const packetIgnoreOutgoing = 23

// listen opens a tap on an interface of a host.
func listen(h *topo.Host, name string, clauses []clause) (*Tap, error) {
	index, err := h.Index(name)
	if err != nil {
		return nil, err
	}
	program, err := compile(clauses)
	if err != nil {
		return nil, err
	}
	t := &Tap{fd: -1, name: h.Name}
	err = h.Do(func() error {
		if t.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return os.NewSyscallError("socket", err)
		}
		filter := &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
		return errors.Join(
			unix.SetsockoptInt(t.fd, unix.SOL_PACKET, packetIgnoreOutgoing, 1),
			unix.SetsockoptInt(t.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1),
			unix.SetsockoptSockFprog(t.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, filter),
			unix.Bind(t.fd, &unix.SockaddrLinklayer{Protocol: 0x0300, Ifindex: index})) // ETH_P_ALL in network order
	})
	if err != nil {
		t.Close()
		return nil, fmt.Errorf("capture at %s: %w", h.Name, err)
	}
	return t, nil
}

// Count is how many there were since it was asked last.
func (t *Tap) Count() (int, error) {
	s, err := unix.GetsockoptTpacketStats(t.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0, fmt.Errorf("capture at %s: %w", t.name, err)
	}
	return int(s.Packets), nil
}

// Close ends it.
func (t *Tap) Close() {
	if t.fd >= 0 {
		_ = unix.Close(t.fd)
	}
}

// compile makes a filter that passes what any clause matches.
func compile(clauses []clause) ([]unix.SockFilter, error) {
	var program []bpf.Instruction
	for _, c := range clauses {
		var one []bpf.Instruction
		for i, m := range c {
			left := 3*(len(c)-i) - 3 + 1 // of this clause behind the test, its "yes" included
			test := bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: m.want & m.mask, SkipTrue: uint8(left)}
			if m.not {
				test.Cond = bpf.JumpEqual
			}
			one = append(one, bpf.LoadAbsolute{Off: m.offset, Size: int(m.size)}, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: m.mask}, test)
		}
		program = append(append(program, one...), bpf.RetConstant{Val: 96})
	}
	raw, err := bpf.Assemble(append(program, bpf.RetConstant{Val: 0}))
	if err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return filter, nil
}
