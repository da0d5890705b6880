package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/topo"
)

// Leaks are packets that should not have left: the kernel looks at every one with a filter,
// so none is missed however fast they come, and only what the filter takes is kept.
type Leaks struct {
	sockets []*os.File
	reading sync.WaitGroup

	Mu    sync.Mutex
	Found []string
	Count int
}

// leakFilter takes whatever gateways with the pool of poolOption have no business to send:
// in the syntax of pcap-filter(7).
func leakFilter() string {
	var pool, own []string
	for _, family := range []int{4, 6} {
		for _, a := range PoolOf(family) {
			pool = append(pool, "src host "+a.String())
		}
		for number := 2; number <= 3; number++ {
			own = append(own, "src host "+WanAddr(number, family).String())
		}
	}
	return LeakFilterOf(pool, own)
}

// LeakFilterOf takes all but what has a source of the pool, and ARP, neighbour discovery and
// ICMP of the edge itself. A router passes on what the outside sent to an address that has
// moved to another one. No ICMP error may quote what an address inside was sent.
func LeakFilterOf(pool, own []string) string {
	fromPool, fromOwn := strings.Join(pool, " or "), strings.Join(own, " or ")
	toPool := strings.ReplaceAll(fromPool, "src host", "dst host")
	return strings.Join([]string{
		fmt.Sprintf("(ip and not (%s or (icmp and (%s)) or (not src net 10.0.0.0/8 and (%s))))", fromPool, fromOwn, toPool),
		fmt.Sprintf("(ip6 and not (%s or (icmp6 and (src net fe80::/10 or src host :: or %s)) or (not src net fd00::/8 and (%s))))", fromPool, fromOwn, toPool),
		fmt.Sprintf("(arp and not (%s or %s or src host 0.0.0.0))", fromPool, fromOwn), // that is a probe
		"(icmp and (icmp[0] = 3 or icmp[0] = 11 or icmp[0] = 12) and (icmp[24] = 10 or icmp[20] = 10))",
		"(ip6[6] = 58 and ip6[40] < 128 and (ip6[72] = 0xfd or ip6[56] = 0xfd))",
		"not (ip or ip6 or arp)",
	}, " or ")
}

// WatchLeaks looks at what arrives at ports of the wan, until the test ends.
func (n *EgressNet) WatchLeaks(filter string, ports ...string) *Leaks {
	n.T.Helper()
	program, err := compileFilter(filter)
	n.Must(err)
	l := &Leaks{}
	n.T.Cleanup(l.Close)
	for _, port := range ports {
		file, err := filtered(n.Wan, port, program)
		n.Must(err)
		l.sockets = append(l.sockets, file)
		l.reading.Go(func() { l.read(&Frames{File: file, Name: port}) })
	}
	return l
}

// Close ends the watch.
func (l *Leaks) Close() {
	for _, s := range l.sockets {
		s.Close()
	}
	l.reading.Wait()
}

func (l *Leaks) read(f *Frames) {
	for {
		frame, err := f.Next(time.Time{})
		if err != nil {
			return // closed
		}
		l.Mu.Lock()
		if l.Count++; len(l.Found) < 10 {
			words := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default).String()
			l.Found = append(l.Found, fmt.Sprintf("at %s, %s: %s", f.Name, time.Now().Format("15:04:05.000"), words))
		}
		l.Mu.Unlock()
	}
}

// None is the fact that there were none up to now.
func (l *Leaks) None(n *Network) {
	n.T.Helper()
	n.Fact("what the sockets have is read", func() error {
		for _, s := range l.sockets {
			if waiting, err := queued(s); err != nil || waiting > 0 {
				return errors.Join(fmt.Errorf("%d bytes wait at %s", waiting, s.Name()), err)
			}
		}
		return nil
	})
	n.Once("nothing has left untranslated", func() error {
		l.Mu.Lock()
		defer l.Mu.Unlock()
		if l.Count > 0 {
			return fmt.Errorf("%d packets have: %s", l.Count, strings.Join(l.Found, "\n"))
		}
		return nil
	})
}

// queued is how much of the next packet a socket has.
func queued(file *os.File) (bytes int, err error) {
	conn, err := file.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := conn.Control(func(fd uintptr) { bytes, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return bytes, errors.Join(err, failed)
}

// compileFilter has tcpdump make a socket filter of words.
func compileFilter(words string) ([]unix.SockFilter, error) {
	path, err := topo.Tool("tcpdump")
	if err != nil {
		return nil, err
	}
	out, err := exec.Command(path, "-y", "EN10MB", "-ddd", words).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = errors.Join(err, errors.New(string(exit.Stderr)))
		}
		return nil, fmt.Errorf("compile %q: %w", words, err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var program []unix.SockFilter
	for _, line := range lines[1:] { // the first is their number
		var f unix.SockFilter
		if _, err := fmt.Sscan(line, &f.Code, &f.Jt, &f.Jf, &f.K); err != nil {
			return nil, fmt.Errorf("instruction %q: %w", line, err)
		}
		program = append(program, f)
	}
	return program, nil
}

// filtered is a packet socket for what arrives at an interface and a filter takes.
func filtered(h *topo.Host, name string, program []unix.SockFilter) (file *os.File, err error) {
	index, err := h.Index(name)
	if err != nil {
		return nil, err
	}
	err = h.Do(func() error {
		const every = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		file = os.NewFile(uintptr(fd), h.Name+"/"+name)
		return errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
			unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: every, Ifindex: index}),
		)
	})
	if err != nil {
		return nil, fmt.Errorf("filter on %s/%s: %w", h.Name, name, err)
	}
	return file, nil
}
