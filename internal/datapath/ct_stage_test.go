package datapath

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/ethtool"
	"github.com/selvage/selvage/test/pkttest"
)

// stage is two of the kernel's own TCP stacks and a relay between them, which loses,
// delays and adds packets as it is told, and keeps those that it has seen.
//
//	a (alice) ─ ra ┐ relay ┌ rb ─ b (bob)
type stage struct {
	t     *testing.T
	peers [2]*peer
	relay netns.NsHandle
	v6    bool
	stop  chan struct{}
	done  chan struct{}

	mu   sync.Mutex
	fds  [2]int
	plan func(p crossing) delivery
	held [2][]byte // of each side: delivered, or seen, after another packet
	late [2]bool   // it was seen already
	seen [][]byte
	last time.Time
}

// crossing is a packet that comes from a side.
type crossing struct {
	pkttest.Segment
	side int // 0: a's, 1: b's
}

// delivery is what the relay does with a packet.
type delivery int

const (
	arrives delivery = iota
	lost             // after it was seen
	unseen           // lost before
	late             // it is seen, and arrives after the next packet of the other side was seen
	swapped          // it is seen after the next packet of its own side
)

// peer is one end.
type peer struct {
	t    *testing.T
	ns   netns.NsHandle
	addr netip.Addr
	mac  string
}

const (
	sideA = 0
	sideB = 1
)

// stageMTU leaves room for a tunnel on the way.
const stageMTU = 1400

var stageAddrs = map[bool][2]string{false: {"10.8.0.1", "10.8.0.2"}, true: {"fd08::1", "fd08::2"}}

func newStage(t *testing.T, v6 bool) *stage {
	s := &stage{t: t, v6: v6, stop: make(chan struct{}), done: make(chan struct{}), last: time.Now()}
	s.plan = func(crossing) delivery { return arrives }
	s.relay = newNamespace(t)
	for i, mac := range []string{alice, bob} {
		s.peers[i] = &peer{t, newNamespace(t), netip.MustParseAddr(stageAddrs[v6][i]), mac}
	}
	for i, p := range s.peers {
		s.connect(i, p, s.peers[1-i])
	}
	go s.work()
	t.Cleanup(func() {
		close(s.stop)
		<-s.done
	})
	return s
}

func newNamespace(t *testing.T) netns.NsHandle {
	t.Helper()
	w := &world{}
	w.enterNew(t)
	w.nl.Close()
	t.Cleanup(func() { w.ns.Close() })
	inNamespace(t, w.ns, func() {
		writeSysctl(t, "net/ipv6/conf/default/disable_ipv6", "0")
		writeSysctl(t, "net/ipv6/conf/default/accept_dad", "0")
		writeSysctl(t, "net/ipv6/conf/default/router_solicitations", "0")
	})
	return w.ns
}

func inNamespace(t testing.TB, ns netns.NsHandle, f func()) {
	t.Helper()
	(&world{ns: ns}).do(t, f)
}

// connect lays the cable of a side, without the offloads that would hide packets.
func (s *stage) connect(side int, p, other *peer) {
	name := "r" + string(rune('a'+side))
	nl, err := netlink.NewHandleAt(s.relay)
	s.check(err)
	defer nl.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = name, stageMTU
	s.check(nl.LinkAdd(&netlink.Veth{
		LinkAttrs: attrs, PeerName: "eth0", PeerMTU: stageMTU, PeerNamespace: netlink.NsFd(p.ns), PeerHardwareAddr: hardware(p.mac),
	}))
	l, err := nl.LinkByName(name)
	s.check(err)
	s.check(nl.LinkSetUp(l))
	bits := map[bool]int{false: 24, true: 64}[s.v6]
	inNamespace(s.t, p.ns, func() {
		eth, err := netlink.LinkByName("eth0")
		s.check(err)
		s.check(netlink.LinkSetUp(eth))
		prefix := net.IPNet{IP: p.addr.AsSlice(), Mask: net.CIDRMask(bits, p.addr.BitLen())}
		s.check(netlink.AddrAdd(eth, &netlink.Addr{IPNet: &prefix, Flags: unix.IFA_F_NODAD}))
		s.check(netlink.NeighSet(&netlink.Neigh{
			LinkIndex: eth.Attrs().Index, State: netlink.NUD_PERMANENT, IP: other.addr.AsSlice(), HardwareAddr: hardware(other.mac),
		}))
		s.check(noOffloads("eth0"))
	})
	inNamespace(s.t, s.relay, func() { s.fds[side] = packetSocket(s.t, l.Attrs().Index) })
}

func hardware(mac string) net.HardwareAddr {
	m := macOf(mac)
	return m[:]
}

func (s *stage) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func noOffloads(dev string) error {
	e, err := ethtool.Open()
	if err != nil {
		return err
	}
	defer e.Close()
	have, err := e.Features(dev)
	if err != nil {
		return err
	}
	off := map[string]bool{}
	for name := range have {
		if strings.HasPrefix(name, "tx-checksum-ip") || strings.HasSuffix(name, "-segmentation") || name == "rx-gro" {
			off[name] = false
		}
	}
	return e.Change(dev, off)
}

