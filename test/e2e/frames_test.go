package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/topo"
)

// frames sends and receives whole frames at an interface, below all protocols.
type frames struct {
	file *os.File
	name string
	tap  bool // the file is a tap's, not a packet socket
}

// openFrames takes what arrives and, when outgoing is set, what leaves.
func openFrames(h *topo.Host, name string, outgoing bool) (*frames, error) {
	index, err := h.Index(name)
	if err != nil {
		return nil, err
	}
	f := &frames{name: h.Name + "/" + name}
	err = h.Do(func() error {
		const every = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		f.file = os.NewFile(uintptr(fd), f.name)
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
		return nil, fmt.Errorf("packet socket on %s: %w", f.name, err)
	}
	return f, nil
}

func (f *frames) close() { f.file.Close() }

func (f *frames) send(frame []byte) error {
	if _, err := f.file.Write(frame); err != nil {
		return fmt.Errorf("send a frame of %d bytes on %s: %w", len(frame), f.name, err)
	}
	return nil
}

// next returns the next frame before the deadline, with its tag.
func (f *frames) next(deadline time.Time) ([]byte, error) {
	if err := f.file.SetReadDeadline(deadline); err != nil {
		return nil, err
	}
	b := make([]byte, 1<<17)
	if f.tap {
		size, err := f.file.Read(b)
		return b[:max(0, size)], err
	}
	conn, err := f.file.SyscallConn()
	if err != nil {
		return nil, err
	}
	var size, more int
	control := make([]byte, 128)
	var failed error
	err = conn.Read(func(fd uintptr) bool {
		size, more, _, _, failed = unix.Recvmsg(int(fd), b, control, 0)
		return !errors.Is(failed, unix.EAGAIN)
	})
	if err = errors.Join(err, failed); err != nil {
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

// until collects the frames that want is true of, up to and with the first that
// last is true of.
func (f *frames) until(want, last func([]byte) bool) ([][]byte, error) {
	deadline := time.Now().Add(patience)
	var got [][]byte
	for {
		frame, err := f.next(deadline)
		if err != nil {
			return got, fmt.Errorf("%s received %d of the frames: %w", f.name, len(got), err)
		}
		if last(frame) {
			return got, nil
		}
		if want(frame) {
			got = append(got, frame)
		}
	}
}

// watch measures frames until it is stopped; stop returns the largest.
func (f *frames) watch() (stop func() int) {
	largest := 0
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			frame, err := f.next(time.Time{})
			if err != nil {
				return // closed
			}
			largest = max(largest, len(frame))
		}
	})
	return func() int {
		f.close()
		wg.Wait()
		return largest
	}
}
