package measure

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/await"
)

// SlicedInstruments are those that stay up and do what they read.
type SlicedInstruments struct {
	RRSlices  RRSlices  `cmd:"" name:"lab-rr-slices" hidden:""`
	UDPCount  UDPCount  `cmd:"" name:"lab-udp-count" hidden:""`
	UDPSlices UDPSlices `cmd:"" name:"lab-udp-slices" hidden:""`
	TCPDrain  TCPDrain  `cmd:"" name:"lab-tcp-drain" hidden:""`
	TCPSlices TCPSlices `cmd:"" name:"lab-tcp-slices" hidden:""`
}

// obey reads durations from standard input, a line each, and writes what measure says of each
// to standard output. The end of the input ends it.
func obey[T any](measure func(time.Duration) (T, error)) error {
	out := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		d, err := time.ParseDuration(lines.Text())
		if err != nil {
			return fmt.Errorf("order %q: %w", lines.Text(), err)
		}
		report, err := measure(d)
		if err == nil {
			err = out.Encode(report)
		}
		if err != nil {
			return err
		}
	}
	return lines.Err()
}

// RRSlices is RRClient a slice at a time.
type RRSlices struct {
	Endpoint
	Network  string `default:"tcp" enum:"tcp,udp" help:"protocol"`
	Request  int    `default:"1" help:"bytes of a request"`
	Response int    `default:"1" help:"bytes of a response"`
}

// Run measures as often as it is told to.
func (c *RRSlices) Run() error {
	client := RRClient{Endpoint: c.Endpoint, Network: c.Network, Request: c.Request, Response: c.Response, Warmup: WarmUp}
	if err := alone(c.Core); err != nil {
		return err
	}
	fd, err := client.open()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return obey(func(d time.Duration) (*rrReport, error) {
		client.Duration = d
		report, err := client.measure(fd)
		if err != nil {
			return nil, err
		}
		report.Snapshot = report.Latency.Export()
		return report, nil
	})
}

// UDPCount counts datagrams and says how many there were whenever it reads a line.
type UDPCount struct{ Endpoint }

// Run receives until its input ends.
func (r *UDPCount) Run() error {
	fd, err := r.bindUDP()
	if err != nil {
		return err
	}
	var packets atomic.Uint64
	failed := make(chan error, 1)
	go func() { failed <- r.count(fd, &packets) }()
	return obey(func(time.Duration) (report udpReport, err error) {
		select {
		case err = <-failed:
		default:
		}
		return udpReport{Packets: packets.Load()}, err
	})
}

// count receives on a thread of its own, which alone is on the core: the other answers.
func (r *UDPCount) count(fd int, packets *atomic.Uint64) error {
	if err := onCore(r.Core); err != nil {
		return err
	}
	headers := udpHeaders()
	for {
		n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&headers[0])), udpBatch, unix.MSG_WAITFORONE, 0, 0)
		switch errno {
		case 0:
			packets.Add(uint64(n))
		case unix.EINTR:
		default:
			return fmt.Errorf("recvmmsg: %w", errno)
		}
	}
}

// UDPSlices is UDPSender a slice at a time.
type UDPSlices struct {
	Endpoint
	Payload int `default:"18" help:"bytes of a datagram; 18 make the smallest Ethernet frame over IPv4"`
}

// Run sends as often as it is told to.
func (s *UDPSlices) Run() error {
	if err := alone(s.Core); err != nil {
		return err
	}
	fd, err := dial(s.Addr, s.Port, unix.SOCK_DGRAM)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	sender := UDPSender{Endpoint: s.Endpoint, Payload: s.Payload}
	return obey(func(d time.Duration) (udpReport, error) {
		sender.Duration = d
		return sender.send(fd)
	})
}

// tcpStreams is what both ends of sliced transfers are told.
type tcpStreams struct {
	Endpoint
	Streams int `default:"1" help:"connections"`
}

// TCPDrain takes what comes on a number of connections until they end.
type TCPDrain struct{ tcpStreams }

// Run accepts all connections and reads them to their ends.
func (s *TCPDrain) Run() error {
	debug.SetGCPercent(-1)
	listener, err := listen(s.Addr, s.Port, s.Streams)
	if err != nil {
		return err
	}
	var wait sync.WaitGroup
	failed := make([]error, s.Streams)
	for i := range s.Streams {
		fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		wait.Go(func() { failed[i] = errors.Join(drainSocket(fd), unix.Close(fd)) })
	}
	wait.Wait()
	return errors.Join(failed...)
}

func drainSocket(fd int) error {
	buffer := make([]byte, bulkBuffer)
	for {
		switch n, err := unix.Read(fd, buffer); {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECONNRESET), err == nil && n == 0:
			return nil
		case err != nil:
			return fmt.Errorf("receive: %w", err)
		}
	}
}

// TCPSlices fills a number of connections a slice at a time.
type TCPSlices struct{ tcpStreams }

