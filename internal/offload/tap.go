package offload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/checksum"
	"github.com/selvage/selvage/internal/overlay"
)

const (
	// tapBuffer is what the kernel keeps for the reader, in bytes of its own counting.
	tapBuffer = 64 << 20
	// sumNotReady is TP_STATUS_CSUMNOTREADY of linux/if_packet.h: the frame did not cross a
	// wire, and a device would still have to fill its checksum in.
	sumNotReady = 1 << 3
	// ignoreOutgoing is PACKET_IGNORE_OUTGOING (Linux 4.20).
	ignoreOutgoing = 23
	snapLength     = 1 << 17
)

// tap gets the frames of one session before the data path does, from any interface.
type tap struct {
	file *os.File
	raw  syscall.RawConn
	six  bool
}

// receipt is what came in a tunnel.
type receipt struct {
	frame []byte
	ready bool // its checksums are filled in
	at    time.Time
}

// openTap opens it in the network namespace of the calling thread, for tunnels from remote
// to local.
func openTap(local, remote netip.Addr, port uint16, vni overlay.VNI) (*tap, error) {
	// No protocol yet: nothing may be queued before the filter is there.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w", err)
	}
	if err := setUpTap(fd, local, remote, port, vni); err != nil {
		unix.Close(fd)
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "tap of offload probes")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &tap{file, raw, local.Is6()}, nil
}

func setUpTap(fd int, local, remote netip.Addr, port uint16, vni overlay.VNI) error {
	filter := filterFor(local, remote, port, vni)
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}); err != nil {
		return fmt.Errorf("attach the filter: %w", err)
	}
	for _, o := range []struct {
		name               string
		level, code, value int
	}{
		{"PACKET_AUXDATA", unix.SOL_PACKET, unix.PACKET_AUXDATA, 1},
		{"PACKET_IGNORE_OUTGOING", unix.SOL_PACKET, ignoreOutgoing, 1},
		{"SO_RCVBUFFORCE", unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, tapBuffer},
		{"SO_TIMESTAMPNS", unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.code, o.value); err != nil {
			return fmt.Errorf("set %s: %w", o.name, err)
		}
	}
	all := binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL}) // in network order
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all}); err != nil {
		return fmt.Errorf("bind a packet socket: %w", err)
	}
	return nil
}

// protocolField loads the ethertype: SKF_AD_OFF and SKF_AD_PROTOCOL of linux/filter.h.
const protocolField = 0xfffff000

// test compares a field, from the outer IP header on.
type test struct {
	offset uint32
	size   uint16 // BPF_B, BPF_H or BPF_W
	how    uint16 // BPF_JEQ or BPF_JGE
	value  uint32
}

// filterFor takes the session's tunnels alone, those from nearby and without IP options.
func filterFor(local, remote netip.Addr, port uint16, vni overlay.VNI) []unix.SockFilter {
	word := func(a netip.Addr, i int) uint32 { return binary.BigEndian.Uint32(a.AsSlice()[4*i:]) }
	tests := []test{
		{protocolField, unix.BPF_H, unix.BPF_JEQ, unix.ETH_P_IP}, {8, unix.BPF_B, unix.BPF_JGE, leastTTL},
		{0, unix.BPF_B, unix.BPF_JEQ, 4<<4 | ipv4Header/4}, {9, unix.BPF_B, unix.BPF_JEQ, unix.IPPROTO_UDP},
		{12, unix.BPF_W, unix.BPF_JEQ, word(remote, 0)}, {16, unix.BPF_W, unix.BPF_JEQ, word(local, 0)},
	}
	udp := uint32(ipv4Header)
	if local.Is6() {
		udp = ipv6Header
		tests = []test{
			{protocolField, unix.BPF_H, unix.BPF_JEQ, unix.ETH_P_IPV6}, {7, unix.BPF_B, unix.BPF_JGE, leastTTL},
			{6, unix.BPF_B, unix.BPF_JEQ, unix.IPPROTO_UDP},
		}
		for i := range 4 {
			tests = append(tests, test{8 + 4*uint32(i), unix.BPF_W, unix.BPF_JEQ, word(remote, i)},
				test{24 + 4*uint32(i), unix.BPF_W, unix.BPF_JEQ, word(local, i)})
		}
	}
	tests = append(tests, test{udp + 2, unix.BPF_H, unix.BPF_JEQ, uint32(port)},
		test{udp + udpHeader + 4, unix.BPF_W, unix.BPF_JEQ, uint32(vni) << 8})
	var program []unix.SockFilter
	for i, t := range tests {
		refuse := uint8(2*(len(tests)-1-i) + 1)
		program = append(program,
			unix.SockFilter{Code: unix.BPF_LD | t.size | unix.BPF_ABS, K: t.offset},
			unix.SockFilter{Code: unix.BPF_JMP | t.how | unix.BPF_K, Jf: refuse, K: t.value})
	}
	return append(program, unix.SockFilter{Code: unix.BPF_RET, K: snapLength}, unix.SockFilter{Code: unix.BPF_RET})
}

