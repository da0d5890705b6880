package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// TimedInstruments are the ones whose every transaction is known by its times.
type TimedInstruments struct {
	TimedServer TimedServer `cmd:"" name:"lab-timed-server" hidden:""`
	TimedClient TimedClient `cmd:"" name:"lab-timed-client" hidden:""`
}

// TimedServer answers requests and writes down when. It ends with its first client, or
// serves one after the other until it is killed.
type TimedServer struct {
	Endpoint
	Request      int  `default:"1" help:"bytes of a request"`
	Response     int  `default:"1" help:"bytes of a response"`
	Transactions int  `default:"1000" help:"how many to expect"`
	Connect      bool `help:"each transaction has a connection of its own"`
}

// TimedClient makes transactions, each after the last one's end, and writes down when.
type TimedClient struct {
	Endpoint
	Request      int  `default:"1" help:"bytes of a request"`
	Response     int  `default:"1" help:"bytes of a response"`
	Transactions int  `default:"1000" help:"how many to make"`
	Connect      bool `help:"each transaction has a connection of its own, whose opening is what is timed"`
	FirstPort    int  `help:"the client's port of the first such connection; the next have the next"`
}

// timedReport is what either process prints: ns of CLOCK_MONOTONIC, as the kernel's
// bpf_ktime_get_ns tells them.
type timedReport struct {
	Sent     []int64 `json:"sent"`
	Received []int64 `json:"received"`
}

// monotonic reads CLOCK_MONOTONIC without a system call: Go's own clock is that one,
// from another beginning.
type monotonic struct {
	base   time.Time
	offset int64
}

// newMonotonic finds the beginning to within half of the shortest time in which both
// could be read, some 50 ns.
func newMonotonic() (monotonic, error) {
	m := monotonic{base: time.Now()}
	shortest := time.Hour
	for range 1000 {
		var now unix.Timespec
		before := time.Since(m.base)
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
			return m, fmt.Errorf("CLOCK_MONOTONIC: %w", err)
		}
		if took := time.Since(m.base) - before; took < shortest {
			shortest, m.offset = took, now.Nano()-int64(before+took/2)
		}
	}
	return m, nil
}

func (m monotonic) now() int64 { return m.offset + int64(time.Since(m.base)) }

func newTimedReport(transactions int) *timedReport {
	return &timedReport{Sent: make([]int64, 0, transactions), Received: make([]int64, 0, transactions)}
}

// Run serves, and prints a report to standard output.
func (s *TimedServer) Run() error {
	if err := alone(s.Core); err != nil {
		return err
	}
	clock, err := newMonotonic()
	if err != nil {
		return err
	}
	listener, err := listen(s.Addr, s.Port, 16)
	if err != nil {
		return err
	}
	defer unix.Close(listener)
	report := newTimedReport(s.Transactions)
	for {
		if err := s.serve(listener, clock, report); err != nil {
			return err
		}
		if !s.Connect {
			return json.NewEncoder(os.Stdout).Encode(report)
		}
	}
}

// serve answers one client until it goes away.
func (s *TimedServer) serve(listener int, clock monotonic, report *timedReport) error {
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
		received := clock.now()
		sent := clock.now()
		if err := sendAll(fd, out); err != nil {
			return err
		}
		if len(report.Sent) < cap(report.Sent) {
			report.Received, report.Sent = append(report.Received, received), append(report.Sent, sent)
		}
	}
}

// Run makes the transactions and prints a report to standard output.
func (c *TimedClient) Run() error {
	if err := alone(c.Core); err != nil {
		return err
	}
	clock, err := newMonotonic()
	if err != nil {
		return err
	}
	report := newTimedReport(c.Transactions)
	if c.Connect {
		err = c.connects(clock, report)
	} else {
		err = c.requests(clock, report)
	}
	if err != nil {
		return fmt.Errorf("transaction %d: %w", len(report.Received)+1, err)
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

// requests makes all transactions over one connection.
func (c *TimedClient) requests(clock monotonic, report *timedReport) error {
	fd, err := dial(c.Addr, c.Port, unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := prepareStream(fd); err != nil {
		return err
	}
	out, in := make([]byte, c.Request), make([]byte, c.Response)
	for range c.Transactions {
		sent := clock.now()
		if err := transact(fd, out, in); err != nil {
			return err
		}
		received := clock.now()
		report.Sent, report.Received = append(report.Sent, sent), append(report.Received, received)
	}
	return nil
}

// connects opens a connection for each and resets it in the end, so that none waits.
func (c *TimedClient) connects(clock monotonic, report *timedReport) error {
	out, in := make([]byte, c.Request), make([]byte, c.Response)
	for i := range c.Transactions {
		fd, err := c.bound(i)
		if err != nil {
			return err
		}
		sent := clock.now()
		err = unix.Connect(fd, sockaddr(c.Addr, c.Port))
		received := clock.now()
		if err == nil {
			err = prepareStream(fd)
		}
		if err == nil {
			err = transact(fd, out, in)
		}
		if err == nil {
			err = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		}
		if err := errors.Join(err, unix.Close(fd)); err != nil {
			return err
		}
		report.Sent, report.Received = append(report.Sent, sent), append(report.Received, received)
	}
	return nil
}

// bound is a socket with the port of the i-th connection: each is a flow that nobody has
// seen before.
func (c *TimedClient) bound(i int) (int, error) {
	fd, err := openSocket(c.Addr, unix.SOCK_STREAM)
	if err != nil || c.FirstPort == 0 {
		return fd, err
	}
	if err := unix.Bind(fd, sockaddrAny(c.Addr, c.FirstPort+i)); err != nil {
		return -1, errors.Join(fmt.Errorf("bind port %d: %w", c.FirstPort+i, err), unix.Close(fd))
	}
	return fd, nil
}
