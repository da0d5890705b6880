package topo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/await"
)

const (
	// reachTimeout is one attempt of Reach: more than a loaded machine takes to
	// answer, less than TCP waits before it sends again (RFC 6298: one second).
	reachTimeout = 300 * time.Millisecond
	// DiscardPort is where nothing listens (RFC 863).
	DiscardPort = 9
	// listenTime is for services that have to prepare before, as databases do.
	listenTime = time.Minute
)

// Reach waits until addr answers the host: an address resolved and a TCP SYN
// answered, if only by "refused".
func (h *Host) Reach(ctx context.Context, addr netip.Addr) error {
	return await.That(ctx, addr.String()+" to answer "+h.Name, func() error {
		return h.Knock(addr)
	})
}

// ErrSilent says that nobody answered.
var ErrSilent = errors.New("no answer")

// Knock is one attempt of Reach. The error is ErrSilent where nothing comes back.
func (h *Host) Knock(addr netip.Addr) error {
	return h.Do(func() error { return knock(addr, DiscardPort, reachTimeout) })
}

func knock(addr netip.Addr, port int, timeout time.Duration) error {
	family, to := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: port, Addr: addr.As16()})
	if addr.Is4() {
		family, to = unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: addr.As4()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd)
	if err = unix.Connect(fd, to); errors.Is(err, unix.EINPROGRESS) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if n, _ := unix.Poll(fds, int(timeout.Milliseconds())); n == 0 {
			return ErrSilent
		}
		var code int
		if code, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); err == nil && code != 0 {
			err = unix.Errno(code)
		}
	}
	if errors.Is(err, unix.ECONNREFUSED) {
		return nil
	}
	return err
}

// Answers says whether a TCP SYN to a port gets an answer within the time, if only
// "refused". Firewalls that drop it leave it without.
func (h *Host) Answers(pair Pair, port int, within time.Duration) (answered bool, err error) {
	err = h.Do(func() error {
		err := knock(pair.ServerAddr(4), port, within)
		answered = err == nil
		if errors.Is(err, ErrSilent) {
			return nil
		}
		return err
	})
	return answered, err
}

// AwaitListen waits until a process of the host listens on a TCP port ("tcp") or
// has a UDP port bound ("udp"), on IPv4 or IPv6.
func (h *Host) AwaitListen(ctx context.Context, network string, port int) error {
	return await.Within(ctx, listenTime, fmt.Sprintf("a listener on %s port %d of %s", network, port, h.Name), func() error {
		return h.Do(func() error { return Listening(network, port) })
	})
}

// Listening is nil when a process of the calling thread's namespace listens on a TCP port ("tcp")
// or has a UDP port bound ("udp"), on IPv4 or IPv6.
func Listening(network string, port int) error {
	for _, file := range []string{network, network + "6"} {
		if found, err := listens("/proc/thread-self/net/"+file, port); found || err != nil {
			return err
		}
	}
	return errors.New("there is none")
}

// listens looks for a socket without a peer in a file of proc_net(5).
func listens(path string, port int) (bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	want := fmt.Sprintf(":%04X", port)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > 2 && strings.HasSuffix(fields[1], want) && strings.HasSuffix(fields[2], ":0000") {
			return true, nil
		}
	}
	return false, nil
}
