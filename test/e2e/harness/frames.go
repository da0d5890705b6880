package harness

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/pkttest"
)

// Frames sends and receives whole frames at an interface, below all protocols.
type Frames struct {
	File *os.File
	Name string
	Tap  bool // the file is a tap's, not a packet socket
}

// OpenFrames takes what arrives and, when outgoing is set, what leaves.
func OpenFrames(h *topo.Host, name string, outgoing bool) (*Frames, error) {
	index, err := h.Index(name)
	if err != nil {
		return nil, err
	}
	f := &Frames{Name: h.Name + "/" + name}
	err = h.Do(func() error {
		const every = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		f.File = os.NewFile(uintptr(fd), f.Name)
		ignore := 1
		if outgoing {
			ignore = 0
		}
		return errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, ignore),
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: every, Ifindex: index}),
		)
	})
	if err != nil {
		return nil, fmt.Errorf("packet socket on %s: %w", f.Name, err)
	}
	return f, nil
}

// Close ends it.
func (f *Frames) Close() { f.File.Close() }

// Send sends a frame as it is.
func (f *Frames) Send(frame []byte) error {
	if _, err := f.File.Write(frame); err != nil {
		return fmt.Errorf("send a frame of %d bytes on %s: %w", len(frame), f.Name, err)
	}
	return nil
}

// Next returns the next frame before the deadline, with its tag.
func (f *Frames) Next(deadline time.Time) ([]byte, error) {
	if err := f.File.SetReadDeadline(deadline); err != nil {
		return nil, err
	}
	if f.Tap {
		b := make([]byte, frameRoom)
		size, err := f.File.Read(b)
		return b[:max(0, size)], err
	}
	conn, err := f.File.SyscallConn()
	if err != nil {
		return nil, err
	}
	var frame []byte
	var failed error
	err = conn.Read(func(fd uintptr) bool {
		frame, failed = readFrame(fd)
		return !errors.Is(failed, unix.EAGAIN)
	})
	return frame, errors.Join(err, failed)
}

// Waiting takes the next frame that has come already at a packet socket; its error is
// unix.EAGAIN where none has. A deadline that is near is no way to ask: on a busy machine it
// passes before the socket is looked at.
func (f *Frames) Waiting() (frame []byte, err error) {
	conn, err := f.File.SyscallConn()
	if err != nil {
		return nil, err
	}
	var failed error
	err = conn.Control(func(fd uintptr) { frame, failed = readFrame(fd) })
	return frame, errors.Join(err, failed)
}

const frameRoom = 1 << 17

// readFrame takes a frame from a packet socket that does not block.
func readFrame(fd uintptr) ([]byte, error) {
	b, control := make([]byte, frameRoom), make([]byte, 128)
	size, more, _, _, err := unix.Recvmsg(int(fd), b, control, 0)
	if err != nil {
		return nil, err
	}
	return retag(b[:size], control[:more])
}

// retag puts the tag back that the kernel has taken off (packet(7), PACKET_AUXDATA).
func retag(frame, control []byte) ([]byte, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		var aux unix.TpacketAuxdata
		if m.Header.Level != unix.SOL_PACKET || m.Header.Type != unix.PACKET_AUXDATA {
			continue
		}
		if _, err := binary.Decode(m.Data, binary.NativeEndian, &aux); err != nil {
			return nil, err
		}
		if aux.Status&unix.TP_STATUS_VLAN_VALID != 0 {
			tag := binary.BigEndian.AppendUint16(nil, aux.Vlan_tpid)
			tag = binary.BigEndian.AppendUint16(tag, aux.Vlan_tci)
			frame = slices.Insert(frame, 12, tag...)
		}
	}
	return frame, nil
}

// Until collects the frames that want is true of, up to and with the first that
// last is true of.
func (f *Frames) Until(want, last func([]byte) bool) ([][]byte, error) {
	deadline := time.Now().Add(Patience)
	var got [][]byte
	for {
		frame, err := f.Next(deadline)
		if err != nil {
			return got, fmt.Errorf("%s received %d of the frames: %w", f.Name, len(got), err)
		}
		if last(frame) {
			return got, nil
		}
		if want(frame) {
			got = append(got, frame)
		}
	}
}

// largest reads all frames that have come, and returns the size of the largest.
func (f *Frames) largest() (largest int, err error) {
	conn, err := f.File.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		for failed == nil {
			var size int
			size, _, failed = unix.Recvfrom(int(fd), nil, unix.MSG_DONTWAIT|unix.MSG_TRUNC)
			largest = max(largest, size)
		}
	})
	if errors.Is(failed, unix.EAGAIN) {
		failed = nil
	}
	return largest, errors.Join(err, failed)
}

// Marked is a frame that can be found again by its mark.
func Marked(src, dst net.HardwareAddr, mark string) []byte {
	ethernet := pkttest.Ether(src.String(), dst.String())
	ethernet.Type = pkttest.EtherTypeExperimental
	return pkttest.Packet(ethernet, pkttest.Bytes(append([]byte(mark), make([]byte, 80)...)))
}

// Has finds a marked frame.
func Has(mark string) func([]byte) bool {
	return func(b []byte) bool { return bytes.Contains(b, []byte(mark)) }
}

// MAC addresses of frames.
const (
	ClientMAC = "02:00:00:00:00:01"
	ServerMAC = "02:00:00:00:00:02"
	Broadcast = "ff:ff:ff:ff:ff:ff"
	MinFrame  = 60   // Ethernet's minimum without its checksum
	MaxFrame  = 1514 // 1500 bytes of payload
)

// RawFrame is a frame of size bytes whose payload counts up from its size.
func RawFrame(src, dst string, ethertype uint16, size int) []byte {
	payload := make([]byte, size-14)
	for i := range payload {
		payload[i] = byte(size + i)
	}
	ethernet := pkttest.Ether(src, dst)
	ethernet.Type = ethertype
	return pkttest.Packet(ethernet, pkttest.Bytes(payload))
}
