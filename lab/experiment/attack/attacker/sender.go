package attacker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/topo"
)

// stream is what one interface of an attacker sends: frame i is what it returns for i, which may be
// the same slice again.
type stream struct {
	host  *topo.Host
	name  string // of the interface
	frame func(i int) []byte
}

// Sender sends an attack's frames, a stream after the other, at a rate and no more than so many, from
// a thread of its own on one core. A veth does what follows on the core that sends.
type Sender struct {
	fds     []int
	streams []stream
	stop    context.CancelFunc
	done    chan struct{}
	sent    atomic.Int64
	err     error
}

// beat is how often it sends what is due.
const beat = time.Millisecond

// send begins.
func send(ctx context.Context, streams []stream, rate, most, core int) (*Sender, error) {
	s := &Sender{streams: streams, done: make(chan struct{})}
	for _, from := range streams {
		fd, err := open(from)
		if err != nil {
			s.close()
			return nil, err
		}
		s.fds = append(s.fds, fd)
	}
	ctx, s.stop = context.WithCancel(ctx)
	go s.run(ctx, rate, most, core)
	return s, nil
}

func open(from stream) (fd int, err error) {
	index, err := from.host.Index(from.name)
	if err != nil {
		return -1, err
	}
	err = from.host.Do(func() error {
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return os.NewSyscallError("socket", err)
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: index})
	})
	if err != nil {
		return -1, fmt.Errorf("attacker %s: %w", from.host.Name, err)
	}
	return fd, nil
}

// run ends its thread, which is another core's than the lab's.
func (s *Sender) run(ctx context.Context, rate, most, core int) {
	runtime.LockOSThread()
	defer close(s.done)
	var set unix.CPUSet
	set.Set(core)
	if s.err = unix.SchedSetaffinity(0, &set); s.err != nil {
		return
	}
	began := time.Now()
	for i := 0; ctx.Err() == nil; {
		due := min(most, int(time.Since(began).Seconds()*float64(rate))+1)
		for ; i < due && ctx.Err() == nil; i++ {
			from := i % len(s.streams)
			_, err := unix.Write(s.fds[from], s.streams[from].frame(i/len(s.streams)))
			switch {
			case err == nil:
				s.sent.Add(1)
			case errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EAGAIN):
			default:
				s.err = fmt.Errorf("attacker %s: %w", s.streams[from].host.Name, err)
				return
			}
		}
		pause := unix.NsecToTimespec(int64(beat))
		_ = unix.Nanosleep(&pause, nil) // an early wake-up does no harm
	}
}

// Stop ends it and returns how many frames it sent.
func (s *Sender) Stop() (int, error) {
	s.stop()
	<-s.done
	s.close()
	return int(s.sent.Load()), s.err
}

func (s *Sender) close() {
	for _, fd := range s.fds {
		_ = unix.Close(fd)
	}
}
