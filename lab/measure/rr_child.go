package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// RRServer answers requests of a fixed size until its client goes away.
type RRServer struct {
	Endpoint
	Request  int `default:"1" help:"bytes of a request"`
	Response int `default:"1" help:"bytes of a response"`
}

// RRClient sends one request after the other, each after the last one's answer.
type RRClient struct {
	Endpoint
	Request  int           `default:"1" help:"bytes of a request"`
	Response int           `default:"1" help:"bytes of a response"`
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
	listener, err := openSocket(s.Addr, unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	defer unix.Close(listener)
	if err := unix.SetsockoptInt(listener, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return fmt.Errorf("SO_REUSEADDR: %w", err)
	}
	if err := unix.Bind(listener, sockaddr(s.Addr, s.Port)); err != nil {
		return fmt.Errorf("bind %s port %d: %w", s.Addr, s.Port, err)
	}
	if err := unix.Listen(listener, 1); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
	if err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	defer unix.Close(fd)
	if err := prepareStream(fd); err != nil {
		return err
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

// Run measures and prints a report to standard output.
func (c *RRClient) Run() error {
	if err := alone(c.Core); err != nil {
		return err
	}
	fd, err := openSocket(c.Addr, unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, sockaddr(c.Addr, c.Port)); err != nil {
		return fmt.Errorf("connect to %s port %d: %w", c.Addr, c.Port, err)
	}
	if err := prepareStream(fd); err != nil {
		return err
	}
	report, err := c.measure(fd)
	if err != nil {
		return err
	}
	report.Snapshot = report.Latency.Export()
	return json.NewEncoder(os.Stdout).Encode(report)
}

func (c *RRClient) measure(fd int) (*rrReport, error) {
	out, in := make([]byte, c.Request), make([]byte, c.Response)
	report := &rrReport{Latency: hdrhistogram.New(1, rrTimeout.Nanoseconds(), rrDigits)}
	base := time.Now()
	warm, end := c.Warmup, c.Warmup+c.Duration
	var first, last time.Duration
	for last < end {
		start := time.Since(base)
		if err := transact(fd, out, in); err != nil {
			return nil, fmt.Errorf("transaction %d: %w", report.Transactions+1, err)
		}
		last = time.Since(base)
		if start < warm {
			first = last
			continue
		}
		report.Transactions++
		if err := report.Latency.RecordValue(int64(last - start)); err != nil {
			return nil, err
		}
	}
	report.ElapsedNS = int64(last - first)
	return report, nil
}

func transact(fd int, out, in []byte) error {
	if err := sendAll(fd, out); err != nil {
		return err
	}
	return receiveAll(fd, in)
}
