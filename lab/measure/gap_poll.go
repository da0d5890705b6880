package measure

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// outageRecord is a packet's payload and a connection's line: flow, number and time of sending.
type outageRecord struct {
	flow, seq uint32
	sent      time.Duration
}

const outageRecordSize = 16

func (r outageRecord) put(p []byte) {
	binary.BigEndian.PutUint32(p, r.flow)
	binary.BigEndian.PutUint32(p[4:], r.seq)
	binary.BigEndian.PutUint64(p[8:], uint64(r.sent))
}

func outageRecordOf(p []byte) outageRecord {
	return outageRecord{binary.BigEndian.Uint32(p), binary.BigEndian.Uint32(p[4:]), time.Duration(binary.BigEndian.Uint64(p[8:]))}
}

// outagePoll waits for sockets, and for SIGTERM.
type outagePoll struct {
	fd      int
	events  [128]unix.EpollEvent
	stopped atomic.Bool
	clock   monotonic
}

func newOutagePoll() (*outagePoll, error) {
	debug.SetGCPercent(-1) // a run is short, and pauses would be silences
	clock, err := newMonotonic()
	if err != nil {
		return nil, err
	}
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	first()
	p := &outagePoll{fd: fd, clock: clock}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGTERM)
	go func() { // until the process ends
		<-ended
		p.stopped.Store(true)
	}()
	return p, nil
}

// first has this thread run before whatever else wants its core, as far as the kernel lets
// it: work that a fault causes, like an edge that starts, shall not delay what looks for
// the fault's outage. It is little work. Where it is not let, OutageRun's Late tells.
func first() {
	runtime.LockOSThread()
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0)
}

func (p *outagePoll) now() time.Duration { return time.Duration(p.clock.now()) }

// add has wait tell when a socket can be read.
func (p *outagePoll) add(fd int) error {
	if err := unix.SetNonblock(fd, true); err != nil {
		return fmt.Errorf("O_NONBLOCK: %w", err)
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// tick adds a timer that can be read every d.
func (p *outagePoll) tick(d time.Duration) (int, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("timerfd: %w", err)
	}
	every := unix.NsecToTimespec(d.Nanoseconds())
	if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Interval: every, Value: every}, nil); err != nil {
		return -1, fmt.Errorf("timerfd: %w", err)
	}
	return fd, p.add(fd)
}

// outageWait is how long wait looks for sockets before it looks for SIGTERM.
const outageWait = 100 * time.Millisecond

// wait calls ready with each descriptor that can be read.
func (p *outagePoll) wait(ready func(fd int) error) error {
	n, err := unix.EpollWait(p.fd, p.events[:], int(outageWait.Milliseconds()))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("epoll: %w", err)
	}
	for _, event := range p.events[:max(n, 0)] {
		if err := ready(int(event.Fd)); err != nil {
			return err
		}
	}
	return nil
}

// outageStream is a connection that never blocks.
type outageStream struct {
	fd      int
	in, out []byte // of a record that is not there yet; that the socket did not take
}

// write sends p, or keeps it until the socket takes it.
func (s *outageStream) write(p []byte) error {
	s.out = append(s.out, p...)
	for len(s.out) > 0 {
		n, err := unix.SendmsgN(s.fd, s.out, nil, nil, unix.MSG_NOSIGNAL)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("send: %w", err)
		default:
			s.out = s.out[n:]
		}
	}
	return nil
}

// errOutageEnded says that the other side ended the connection.
var errOutageEnded = errors.New("the other end closed it")

// read calls each with the records that are there.
func (s *outageStream) read(each func([]byte) error) error {
	var buffer [4096]byte
	for {
		n, err := unix.Read(s.fd, buffer[:])
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("receive: %w", err)
		case n == 0:
			return errOutageEnded
		}
		s.in = append(s.in, buffer[:n]...)
		for len(s.in) >= outageRecordSize {
			if err := each(s.in[:outageRecordSize]); err != nil {
				return err
			}
			s.in = s.in[outageRecordSize:]
		}
	}
}