// receive waits for a frame, until close. It is not ok when its outer headers are wrong.
func (t *tap) receive(buffer []byte) (a receipt, ok bool, err error) {
	var oob [128]byte
	var n, oobn int
	var received error
	err = t.raw.Read(func(fd uintptr) bool {
		n, oobn, _, _, received = unix.Recvmsg(int(fd), buffer, oob[:], unix.MSG_DONTWAIT)
		return !errors.Is(received, unix.EAGAIN)
	})
	if err = errors.Join(err, received); err != nil {
		return a, false, err
	}
	a.at, a.ready = about(oob[:oobn])
	a.frame, ok = unwrap(buffer[:n], t.six, a.ready)
	return a, ok, nil
}

// about reads when a frame came, and whether its checksums are filled in.
func about(oob []byte) (at time.Time, ready bool) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return at, false
	}
	ready = true
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= 16:
			at = time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
		case m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA && len(m.Data) >= 4:
			ready = binary.NativeEndian.Uint32(m.Data)&sumNotReady == 0
		}
	}
	return at, ready
}

// unwrap takes the outer headers off, and is false when they are wrong.
func unwrap(b []byte, six, ready bool) ([]byte, bool) {
	header := ipv4Header
	if six {
		header = ipv6Header
	}
	if len(b) < header+udpHeader+vxlanHeader {
		return nil, false
	}
	ip, udp := b[:header], b[header:]
	length, pseudo := int(binary.BigEndian.Uint16(ip[2:]))-header, uint32(0)
	if six {
		length, pseudo = int(binary.BigEndian.Uint16(ip[4:])), checksum.Add(0, ip[8:])
	} else {
		if checksum.Of(ip) != 0 {
			return nil, false
		}
		pseudo = checksum.Add(0, ip[12:])
	}
	if length < udpHeader+vxlanHeader || length > len(udp) || int(binary.BigEndian.Uint16(udp[4:])) != length {
		return nil, false
	}
	udp = udp[:length] // short frames are padded
	summed := binary.BigEndian.Uint16(udp[6:]) != 0
	if summed && ready && checksum.Fold(checksum.Add(pseudo+uint32(length)+unix.IPPROTO_UDP, udp)) != 0xffff {
		return nil, false
	}
	return udp[udpHeader+vxlanHeader:], true
}

// dropped is how many frames did not fit the buffer since it was asked last.
func (t *tap) dropped() uint32 {
	var stats *unix.TpacketStats
	var failed error
	err := t.raw.Control(func(fd uintptr) {
		stats, failed = unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS)
	})
	if err != nil || failed != nil {
		return 0
	}
	return stats.Drops
}

func (t *tap) close() error { return t.file.Close() }
