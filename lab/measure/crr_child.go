package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unsafe"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// CRRServer answers one byte on each connection and closes it, one after the other, until
// it is killed.
type CRRServer struct{ Endpoint }

// CRRClient opens connections, a number of them at once, and asks on each for one byte.
type CRRClient struct {
	Endpoint
	AtOnce   int           `default:"1" help:"connections at a time"`
	Warmup   time.Duration `default:"200ms" help:"time before measuring"`
	Duration time.Duration `default:"1s" help:"time of measuring"`
}

// crrReport is what the client's process prints.
type crrReport struct {
	Transactions int64                  `json:"transactions"`
	Failed       int64                  `json:"failed"`
	ElapsedNS    int64                  `json:"elapsed_ns"`
	Snapshot     *hdrhistogram.Snapshot `json:"latency"`
}

const (
	crrBacklog = 4096
	// crrStall ends a run in which nothing happens: longer than TCP waits before it sends a
	// lost SYN again (RFC 6298: one second, then two).
	crrStall = 4 * time.Second
)

// Run serves.
func (s *CRRServer) Run() error {
	if err := alone(s.Core); err != nil {
		return err
	}
	listener, err := listen(s.Addr, s.Port, crrBacklog)
	if err != nil {
		return err
	}
	defer unix.Close(listener)
	for {
		fd, err := accept(listener)
		if err != nil {
			return err
		}
		if err := serveOne(fd); err != nil {
			return err
		}
	}
}

// accept returns the next connection.
func accept(listener int) (int, error) {
	for {
		fd, _, errno := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(listener), 0, 0, unix.SOCK_CLOEXEC, 0, 0)
		switch errno {
		case 0:
			return int(fd), nil
		case unix.EINTR, unix.ECONNABORTED:
		default:
			return -1, fmt.Errorf("accept: %w", errno)
		}
	}
}

// serveOne answers a connection and closes it. One that its client gave up is none.
func serveOne(fd int) error {
	defer closeSocket(fd)
	var one [1]byte
	if err := receiveTimeout(fd, rrTimeout); err != nil {
		return err
	}
	err := receiveAll(fd, one[:])
	if err == nil {
		err = sendAll(fd, one[:])
	}
	if errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func closeSocket(fd int) { _, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

// Run measures and prints a report to standard output.
func (c *CRRClient) Run() error {
	if err := alone(c.Core); err != nil {
		return err
	}
	run, err := c.newRun()
	if err != nil {
		return err
	}
	defer unix.Close(run.poll)
	if err := run.measure(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(run.report())
}

// crrRun is a run of CRRClient. Its connections are found by their descriptors.
type crrRun struct {
	*CRRClient
	poll         int // epoll
	server       unix.Sockaddr
	base         time.Time
	began        map[int]time.Duration
	first, last  time.Duration // ends of connections, of the first that counts and of the last
	done, failed int64
	latency      *hdrhistogram.Histogram
}

func (c *CRRClient) newRun() (*crrRun, error) {
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return &crrRun{
		CRRClient: c, poll: poll, server: sockaddr(c.Addr, c.Port), base: time.Now(), began: map[int]time.Duration{},
		latency: hdrhistogram.New(1, (crrStall + c.Warmup + c.Duration).Nanoseconds(), rrDigits),
	}, nil
}

func (r *crrRun) report() crrReport {
	return crrReport{Transactions: r.done, Failed: r.failed, ElapsedNS: int64(r.last - r.first), Snapshot: r.latency.Export()}
}

// measure keeps AtOnce connections going until the time is over and one has ended that
// counts.
func (r *crrRun) measure() error {
	for range r.AtOnce {
		if err := r.open(); err != nil {
			return err
		}
	}
	events := make([]unix.EpollEvent, r.AtOnce)
	for r.last < r.Warmup+r.Duration || r.done+r.failed == 0 {
		// Without a mask of signals it is epoll_wait, which arm64 does not have.
		n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(r.poll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), uintptr(crrStall.Milliseconds()), 0, 0)
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return fmt.Errorf("epoll: %w", errno)
		case n == 0:
			return fmt.Errorf("none of %d connections made progress for %s, after %d", r.AtOnce, crrStall, r.done)
		}
		for _, event := range events[:n] {
			if err := r.advance(int(event.Fd), event.Events); err != nil {
				return err
			}
		}
	}
	return nil
}

// open begins a connection.
func (r *crrRun) open() error {
	fd, err := openSocket(r.Addr, unix.SOCK_STREAM|unix.SOCK_NONBLOCK)
	if err != nil {
		return err
	}
	r.began[fd] = time.Since(r.base)
	if err := unix.Connect(fd, r.server); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return fmt.Errorf("connect to %s port %d: %w", r.Addr, r.Port, err)
	}
	event := unix.EpollEvent{Events: unix.EPOLLOUT, Fd: int32(fd)}
	if err := unix.EpollCtl(r.poll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// advance asks on a connection that is open, and waits for its end on one that was asked.
func (r *crrRun) advance(fd int, events uint32) error {
	if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 && events&unix.EPOLLIN == 0 {
		return r.end(fd, false)
	}
	var one [1]byte
	if events&unix.EPOLLOUT != 0 {
		if err := sendAll(fd, one[:]); err != nil {
			return r.end(fd, false)
		}
		event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
		return unix.EpollCtl(r.poll, unix.EPOLL_CTL_MOD, fd, &event)
	}
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&one[0])), 1, 0, 0, 0)
		switch {
		case errno == unix.EAGAIN:
			return nil
		case errno != 0:
			return r.end(fd, false)
		case n == 0:
			return r.end(fd, true)
		}
	}
}

// end takes down how a connection ended and begins the next.
func (r *crrRun) end(fd int, well bool) error {
	began := r.began[fd]
	delete(r.began, fd)
	closeSocket(fd)
	r.last = time.Since(r.base)
	switch {
	case began < r.Warmup:
		r.first = r.last
	case !well:
		r.failed++
	default:
		r.done++
		if err := r.latency.RecordValue(int64(r.last - began)); err != nil {
			return err
		}
	}
	return r.open()
}
