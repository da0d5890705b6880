package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// quietTime is how long an answer is waited for that should not come.
const quietTime = 200 * time.Millisecond

// outcome is what a client sees of a service.
type outcome string

const (
	answered   outcome = "answered"
	silent     outcome = "silent"
	refused    outcome = "refused"    // by a TCP reset or "port unreachable"
	prohibited outcome = "prohibited" // by ICMP "administratively prohibited"
)

// ask asks the echo service on a port of a guest, and says what came of it. It waits long for
// an answer, but not where none should come.
func ask(from guest, network string, to netip.Addr, port int, want outcome) outcome {
	wait := 3 * time.Second
	if want == silent {
		wait = quietTime
	}
	var err error
	if more := from.Do(func() error {
		err = askWithin(network, netip.AddrPortFrom(to, uint16(port)).String(), wait)
		return nil
	}); more != nil {
		return outcome(more.Error())
	}
	switch {
	case err == nil:
		return answered
	case errors.Is(err, syscall.ECONNREFUSED):
		return refused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.EACCES):
		return prohibited
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return silent
	}
	return outcome(err.Error())
}

// askWithin wants back what it sends.
func askWithin(network, addr string, wait time.Duration) error {
	deadline := time.Now().Add(wait)
	conn, err := (&net.Dialer{Deadline: deadline}).Dial(network, addr)
	if err != nil {
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			return os.ErrDeadlineExceeded
		}
		return err
	}
	defer conn.Close()
	return echoOne(conn, []byte("question"), time.Until(deadline))
}

// meets is nil when this is what a client meets at a service.
func meets(from guest, network string, to netip.Addr, port int, want outcome) error {
	if got := ask(from, network, to, port, want); got != want {
		return fmt.Errorf("it is %s", got)
	}
	return nil
}

// serve echoes on TCP and UDP ports of a guest, over both families, until the test ends.
func (n *network) serve(g guest, ports ...int) {
	n.t.Helper()
	for _, port := range ports {
		n.must(g.Do(func() error {
			addr := fmt.Sprintf(":%d", port)
			stream, err := net.Listen("tcp", addr)
			if err != nil {
				return err
			}
			datagrams, err := net.ListenPacket("udp", addr)
			if err != nil {
				return errors.Join(err, stream.Close())
			}
			n.t.Cleanup(func() { stream.Close(); datagrams.Close() })
			go echoStreams(stream)
			go echoDatagrams(datagrams)
			return nil
		}))
	}
}

func echoStreams(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // closed
		}
		go func() {
			defer conn.Close()
			b := make([]byte, 1<<16)
			for {
				size, err := conn.Read(b)
				if err != nil {
					return
				}
				if _, err := conn.Write(b[:size]); err != nil {
					return
				}
			}
		}()
	}
}

func echoDatagrams(conn net.PacketConn) {
	b := make([]byte, 1<<16)
	for {
		size, from, err := conn.ReadFrom(b)
		if err != nil {
			return // closed
		}
		_, _ = conn.WriteTo(b[:size], from) // the client misses it
	}
}

// gets is a fact: a client sees this of a service, over both families.
func (n *network) gets(from guest, network string, to guest, port int, want outcome) {
	n.t.Helper()
	for _, family := range []int{4, 6} {
		n.once(fmt.Sprintf("%s port %d of %s, IPv%d, is %s to %s", network, port, to.Name, family, want, from.Name), func() error {
			return meets(from, network, to.addr(family), port, want)
		})
	}
}