// tcpSlice is what it says of one. Socket's counters are since the connection began, of all
// connections; its sizes are the least.
type tcpSlice struct {
	Bytes     int64  `json:"bytes"` // acknowledged in it
	All       int64  `json:"all"`   // and while it warmed up, and after it
	ElapsedNS int64  `json:"elapsed_ns"`
	CPU       CPU    `json:"cpu"`
	Socket    Socket `json:"socket"`
}

// Run connects and sends as often as it is told to.
func (s *TCPSlices) Run() error {
	debug.SetGCPercent(-1)
	fds := make([]int, s.Streams)
	for i := range fds {
		fd, err := dialStream(s.Addr, s.Port)
		if err != nil {
			return fmt.Errorf("connection %d of %d: %w", i+1, s.Streams, err)
		}
		defer unix.Close(fd)
		fds[i] = fd
	}
	return obey(func(d time.Duration) (tcpSlice, error) { return sendSlice(fds, d) })
}

// stalled is the longest that one write may take, as where nothing gets through.
const stalled = 20 * time.Millisecond

func dialStream(addr netip.Addr, port int) (int, error) {
	fd, err := dial(addr, port, unix.SOCK_STREAM)
	if err != nil {
		return -1, err
	}
	tv := unix.NsecToTimeval(stalled.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv); err != nil {
		return -1, errors.Join(fmt.Errorf("SO_SNDTIMEO: %w", err), unix.Close(fd))
	}
	return fd, nil
}

// sendSlice fills the connections for the warm-up and then for d, of which it says what was
// acknowledged, and waits until all that it wrote is.
func sendSlice(fds []int, d time.Duration) (tcpSlice, error) {
	var stop atomic.Bool
	var wait sync.WaitGroup
	failed := make([]error, len(fds))
	// With one connection the writer looks at the clock itself: another thread on its core would
	// have to wait for it.
	var first, last tcpLook
	before, _, err := askSockets(fds)
	if err != nil {
		return tcpSlice{}, err
	}
	began := time.Now()
	look := func() (done bool, err error) {
		now := time.Since(began)
		switch {
		case first.at.IsZero() && now >= WarmUp:
			first, err = lookAt(fds)
		case now >= WarmUp+d:
			last, err = lookAt(fds)
			return true, err
		}
		return false, err
	}
	for i, fd := range fds[1:] {
		wait.Go(func() { failed[i+1] = fillSocket(fd, func() (bool, error) { return stop.Load(), nil }) })
	}
	failed[0] = fillSocket(fds[0], look)
	stop.Store(true)
	wait.Wait()
	if err := errors.Join(append(failed, drained(fds))...); err != nil {
		return tcpSlice{}, err
	}
	after, _, err := askSockets(fds)
	if err != nil {
		return tcpSlice{}, err
	}
	return tcpSlice{
		Bytes: last.acked - first.acked, All: after - before, ElapsedNS: last.at.Sub(first.at).Nanoseconds(),
		CPU: last.cpu.Since(first.cpu), Socket: last.socket,
	}, nil
}

// fillSocket writes until done.
func fillSocket(fd int, done func() (bool, error)) error {
	buffer := make([]byte, bulkBuffer)
	for {
		if over, err := done(); over || err != nil {
			return err
		}
		switch _, err := unix.Write(fd, buffer); {
		case err == nil, errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		default:
			return fmt.Errorf("send: %w", err)
		}
	}
}

// tcpLook is a look at the clock, the cores and all connections.
type tcpLook struct {
	at     time.Time
	cpu    CPUClock
	acked  int64
	socket Socket
}

func lookAt(fds []int) (l tcpLook, err error) {
	if l.cpu, err = ReadCPU(); err != nil {
		return l, err
	}
	l.at = time.Now()
	l.acked, l.socket, err = askSockets(fds)
	return l, err
}

// askSockets returns the bytes that all connections have had acknowledged, and what they are.
func askSockets(fds []int) (acked int64, s Socket, err error) {
	for i, fd := range fds {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return 0, s, fmt.Errorf("TCP_INFO: %w", err)
		}
		acked += int64(info.Bytes_acked)
		retransmits := s.Retransmits + int64(info.Total_retrans)
		if i == 0 || int(info.Snd_mss) < s.MSS {
			s = Socket{MSS: int(info.Snd_mss), PathMTU: int(info.Pmtu), RTT: float64(info.Rtt), Cwnd: int(info.Snd_cwnd)}
		}
		s.Retransmits = retransmits
	}
	return acked, s, nil
}

// drained waits until all that was written has been acknowledged.
func drained(fds []int) error {
	return await.Within(context.Background(), patience, "all bytes to be acknowledged", func() error {
		left := 0
		for _, fd := range fds {
			queued, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
			if err != nil {
				return fmt.Errorf("SIOCOUTQ: %w", err)
			}
			left += queued
		}
		if left > 0 {
			return fmt.Errorf("%d are not", left)
		}
		return nil
	})
}
