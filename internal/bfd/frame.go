package bfd

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/checksum"
)

// Sizes of headers, in bytes.
const (
	ethernetLen = 14
	ipv4Len     = 20
	ipv6Len     = 40
	udpLen      = 8
)

// frames is a packet socket that sends by a next hop of the caller's choice, as the data path does: the
// routing table of the kernel would choose one of them itself.
type frames struct{ fd int }

// openFrames opens it in the network namespace of the calling thread. It receives nothing.
func openFrames() (*frames, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket for BFD by next hops: %w", err)
	}
	return &frames{fd}, nil
}

func (f *frames) close() error {
	if f == nil {
		return nil
	}
	return unix.Close(f.fd)
}

// send sends payload to p's remote by its next hop. What finds no room, or a link that is down, is lost like in
// a router.
func (f *frames) send(p Peer, from, to int, payload []byte) error {
	frame, kind := frameOf(p, from, to, payload)
	addr := unix.SockaddrLinklayer{Ifindex: p.Ifindex, Protocol: kind<<8 | kind>>8, Halen: 6}
	copy(addr.Addr[:], p.NextMAC[:])
	err := unix.Sendto(f.fd, frame, unix.MSG_DONTWAIT, &addr)
	for _, lost := range []error{unix.EAGAIN, unix.ENOBUFS, unix.ENETDOWN} {
		if errors.Is(err, lost) {
			return nil
		}
	}
	return err
}

// frameOf is an Ethernet frame with a UDP packet, and its EtherType.
func frameOf(p Peer, from, to int, payload []byte) (frame []byte, kind uint16) {
	size, kind := ipv6Len, uint16(unix.ETH_P_IPV6)
	if p.Local.Is4() {
		size, kind = ipv4Len, unix.ETH_P_IP
	}
	frame = make([]byte, ethernetLen+size+udpLen, ethernetLen+size+udpLen+len(payload))
	copy(frame, p.NextMAC[:])
	copy(frame[6:], p.SrcMAC[:])
	binary.BigEndian.PutUint16(frame[12:], kind)
	frame = append(frame, payload...)
	ip, udp := frame[ethernetLen:ethernetLen+size], frame[ethernetLen+size:]
	binary.BigEndian.PutUint16(udp, uint16(from))
	binary.BigEndian.PutUint16(udp[2:], uint16(to))
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	var addresses []byte
	if p.Local.Is4() {
		ip[0], ip[1], ip[8], ip[9] = 0x45, trafficClass, sentTTL, unix.IPPROTO_UDP
		binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+len(udp)))
		copy(ip[12:], p.Local.AsSlice())
		copy(ip[16:], p.Remote.AsSlice())
		binary.BigEndian.PutUint16(ip[10:], checksum.Of(ip))
		addresses = ip[12:]
	} else {
		binary.BigEndian.PutUint32(ip, 6<<28|trafficClass<<20)
		binary.BigEndian.PutUint16(ip[4:], uint16(len(udp)))
		ip[6], ip[7] = unix.IPPROTO_UDP, sentTTL
		copy(ip[8:], p.Local.AsSlice())
		copy(ip[24:], p.Remote.AsSlice())
		addresses = ip[8:]
	}
	pseudo := checksum.Add(uint32(len(udp))+unix.IPPROTO_UDP, addresses)
	sum := ^checksum.Fold(checksum.Add(pseudo, udp))
	if sum == 0 { // which would mean none (RFC 768)
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(udp[6:], sum)
	return frame, kind
}
