package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// bulkFlags are what both ends of a transfer are told.
type bulkFlags struct {
	Endpoint
	Streams  int           `default:"1" help:"connections"`
	Duration time.Duration `default:"1s" help:"time of sending"`
	Interval time.Duration `default:"100ms" help:"of the series"`
	Reverse  bool          `help:"the sink connects, and the source is the server"`
}

// BulkSink takes what comes on a number of connections, for the duration from
// the first.
type BulkSink struct{ bulkFlags }

// BulkSource writes to a number of connections for the duration.
type BulkSource struct {
	bulkFlags
	MSS   int   `default:"0" help:"segment size to ask for in bytes, 0 for TCP's own"`
	Write int   `default:"131072" help:"bytes of a write"`
	Rate  int64 `default:"0" help:"most bits of payload a second, of all connections; 0 for as many as there can be"`
}

// bulkReport is what either process prints.
type bulkReport struct {
	Bytes   []int64  `json:"bytes"` // of each interval
	Sockets []Socket `json:"sockets,omitempty"`
}

const (
	bulkFirst  = 10 * time.Second       // the sink's patience before the first connection
	bulkGrace  = 300 * time.Millisecond // how long it waits for the others' end
	bulkBuffer = 128 << 10              // bytes of a write or read, as iperf3's
)

// tally counts bytes by interval since its first use.
type tally struct {
	began    time.Time
	interval time.Duration
	bytes    []atomic.Int64
}

func (f bulkFlags) tally() *tally {
	return &tally{began: time.Now(), interval: f.Interval, bytes: make([]atomic.Int64, max(1, int(f.Duration/f.Interval)))}
}

// add counts n bytes now; what comes after the last interval does not count.
func (t *tally) add(n int) {
	if i := int(time.Since(t.began) / t.interval); i < len(t.bytes) {
		t.bytes[i].Add(int64(n))
	}
}

