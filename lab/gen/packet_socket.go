package gen

import (
	"context"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// packetSockets send what is larger than a page, which no live frame of the kernel is. The same program makes the frames, in a
// buffer of this process, so that headers, marks, flows and pace are those of all others.
type packetSockets struct {
	fds     []int  // by port
	refused uint64 // frames that an interface did not take, since the sender was made
}

// isLarge says whether frames of that length, with FCS and with what a tunnel and a tag add, are handed over by packet
// sockets, which are slower.
func isLarge(frame int) bool { return frame > pageFrame }

// socketBuffer is the bytes on their way that a socket may have: a ring of large frames.
const socketBuffer = 16 << 20

// open opens one at an interface of this thread's namespace.
func (p *packetSockets) open(ifindex int) error {
	// Protocol 0 takes nothing in.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("packet socket: %w", err)
	}
	p.fds = append(p.fds, fd)
	for _, step := range []struct {
		what string
		err  error
	}{
		// Without the interface's queue a frame is taken or refused at once.
		{"PACKET_QDISC_BYPASS", unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1)},
		{"SO_SNDBUFFORCE", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, socketBuffer)},
		{"bind", unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: ifindex})},
	} {
		if step.err != nil {
			return fmt.Errorf("packet socket at interface %d: %s: %w", ifindex, step.what, step.err)
		}
	}
	return nil
}

// send hands a frame over, or counts that it was refused.
func (p *packetSockets) send(port int, frame []byte) error {
	for {
		_, err := unix.Write(p.fds[port], frame)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENETDOWN): // its ring or the socket is full, or it is down
			p.refused++
			return nil
		}
		return fmt.Errorf("send a frame of %d bytes: %w", len(frame), err)
	}
}

func (p *packetSockets) close() {
	for _, fd := range p.fds {
		unix.Close(fd)
	}
	p.fds = nil
}

// Of an XDP program.
const redirected = 4 // XDP_REDIRECT

// loopLarge is loop with frames that are larger than a page.
func (s *Sender) loopLarge(ctx context.Context, r *genRun) error {
	buffer := make([]byte, len(s.first))
	options := &ebpf.RunOptions{Data: s.first}
	for r.Offered < r.Frames {
		if err := ctx.Err(); err != nil {
			return err
		}
		port := 0
		if len(s.interfaces) > 1 {
			port = int(r.Port)
		}
		options.DataOut = buffer
		action, err := s.objects.Generate.Run(options)
		if err != nil {
			return fmt.Errorf("run the generator: %w", err)
		}
		if err := s.objects.Current.Get(r); err != nil {
			return err
		}
		if action == redirected {
			if err := s.sockets.send(port, options.DataOut); err != nil {
				return err
			}
		}
	}
	return nil
}