// packetSocket must be called in the namespace.
func packetSocket(t *testing.T, ifindex int) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
		t.Fatal(err)
	}
	const everyProtocol = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: everyProtocol, Ifindex: ifindex}); err != nil {
		t.Fatal(err)
	}
	return fd
}

// work is the relay.
func (s *stage) work() {
	defer close(s.done)
	buf := make([]byte, 1<<16)
	for {
		select {
		case <-s.stop:
			return
		default:
		}
		polls := []unix.PollFd{{Fd: int32(s.fds[0]), Events: unix.POLLIN}, {Fd: int32(s.fds[1]), Events: unix.POLLIN}}
		if _, err := unix.Poll(polls, 20); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		for side, fd := range s.fds {
			if n, _, err := unix.Recvfrom(fd, buf, 0); err == nil {
				s.take(side, slices.Clone(buf[:n]))
			}
		}
	}
}

// take decides about a packet. What is not TCP does not pass.
func (s *stage) take(side int, frame []byte) {
	segment, ok := pkttest.TCPOf(frame)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
	switch s.plan(crossing{segment, side}) {
	case unseen:
	case lost:
		s.see(side, frame, false)
	case late:
		s.see(side, frame, false)
		s.held[side], s.late[side] = frame, true
	case swapped:
		s.held[side], s.late[side] = frame, false
	default:
		s.see(side, frame, true)
	}
}

// see notes a packet and lets those go on that have waited for it.
func (s *stage) see(side int, frame []byte, on bool) {
	s.seen = append(s.seen, frame)
	if on {
		s.send(side, frame)
	}
	if held := s.held[side]; held != nil && !s.late[side] {
		s.held[side] = nil
		s.see(side, held, true)
	}
	if held := s.held[1-side]; held != nil && s.late[1-side] {
		s.held[1-side] = nil
		s.send(1-side, held)
	}
}

// send lets a frame go on to the other side.
func (s *stage) send(from int, frame []byte) {
	if _, err := unix.Write(s.fds[1-from], frame); err != nil {
		s.t.Errorf("relay %d bytes: %v", len(frame), err)
	}
}

// inject makes a packet of a side that its kernel has not sent.
func (s *stage) inject(side int, frame []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
	s.see(side, frame, true)
}

// quiet waits until nothing has come for a while, longer than a delayed ACK takes.
func (s *stage) quiet() {
	for {
		s.mu.Lock()
		since := time.Since(s.last)
		s.mu.Unlock()
		if since >= 120*time.Millisecond {
			return
		}
		<-time.After(120*time.Millisecond - since)
	}
}

// until waits for what the relay is about to see.
func (s *stage) until(what string, so func() bool) {
	s.t.Helper()
	err := await.That(s.t.Context(), what, func() error {
		if !so() {
			return fmt.Errorf("%d packets so far", len(s.soFar()))
		}
		return nil
	})
	if err != nil {
		s.t.Error(err)
	}
}

// sent is how many segments with all of the flags a side has sent.
func (s *stage) sent(side int, flags uint8) (n int) {
	for _, frame := range s.soFar() {
		segment, ok := pkttest.TCPOf(frame)
		if ok && slices.Equal(frame[6:12], hardware(s.peers[side].mac)) && segment.Flags&flags == flags {
			n++
		}
	}
	return n
}

// lastOf is the last packet that a side has sent.
func (s *stage) lastOf(side int) pkttest.Segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, frame := range slices.Backward(s.seen) {
		if slices.Equal(frame[6:12], hardware(s.peers[side].mac)) {
			segment, _ := pkttest.TCPOf(frame)
			return segment
		}
	}
	s.t.Fatal("that side has sent nothing")
	return pkttest.Segment{}
}

// words are those of a segment between two ports, from a side.
func (s *stage) words(side int, sport, dport uint16, rest string) []byte {
	from, to := s.peers[side], s.peers[1-side]
	return pkttest.Frame(from.mac, to.mac, fmt.Sprintf("tcp %s > %s %s",
		netip.AddrPortFrom(from.addr, sport), netip.AddrPortFrom(to.addr, dport), rest))
}

// nth gives a replayed to the n-th packet (from 1) of a side that has all these flags, and
// no SYN unless that is asked for.
func nth(n, side int, flags uint8, what delivery) func(crossing) delivery {
	return func(p crossing) delivery {
		same := p.side == side && p.Flags&flags == flags && (p.Flags^flags)&pkttest.SYN == 0
		if same {
			n--
		}
		if same && n == 0 {
			return what
		}
		return arrives
	}
}

func conversationFile(name, ext string) string {
	return filepath.Join("testdata", "conversations", name+ext)
}

// keep writes down what was seen.
func (s *stage) keep(name string) [][]byte {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	must(s.t, os.WriteFile(conversationFile(name, ".pcap"), pkttest.Pcap(s.seen), 0o644))
	runtime.KeepAlive(s.peers)
	return s.seen
}

// soFar is what was seen until now.
func (s *stage) soFar() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// numbersOf are sequence and acknowledgement number in words.
func numbersOf(seq, ack uint32) string { return fmt.Sprintf(" seq %d acks %d", seq, ack) }