func (t *tally) report(sockets []Socket) error {
	report := bulkReport{Bytes: make([]int64, len(t.bytes)), Sockets: sockets}
	for i := range t.bytes {
		report.Bytes[i] = t.bytes[i].Load()
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

// Run receives one transfer and prints a report to standard output.
func (s *BulkSink) Run() error {
	debug.SetGCPercent(-1)
	next, end := func(time.Time) (*net.TCPConn, error) { return s.dial(0) }, func() {}
	if !s.Reverse {
		var err error
		if next, end, err = s.accept(); err != nil {
			return err
		}
	}
	defer end()
	var wait sync.WaitGroup
	var t *tally
	for i := range s.Streams {
		deadline := time.Now().Add(bulkFirst)
		if i > 0 {
			deadline = t.began.Add(s.Duration)
		}
		conn, err := next(deadline)
		if err != nil {
			return fmt.Errorf("connection %d of %d: %w", i+1, s.Streams, err)
		}
		if t == nil {
			t = s.tally()
		}
		if err := conn.SetReadDeadline(t.began.Add(s.Duration + bulkGrace)); err != nil {
			return err
		}
		wait.Go(func() { drain(conn, t) })
	}
	wait.Wait()
	return t.report(nil)
}

// accept listens, and returns what accepts the next connection.
func (f bulkFlags) accept() (next func(deadline time.Time) (*net.TCPConn, error), end func(), err error) {
	listener, err := listenTCP(f.Addr, f.Port)
	if err != nil {
		return nil, nil, err
	}
	return func(deadline time.Time) (*net.TCPConn, error) {
		if err := listener.SetDeadline(deadline); err != nil {
			return nil, err
		}
		return listener.AcceptTCP()
	}, func() { listener.Close() }, nil
}

// drain reads until the end, which may be a reset or the deadline.
func drain(conn net.Conn, t *tally) {
	defer conn.Close()
	buffer := make([]byte, bulkBuffer)
	for {
		n, err := conn.Read(buffer)
		t.add(n)
		if err != nil {
			return
		}
	}
}

// Run sends one transfer and prints a report to standard output.
func (s *BulkSource) Run() error {
	debug.SetGCPercent(-1)
	conns, err := s.connect()
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	if err != nil {
		return err
	}
	t := s.tally()
	var wait sync.WaitGroup
	failed := make([]error, len(conns))
	for i, conn := range conns {
		if err := conn.SetWriteDeadline(t.began.Add(s.Duration)); err != nil {
			return err
		}
		wait.Go(func() { failed[i] = fill(conn, t, s.Write) })
	}
	wait.Wait()
	sockets := make([]Socket, len(conns))
	for i, conn := range conns {
		var err error
		if sockets[i], err = inspect(conn); err != nil {
			return err
		}
		// A reset, as what is in the buffers may never arrive.
		failed = append(failed, conn.SetLinger(0))
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return t.report(sockets)
}

// connect returns all connections, with the rate that was asked for.
func (s *BulkSource) connect() (conns []*net.TCPConn, err error) {
	next, end := func(time.Time) (*net.TCPConn, error) { return s.dial(s.MSS) }, func() {}
	if s.Reverse {
		if next, end, err = s.accept(); err != nil {
			return nil, err
		}
	}
	defer end()
	for i := range s.Streams {
		conn, err := next(time.Now().Add(bulkFirst))
		if err != nil {
			return conns, fmt.Errorf("connection %d of %d: %w", i+1, s.Streams, err)
		}
		conns = append(conns, conn)
		if err := s.pace(conn); err != nil {
			return conns, err
		}
	}
	return conns, nil
}

// pace has TCP space out the segments of a connection by its share of the rate.
func (s *BulkSource) pace(conn *net.TCPConn) error {
	if s.Rate == 0 {
		return nil
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	each := max(1, s.Rate/8/int64(s.Streams))
	asked := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, uint64(each))
	})
	if err := errors.Join(asked, err); err != nil {
		return fmt.Errorf("SO_MAX_PACING_RATE: %w", err)
	}
	return nil
}

// dial connects, with a segment size unless that is 0.
func (f bulkFlags) dial(mss int) (*net.TCPConn, error) {
	dialer := net.Dialer{Timeout: rrTimeout, Control: func(_, _ string, raw syscall.RawConn) error {
		if mss == 0 {
			return nil
		}
		var set error
		err := raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, mss) })
		return errors.Join(err, set)
	}}
	conn, err := dialer.DialContext(context.Background(), "tcp", netip.AddrPortFrom(f.Addr, uint16(f.Port)).String())
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// fill writes until the deadline. It counts what the kernel took of each write at
// once: into a black hole only the first goes, and in part.
func fill(conn *net.TCPConn, t *tally, size int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	buffer := make([]byte, max(1, size))
	for {
		var failed error
		err := raw.Write(func(fd uintptr) (done bool) {
			n, err := unix.Write(int(fd), buffer)
			t.add(max(0, n))
			if errors.Is(err, unix.EAGAIN) {
				return false // when it can be written to again, or at the deadline
			}
			failed = err
			return true
		})
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return err
		case failed != nil && !errors.Is(failed, unix.EINTR):
			return fmt.Errorf("write: %w", failed)
		case time.Since(t.began) > t.interval*time.Duration(len(t.bytes)):
			return nil // a write that always can be done never looks at the deadline
		}
	}
}

// inspect asks the kernel for what it knows of a connection (TCP_INFO).
func inspect(conn *net.TCPConn) (s Socket, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return s, err
	}
	var info *unix.TCPInfo
	if asked := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); asked != nil {
		return s, asked
	}
	if err != nil {
		return s, fmt.Errorf("TCP_INFO: %w", err)
	}
	return Socket{
		MSS: int(info.Snd_mss), PathMTU: int(info.Pmtu), RTT: float64(info.Rtt), Cwnd: int(info.Snd_cwnd),
		BytesSent: int64(info.Bytes_sent), Retransmits: int64(info.Total_retrans),
	}, nil
}
