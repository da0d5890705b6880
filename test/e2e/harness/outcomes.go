package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Ports of services, by what the policy says about them.
const (
	PortFree = 7000 + iota // about which no rule is
	PortAllowed
	PortDropped
	PortRejected
	PortDroppedOut
	PortRejectedIn
	PortFrom // from red1 alone
	PortMAC  // from red2's MAC alone
)

// Intact holds when tshark finds every header whole and every checksum right. Beyond that it warns of each
// reset. It also calls 0xffff an error where others write 0x0000: both are the same sum (RFC 1624 section 3), and
// the kernel of a host writes the former.
func (n *Network) Intact(file string) {
	n.T.Helper()
	n.Once("tshark finds nothing broken in "+filepath.Base(file), func() error {
		lines, err := n.Tshark(file, "_ws.malformed || (_ws.expert.severity >= error && !tcp.checksum.ffff) || ip.checksum.status == bad || udp.checksum.status == bad ||"+
			" tcp.checksum.status == bad || icmp.checksum.status == bad || icmpv6.checksum.status == bad")
		if err == nil && len(lines) > 0 {
			err = fmt.Errorf("%d packets:\n%s", len(lines), strings.Join(lines[:min(10, len(lines))], "\n"))
		}
		return err
	})
}

// Meanwhile does something each way until stop is called, which says what went wrong.
func (*Network) Meanwhile(do func(Direction, <-chan struct{}) error, ds ...Direction) (stop func() error) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	errs := make([]error, len(ds))
	for i, d := range ds {
		wg.Go(func() { errs[i] = do(d, done) })
	}
	return sync.OnceValue(func() error {
		close(done)
		wg.Wait()
		return errors.Join(errs...)
	})
}

// ExchangeLine sends a line over a connection to an echo and wants it back.
func ExchangeLine(conn net.Conn, wait time.Duration) error {
	if err := conn.SetDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("one line.")); err != nil {
		return err
	}
	var got []byte
	for b := make([]byte, 100); len(got) < len("one line."); {
		size, err := conn.Read(b)
		if err != nil {
			return err
		}
		got = append(got, b[:size]...)
	}
	if string(got) != "one line." {
		return fmt.Errorf("%q came back", got)
	}
	return nil
}

// FromPort exchanges a line over a connection that begins at one port, and resets it; or reads until
// the other end closes it.
func FromPort(from, to netip.AddrPort, abort bool) error {
	reuse := func(_, _ string, raw syscall.RawConn) (err error) {
		control := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
		return errors.Join(control, err)
	}
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(from), Control: reuse, Timeout: 900 * time.Millisecond} // before a SYN is sent again
	c, err := dialer.Dial("tcp", to.String())
	if err != nil {
		return err
	}
	conn := c.(*net.TCPConn)
	defer CloseNow(conn)
	if abort {
		return errors.Join(ExchangeLine(conn, Patience), conn.SetLinger(0))
	}
	if err := conn.SetDeadline(time.Now().Add(Patience)); err != nil {
		return err
	}
	said, err := io.ReadAll(conn)
	if err == nil && string(said) != "goodbye" {
		err = fmt.Errorf("it said %q", said)
	}
	return err
}

// CloseNow closes a connection and frees its addresses, for the next who wants them. A process
// that is being started has copies of all descriptors until it runs its program, and Close alone
// would leave it one.
func CloseNow(conn io.Closer) {
	syscall.ForkLock.RLock() // no process is between the two
	defer syscall.ForkLock.RUnlock()
	conn.Close()
}

// QuietTime is how long an answer is waited for that should not come.
const QuietTime = 200 * time.Millisecond

// Outcome is what a client sees of a service.
type Outcome string

// What can come of asking.
const (
	Answered   Outcome = "answered"
	Silent     Outcome = "silent"
	Refused    Outcome = "refused"    // by a TCP reset or "port unreachable"
	Prohibited Outcome = "prohibited" // by ICMP "administratively prohibited"
)

// Ask asks the echo service on a port of a guest, and says what came of it. It waits long for
// an answer, but not where none should come.
func Ask(from Guest, network string, to netip.Addr, port int, want Outcome) Outcome {
	wait := 3 * time.Second
	if want == Silent {
		wait = QuietTime
	}
	var err error
	if more := from.Do(func() error {
		err = askWithin(network, netip.AddrPortFrom(to, uint16(port)).String(), wait)
		return nil
	}); more != nil {
		return Outcome(more.Error())
	}
	switch {
	case err == nil:
		return Answered
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.EACCES):
		return Prohibited
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return Silent
	}
	return Outcome(err.Error())
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
	return EchoOne(conn, []byte("question"), time.Until(deadline))
}

// Meets is nil when this is what a client meets at a service.
func Meets(from Guest, network string, to netip.Addr, port int, want Outcome) error {
	if got := Ask(from, network, to, port, want); got != want {
		return fmt.Errorf("it is %s", got)
	}
	return nil
}

// Serve echoes on TCP and UDP ports of a guest, over both families, until the test ends.
func (n *Network) Serve(g Guest, ports ...int) {
	n.T.Helper()
	for _, port := range ports {
		n.Must(g.Do(func() error {
			addr := fmt.Sprintf(":%d", port)
			stream, err := net.Listen("tcp", addr)
			if err != nil {
				return err
			}
			datagrams, err := net.ListenPacket("udp", addr)
			if err != nil {
				return errors.Join(err, stream.Close())
			}
			n.T.Cleanup(func() { stream.Close(); datagrams.Close() })
			go EchoStreams(stream)
			go EchoDatagrams(datagrams)
			return nil
		}))
	}
}

// EchoStreams sends back what comes over each connection.
func EchoStreams(l net.Listener) {
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

// EchoDatagrams sends back what comes.
func EchoDatagrams(conn net.PacketConn) {
	b := make([]byte, 1<<16)
	for {
		size, from, err := conn.ReadFrom(b)
		if err != nil {
			return // closed
		}
		_, _ = conn.WriteTo(b[:size], from) // the client misses it
	}
}
