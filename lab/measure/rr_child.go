package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"
	"unsafe"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// RRServer answers requests of a fixed size until its client goes away.
type RRServer struct {
	Endpoint
	Network  string `default:"tcp" enum:"tcp,udp" help:"protocol"`
	Request  int    `default:"1" help:"bytes of a request"`
	Response int    `default:"1" help:"bytes of a response"`
	Idle     bool   `help:"wait for requests without a limit, as between slices"`
}

// RRClient sends one request after the other, each after the last one's answer and,
// with a rate, not before it is due.
type RRClient struct {
	Endpoint
	Network  string        `default:"tcp" enum:"tcp,udp" help:"protocol"`
	Request  int           `default:"1" help:"bytes of a request"`
	Response int           `default:"1" help:"bytes of a response"`
	Rate     int           `default:"0" help:"transactions a second; 0 for as many as there can be"`
	Warmup   time.Duration `default:"200ms" help:"time before measuring"`
	Duration time.Duration `default:"1s" help:"time of measuring"`
}

// rrReport is what the client's process prints. Times are nanoseconds.
type rrReport struct {
	Transactions int64                   `json:"transactions"`
	ElapsedNS    int64                   `json:"elapsed_ns"`
	Latency      *hdrhistogram.Histogram `json:"-"`
	Snapshot     *hdrhistogram.Snapshot  `json:"latency"`
}

const (
	// A request that takes longer is an error: the path is broken.
	rrTimeout = 5 * time.Second
	// The histogram has three significant digits from a nanosecond up.
	rrDigits = 3
)

// Run serves one client.
func (s *RRServer) Run() error {
	if err := alone(s.Core); err != nil {
		return err
	}
	accept := acceptStream
	if s.Network == "udp" {
		accept = acceptDatagrams
	}
	fd, err := accept(s.Addr, s.Port)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if s.Idle {
		if err := receiveTimeout(fd, 0); err != nil {
			return err
		}
	}
	in, out := make([]byte, s.Request), make([]byte, s.Response)
	for {
		if err := receiveAll(fd, in); errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
			return nil
		} else if err != nil {
			return err
		}
		if err := sendAll(fd, out); err != nil {
			return err
		}
	}
}

// acceptStream returns the first connection to a port.
func acceptStream(addr netip.Addr, port int) (int, error) {
	listener, err := listen(addr, port, 1)
	if err != nil {
		return -1, err
	}
	defer unix.Close(listener)
	fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("accept: %w", err)
	}
	return fd, prepareStream(fd)
}

// acceptDatagrams returns a socket that is connected to who sends the first datagram, which
// stays in its queue.
func acceptDatagrams(addr netip.Addr, port int) (int, error) {
	fd, err := openSocket(addr, unix.SOCK_DGRAM)
	if err != nil {
		return -1, err
	}
	if err := bind(fd, addr, port); err != nil {
		return -1, err
	}
	_, from, err := unix.Recvfrom(fd, nil, unix.MSG_PEEK)
	if err != nil {
		return -1, fmt.Errorf("first datagram: %w", err)
	}
	if err := unix.Connect(fd, from); err != nil {
		return -1, fmt.Errorf("connect to the client: %w", err)
	}
	return fd, receiveTimeout(fd, rrTimeout)
}

// open returns a socket that is connected to the server.
func (c *RRClient) open() (int, error) {
	kind := unix.SOCK_STREAM
	if c.Network == "udp" {
		kind = unix.SOCK_DGRAM
	}
	fd, err := dial(c.Addr, c.Port, kind)
	if err != nil {
		return -1, err
	}
	if kind == unix.SOCK_DGRAM {
		return fd, receiveTimeout(fd, rrTimeout)
	}
	return fd, prepareStream(fd)
}

// Run measures and prints a report to standard output.
func (c *RRClient) Run() error {
	if err := alone(c.Core); err != nil {
		return err
	}
	fd, err := c.open()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	report, err := c.measure(fd)
	if err != nil {
		return err
	}
	report.Snapshot = report.Latency.Export()
	return json.NewEncoder(os.Stdout).Encode(report)
}

func (c *RRClient) measure(fd int) (*rrReport, error) {
	out, in := make([]byte, c.Request), make([]byte, c.Response)
	report := &rrReport{Latency: hdrhistogram.New(1, (c.Duration + rrTimeout).Nanoseconds(), rrDigits)}
	for base := time.Now(); time.Since(base) < c.Warmup; {
		if err := transact(fd, out, in); err != nil {
			return nil, fmt.Errorf("warm-up: %w", err)
		}
	}
	base := time.Now()
	var last time.Duration
	for last < c.Duration {
		start, err := c.due(base, report.Transactions)
		if err != nil {
			return nil, err
		}
		if err := transact(fd, out, in); err != nil {
			return nil, fmt.Errorf("transaction %d: %w", report.Transactions+1, err)
		}
		last = time.Since(base)
		report.Transactions++
		if err := report.Latency.RecordValue(int64(last - start)); err != nil {
			return nil, err
		}
	}
	report.ElapsedNS = int64(last)
	return report, nil
}

// due returns when transaction i begins: now, or at the time that the rate gives it, which
// it waits for. A time that is over stays what it is.
func (c *RRClient) due(base time.Time, i int64) (time.Duration, error) {
	now := time.Since(base)
	if c.Rate == 0 {
		return now, nil
	}
	at := time.Duration(float64(i) * float64(time.Second) / float64(c.Rate))
	if at <= now {
		return at, nil
	}
	return at, pause(at - now)
}

// pause sleeps without the Go scheduler, and lets the other end have the core meanwhile. The
// kernel rounds up by the timer slack of the thread, which is set to the least.
func pause(d time.Duration) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, 1, 0); errno != 0 {
		return fmt.Errorf("PR_SET_TIMERSLACK: %w", errno)
	}
	ts := unix.NsecToTimespec(d.Nanoseconds())
	if _, _, errno := unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0); errno != 0 && errno != unix.EINTR {
		return fmt.Errorf("nanosleep: %w", errno)
	}
	return nil
}

func transact(fd int, out, in []byte) error {
	if err := sendAll(fd, out); err != nil {
		return err
	}
	return receiveAll(fd, in)
}
