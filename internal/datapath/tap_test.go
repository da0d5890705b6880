package datapath

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/test/pkttest"
)

// tap sends and receives frames at one device, behind the back of all protocols.
type tap struct {
	fd   int
	far  int // ifindex of the veth's other end
	self int
	skip func(frame []byte) bool // what is no business of the test's, nil: nothing
}

// frame is what a tap received. gsoSize is not 0 for a large segment.
type tapped struct {
	bytes   []byte
	gsoSize uint16
}

// virtioHeader is struct virtio_net_hdr (VIRTIO 1.2 section 5.1.6), which
// AF_PACKET puts before each frame.
type virtioHeader struct {
	Flags, GSOType                         uint8
	HdrLen, GSOSize, CsumStart, CsumOffset uint16
}

const (
	virtioHeaderLen = 10
	virtioNeedsCsum = 1
	virtioTCPv4     = 1
	virtioTCPv6     = 4
)

func (w *world) tap(t testing.TB, dev, far string) *tap {
	t.Helper()
	p := &tap{far: w.dev[far].Index, self: w.dev[dev].Index}
	w.do(t, func() {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		p.fd = fd
	})
	t.Cleanup(func() { unix.Close(p.fd) })
	for option, value := range map[int]int{unix.PACKET_VNET_HDR: 1, unix.PACKET_IGNORE_OUTGOING: 1, unix.PACKET_AUXDATA: 1} {
		must(t, unix.SetsockoptInt(p.fd, unix.SOL_PACKET, option, value))
	}
	must(t, unix.SetsockoptTimeval(p.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2}))
	must(t, unix.SetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20))
	const everyProtocol = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00
	must(t, unix.Bind(p.fd, &unix.SockaddrLinklayer{Protocol: everyProtocol, Ifindex: p.self}))
	return p
}

// send lets a frame leave through the device.
func (p *tap) send(t testing.TB, b []byte) { p.sendWith(t, p.self, virtioHeader{}, b) }

func (p *tap) sendWith(t testing.TB, ifindex int, h virtioHeader, b []byte) {
	t.Helper()
	buf := make([]byte, 0, virtioHeaderLen+len(b))
	buf, err := binary.Append(buf, binary.NativeEndian, h)
	must(t, err)
	if err := unix.Sendto(p.fd, append(buf, b...), 0, &unix.SockaddrLinklayer{Ifindex: ifindex}); err != nil {
		t.Fatalf("send %d bytes: %v", len(b), err)
	}
}

// receive waits for n frames, then makes sure that no other one has come.
func (p *tap) receive(t testing.TB, n int) []tapped {
	t.Helper()
	var got []tapped
	for len(got) < n {
		f, err := p.read()
		if err != nil {
			t.Fatalf("%d of %d frames have come: %v", len(got), n, err)
		}
		got = append(got, f)
	}
	marker := pkttest.Frame(nobody, nobody, "raw 0x9999 46")
	p.sendWith(t, p.far, virtioHeader{}, marker)
	for {
		f, err := p.read()
		if err != nil {
			t.Fatalf("wait for the marker: %v", err)
		}
		if bytes.Equal(f.bytes, marker) {
			return got
		}
		pkttest.Errorf(t, []pkttest.Named{{Name: "frame", Bytes: f.bytes}}, "more than %d frames have come", n)
	}
}

// read is the next frame that is not skipped.
func (p *tap) read() (tapped, error) {
	for {
		f, err := p.readAny()
		if err != nil || p.skip == nil || !p.skip(f.bytes) {
			return f, err
		}
	}
}

func (p *tap) readAny() (tapped, error) {
	buf := make([]byte, 1<<17)
	control := make([]byte, 64)
	n, controlLen, _, _, err := unix.Recvmsg(p.fd, buf, control, 0)
	if errors.Is(err, unix.EAGAIN) {
		return tapped{}, errors.New("nothing within " + (2 * time.Second).String())
	}
	if err != nil {
		return tapped{}, err
	}
	var h virtioHeader
	if _, err := binary.Decode(buf, binary.NativeEndian, &h); err != nil {
		return tapped{}, err
	}
	b := buf[virtioHeaderLen:n]
	tag, err := tagBeside(control[:controlLen])
	if err != nil {
		return tapped{}, err
	}
	if h.Flags&virtioNeedsCsum != 0 && h.GSOSize == 0 {
		finish(b, int(h.CsumStart), int(h.CsumOffset))
	}
	if len(tag) > 0 { // the kernel took it out of the frame
		b = slices.Concat(b[:12], tag, b[12:])
	}
	return tapped{b, h.GSOSize}, nil
}

// auxdata is struct tpacket_auxdata of packet(7).
type auxdata struct {
	Status, Len, Snaplen    uint32
	Mac, Net, VlanTCI, TPID uint16
}

// tagBeside is the 802.1Q tag that the kernel keeps beside a frame, nil without one.
func tagBeside(control []byte) ([]byte, error) {
	list, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	for _, m := range list {
		var a auxdata
		if m.Header.Level != unix.SOL_PACKET || m.Header.Type != unix.PACKET_AUXDATA {
			continue
		}
		if _, err := binary.Decode(m.Data, binary.NativeEndian, &a); err != nil {
			return nil, err
		}
		if a.Status&unix.TP_STATUS_VLAN_VALID != 0 {
			return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, a.TPID), a.VlanTCI), nil
		}
	}
	return nil, nil
}

// finish does what a device with checksum offload does when a packet leaves.
func finish(b []byte, start, offset int) {
	sum := ^pkttest.Sum(b[start:], 0)
	binary.BigEndian.PutUint16(b[start+offset:], sum)
}
