package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/pkttest"
)

// leaks are packets that should not have left: the kernel looks at every one with a filter,
// so none is missed however fast they come, and only what the filter takes is kept.
type leaks struct {
	sockets []*os.File
	reading sync.WaitGroup

	mu    sync.Mutex
	found []string
	count int
}

// leakFilter takes whatever gateways with the pool of poolOption have no business to send:
// in the syntax of pcap-filter(7).
func leakFilter() string {
	var pool, own []string
	for _, family := range []int{4, 6} {
		for _, a := range poolOf(family) {
			pool = append(pool, "src host "+a.String())
		}
		for number := 2; number <= 3; number++ {
			own = append(own, "src host "+wanAddr(number, family).String())
		}
	}
	return leakFilterOf(pool, own)
}

// leakFilterOf takes all but what has a source of the pool, and ARP, neighbour discovery and
// ICMP of the edge itself. A router passes on what the outside sent to an address that has
// moved to another one. No ICMP error may quote what an address inside was sent.
func leakFilterOf(pool, own []string) string {
	fromPool, fromOwn := strings.Join(pool, " or "), strings.Join(own, " or ")
	toPool := strings.ReplaceAll(fromPool, "src host", "dst host")
	return strings.Join([]string{
		fmt.Sprintf("(ip and not (%s or (icmp and (%s)) or (not src net 10.0.0.0/8 and (%s))))", fromPool, fromOwn, toPool),
		fmt.Sprintf("(ip6 and not (%s or (icmp6 and (src net fe80::/10 or src host :: or %s)) or (not src net fd00::/8 and (%s))))", fromPool, fromOwn, toPool),
		fmt.Sprintf("(arp and not (%s or %s))", fromPool, fromOwn),
		"(icmp and (icmp[0] = 3 or icmp[0] = 11 or icmp[0] = 12) and (icmp[24] = 10 or icmp[20] = 10))",
		"(ip6[6] = 58 and ip6[40] < 128 and (ip6[72] = 0xfd or ip6[56] = 0xfd))",
		"not (ip or ip6 or arp)",
	}, " or ")
}

// watchLeaks looks at what arrives at ports of the wan, until the test ends.
func (n *egressNet) watchLeaks(filter string, ports ...string) *leaks {
	n.t.Helper()
	program, err := compileFilter(filter)
	n.must(err)
	l := &leaks{}
	n.t.Cleanup(l.close)
	for _, port := range ports {
		file, err := filtered(n.wan, port, program)
		n.must(err)
		l.sockets = append(l.sockets, file)
		l.reading.Go(func() { l.read(&frames{file: file, name: port}) })
	}
	return l
}

func (l *leaks) close() {
	for _, s := range l.sockets {
		s.Close()
	}
	l.reading.Wait()
}

func (l *leaks) read(f *frames) {
	for {
		frame, err := f.next(time.Time{})
		if err != nil {
			return // closed
		}
		l.mu.Lock()
		if l.count++; len(l.found) < 10 {
			words := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default).String()
			l.found = append(l.found, fmt.Sprintf("at %s, %s: %s", f.name, time.Now().Format("15:04:05.000"), words))
		}
		l.mu.Unlock()
	}
}

// none is the fact that there were none up to now.
func (l *leaks) none(n *network) {
	n.t.Helper()
	time.Sleep(20 * time.Millisecond) // what the socket has is read
	n.once("nothing has left untranslated", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.count > 0 {
			return fmt.Errorf("%d packets have: %s", l.count, strings.Join(l.found, "\n"))
		}
		return nil
	})
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

// The watch finds what it should, and nothing else.
func TestEgressLeaks(t *testing.T) {
	n := newEgressNet(t, egressOptions{})
	defer n.confess()
	outMAC, err := n.out.MAC("lan0")
	n.must(err)
	uplink, err := openFrames(n.hosts[1], "up0", false)
	n.must(err)
	t.Cleanup(uplink.close)
	const fromPool4, fromPool6 = "198.51.100.20:2000", "[2001:db8:51::21]:2000"
	fine := []string{
		"tcp " + fromPool4 + " > 203.0.113.1:80 syn", "udp " + fromPool6 + " > [2001:db8:cafe::1]:53 18", "icmp 198.51.100.21 > 203.0.113.1 56",
		"icmp 198.51.100.2 > 203.0.113.1 11/0 56", "arp 198.51.100.2 ? 198.51.100.1", "arp 198.51.100.20 ! 198.51.100.20",
		"ns 2001:db8:51::2 ? 2001:db8:51::1", "fragment 198.51.100.20 > 203.0.113.1 1480 64",
	}
	leaking := []string{
		"tcp 10.0.0.1:2000 > 203.0.113.1:80 syn", "udp [fd00::1]:2000 > [2001:db8:cafe::1]:53 18", "icmp 10.0.0.1 > 203.0.113.1 56",
		"fragment 10.0.0.1 > 203.0.113.1 1480 64", "ip 10.0.0.1 > 203.0.113.1 132 20", "arp 10.0.0.1 ? 198.51.100.1", "ns fd00::1 ? 2001:db8:51::1",
		"tcp 198.51.100.2:2000 > 203.0.113.1:80 syn", "tcp 198.51.100.22:2000 > 203.0.113.1:80 syn", "raw 0x88b5 46",
	}
	inject := func(frame []byte) { n.must(uplink.send(frame)) }
	for _, words := range fine {
		inject(pkttest.Frame(uplinkMAC(2), outMAC.String(), words))
	}
	inject(quoting(uplinkMAC(2), outMAC.String(), pool4[0]))
	n.untranslated.none(n.network)
	for _, words := range leaking {
		inject(pkttest.Frame(uplinkMAC(2), outMAC.String(), words))
	}
	inject(quoting(uplinkMAC(2), outMAC.String(), n.red1.addr(4)))
	n.fact("every leak is found", func() error {
		n.untranslated.mu.Lock()
		defer n.untranslated.mu.Unlock()
		if want := len(leaking) + 1; n.untranslated.count != want {
			return fmt.Errorf("%d of %d: %s", n.untranslated.count, want, strings.Join(n.untranslated.found, "\n"))
		}
		return nil
	})
}

// quoting is an error of a pool's address about a packet that was sent to an address.
func quoting(src, dst string, to netip.Addr) []byte {
	quoted := pkttest.Frame(dst, src, fmt.Sprintf("udp 203.0.113.1:53 > %s:2000 18", to))[14:]
	frame := pkttest.Frame(src, dst, fmt.Sprintf("icmp 198.51.100.20 > 203.0.113.1 3/3 %d", len(quoted)))
	return append(bytes.Clone(frame[:len(frame)-len(quoted)]), quoted...)
}
