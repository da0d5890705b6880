package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/result"
)

// AttemptOptions are of connections that are tried one after the other, in slices.
type AttemptOptions struct {
	Port int // default 5310
	// Pin is both ends on the first core by default, as RROptions'.
	Pin *Pin
}

// Attempts is the rate of new connections, each for one byte both ways, where some may never open:
// unlike with RunCRR that is a figure and no error.
type Attempts struct{ *slicedPair }

// attemptTime is how long a connection may take: more than TCP waits before it sends a SYN again is
// a failure, as users see it.
const attemptTime = 500 * time.Millisecond

// StandAttempts starts both ends.
func StandAttempts(ctx context.Context, ends Ends, o AttemptOptions) (*Attempts, error) {
	setDefault(&o.Port, 5310)
	pin := o.Pin.or(Spread(0))
	common := flags("addr", ends.Addr, "port", o.Port)
	s, err := stand(ctx, "tcp", o.Port,
		part{host: ends.Server, command: "lab-attempt-server", flags: append(flags("core", pin.Server), common...)},
		part{host: ends.Client, command: "lab-attempts", what: "connections", flags: append(flags("core", pin.Client), common...)})
	if err != nil {
		return nil, err
	}
	return &Attempts{s}, nil
}

// Slice opens connections for that long.
func (a *Attempts) Slice(ctx context.Context, d time.Duration) error {
	var report crrReport
	if err := a.take(ctx, d, &report); err != nil {
		return err
	}
	elapsed := time.Duration(report.ElapsedNS).Seconds()
	a.add(ConnRate, float64(report.Transactions)/elapsed)
	a.add(ConnFailed, float64(report.Failed))
	a.took += time.Duration(report.ElapsedNS)
	return nil
}

// Sample is all slices.
func (a *Attempts) Sample() result.Sample {
	s := a.sample
	s.Duration = a.took.Seconds()
	return s
}

// AttemptServer answers one byte on each connection and closes it. It gives one up that says nothing.
type AttemptServer struct{ Endpoint }

// Run serves until it is killed.
func (s *AttemptServer) Run() error {
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
		var one [1]byte
		if err := receiveTimeout(fd, attemptTime/10); err != nil {
			return err
		}
		if receiveAll(fd, one[:]) == nil {
			_ = sendAll(fd, one[:]) // the client counts what came of it
		}
		closeSocket(fd)
	}
}

// AttemptClient opens connections one after the other, as often as it is told to.
type AttemptClient struct{ Endpoint }

// Run measures a slice for each line.
func (c *AttemptClient) Run() error {
	if err := alone(c.Core); err != nil {
		return err
	}
	return obey(func(d time.Duration) (report crrReport, err error) {
		base := time.Now()
		for time.Since(base) < d {
			opened, err := c.attempt()
			switch {
			case err != nil:
				return report, err
			case opened:
				report.Transactions++
			default:
				report.Failed++
			}
		}
		report.ElapsedNS = int64(time.Since(base))
		return report, nil
	})
}

// attempt opens a connection, asks for a byte and reads to the end. SO_SNDTIMEO bounds connect(2) too.
func (c *AttemptClient) attempt() (opened bool, err error) {
	fd, err := openSocket(c.Addr, unix.SOCK_STREAM)
	if err != nil {
		return false, err
	}
	defer closeSocket(fd)
	tv := unix.NsecToTimeval(attemptTime.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv); err != nil {
		return false, fmt.Errorf("SO_SNDTIMEO: %w", err)
	}
	if err := receiveTimeout(fd, attemptTime); err != nil {
		return false, err
	}
	if unix.Connect(fd, sockaddr(c.Addr, c.Port)) != nil {
		return false, nil // whatever the reason: it is counted
	}
	var one [1]byte
	if sendAll(fd, one[:]) != nil || receiveAll(fd, one[:]) != nil {
		return false, nil
	}
	return errors.Is(receiveAll(fd, one[:]), io.EOF), nil
}

// AttemptInstruments are those of Attempts.
type AttemptInstruments struct {
	AttemptServer AttemptServer `cmd:"" name:"lab-attempt-server" hidden:""`
	AttemptClient AttemptClient `cmd:"" name:"lab-attempts" hidden:""`
}
