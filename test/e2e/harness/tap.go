package harness

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/pkttest"
)

// virtioHeader is struct virtio_net_hdr (VIRTIO 1.2 section 5.1.6).
type virtioHeader struct {
	flags, gsoType                         uint8
	hdrLen, gsoSize, csumStart, csumOffset uint16
}

const (
	virtioLen       = 10
	virtioNeedsCsum = 1
	virtioTCPv4     = 1
	virtioTCPv6     = 4
)

func parseVirtio(b []byte) virtioHeader {
	word := func(at int) uint16 { return binary.NativeEndian.Uint16(b[at:]) }
	return virtioHeader{b[0], b[1], word(2), word(4), word(6), word(8)}
}

// OpenTap makes a tap device in a host. offload: segments up to 64 kB, with
// unfinished checksums, go through it, behind a virtio header.
func OpenTap(h *topo.Host, name string, offload bool) (tap *os.File, err error) {
	err = h.Do(func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		request, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		flags, offloads := unix.IFF_TAP|unix.IFF_NO_PI, 0
		if offload {
			flags |= unix.IFF_VNET_HDR
			offloads = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6
		}
		request.SetUint16(uint16(flags))
		err = errors.Join(unix.IoctlIfreq(fd, unix.TUNSETIFF, request), unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, offloads))
		if err != nil {
			unix.Close(fd)
			return err
		}
		tap = os.NewFile(uintptr(fd), name)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("tap %s in %s: %w", name, h.Name, err)
	}
	return tap, nil
}

// Cable carries frames between two taps until they are closed.
type Cable struct {
	host, guest *os.File
	offload     bool
	running     sync.WaitGroup

	Mu     sync.Mutex
	Faults []string
	Frames int
}

// PlugCable connects two taps.
func PlugCable(host, guest *os.File, offload bool) *Cable {
	c := &Cable{host: host, guest: guest, offload: offload}
	c.running.Go(func() { c.carry(host, guest, c.look) })
	c.running.Go(func() { c.carry(guest, host, func([]byte) {}) })
	return c
}

func (c *Cable) carry(from, to *os.File, look func([]byte)) {
	b := make([]byte, 1<<17)
	for {
		size, err := from.Read(b)
		if err != nil {
			return // closed
		}
		look(b[:size])
		if _, err := to.Write(b[:size]); err != nil && !errors.Is(err, os.ErrClosed) {
			c.fault("the guest refuses a frame of %d bytes (%x): %v", size, b[:min(size, 96)], err)
		}
	}
}

// Unplug ends it.
func (c *Cable) Unplug() {
	c.host.Close()
	c.guest.Close()
	c.running.Wait()
}

func (c *Cable) fault(format string, args ...any) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if len(c.Faults) < 5 {
		c.Faults = append(c.Faults, fmt.Sprintf(format, args...))
	}
}

// look checks what a guest would be given: whole frames have right checksums,
// segments and unfinished ones a header that says how to finish them.
func (c *Cable) look(b []byte) {
	var header virtioHeader
	frame := b
	if c.offload {
		header, frame = parseVirtio(b), b[virtioLen:]
	}
	c.Mu.Lock()
	c.Frames++
	c.Mu.Unlock()
	if err := checkVirtio(header, frame); err != nil {
		c.fault("%v: header %+v, frame of %d bytes %x", err, header, len(frame), frame[:min(len(frame), 80)])
	}
}

func checkVirtio(h virtioHeader, frame []byte) error {
	if h.flags&virtioNeedsCsum == 0 {
		if h.gsoType != 0 {
			return errors.New("a segment without a checksum to fill in")
		}
		if d := pkttest.Dissect(frame); len(d.Faults) > 0 {
			return d.Faults[0]
		}
		return nil
	}
	const ip = 14 // where its header starts
	var l4 int
	var proto byte
	var addresses []byte
	switch binary.BigEndian.Uint16(frame[12:]) {
	case pkttest.EtherTypeIPv4:
		l4 = ip + int(frame[ip]&0xf)*4
		proto, addresses = frame[ip+9], frame[ip+12:ip+20]
	case pkttest.EtherTypeIPv6:
		l4 = ip + 40
		proto, addresses = frame[ip+6], frame[ip+8:ip+40]
	default:
		return errors.New("a checksum to fill in, and not IP")
	}
	if int(h.csumStart) != l4 {
		return fmt.Errorf("the checksum starts at %d, the L4 header at %d", h.csumStart, l4)
	}
	// The field holds the sum of the pseudo header (RFC 9293 3.1).
	want := pkttest.Sum(addresses, uint32(proto)+uint32(len(frame)-l4))
	if got := binary.BigEndian.Uint16(frame[l4+int(h.csumOffset):]); got != want {
		return fmt.Errorf("the unfinished checksum is %#04x, want %#04x", got, want)
	}
	return checkSegment(h, frame, l4)
}

func checkSegment(h virtioHeader, frame []byte, l4 int) error {
	if h.gsoType == 0 {
		return nil
	}
	want := uint8(virtioTCPv4)
	if frame[14]>>4 == 6 {
		want = virtioTCPv6
	}
	headers := l4 + int(frame[l4+12]>>4)*4
	if h.gsoType&0x7f != want || int(h.hdrLen) < headers || h.gsoSize == 0 || int(h.gsoSize) > len(frame)-headers {
		return fmt.Errorf("a segment with %d bytes of headers", headers)
	}
	return nil
}
