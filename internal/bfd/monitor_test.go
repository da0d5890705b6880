package bfd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

/*
  near                          router                         far
 ┌──────────────────┐        ┌─────────────────────┐        ┌───────────────────┐
 │ u0 192.0.2.1/25  ├────────┤ r0 .2        .129 r1├────────┤ u0 192.0.2.130/25 │
 │ 2001:db8:1::1/64 │        │ :1::2        :2::1  │        │ 2001:db8:2::2/64  │
 └──────────────────┘        └─────────────────────┘        └───────────────────┘
*/

var (
	near4, near6     = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8:1::1")
	router4, router6 = netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8:1::2")
	far4, far6       = netip.MustParseAddr("192.0.2.130"), netip.MustParseAddr("2001:db8:2::2")
)

// patience bounds every wait, far above what is waited for.
const patience = 20 * time.Second

type bench struct {
	t                 *testing.T
	lab               *topo.Lab
	near, router, far *topo.Host
}

func newBench(t *testing.T) *bench {
	tier.Root(t)
	t.Parallel()
	lab, err := topo.New(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, lab: lab}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(lab.Picture())
		}
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	for name, host := range map[string]**topo.Host{"near": &b.near, "router": &b.router, "far": &b.far} {
		*host, err = lab.Host(name)
		b.must(err)
	}
	b.must(b.router.SysctlSet("net/ipv4/ip_forward", "1"))
	b.must(b.router.SysctlSet("net/ipv6/conf/all/forwarding", "1"))
	end := func(h *topo.Host, name, addr4, addr6 string) topo.LinkEnd {
		return topo.LinkEnd{Host: h, Name: name, Addrs: []netip.Prefix{netip.MustParsePrefix(addr4), netip.MustParsePrefix(addr6)}}
	}
	b.must(lab.Link(t.Context(),
		end(b.near, "u0", "192.0.2.1/25", "2001:db8:1::1/64"), end(b.router, "r0", "192.0.2.2/25", "2001:db8:1::2/64"), 1500))
	b.must(lab.Link(t.Context(),
		end(b.router, "r1", "192.0.2.129/25", "2001:db8:2::1/64"), end(b.far, "u0", "192.0.2.130/25", "2001:db8:2::2/64"), 1500))
	for h, gateways := range map[*topo.Host][]string{b.near: {"192.0.2.2", "2001:db8:1::2"}, b.far: {"192.0.2.129", "2001:db8:2::1"}} {
		for _, gateway := range gateways {
			b.run(h, "ip route add default via "+gateway)
		}
	}
	for _, remote := range []netip.Addr{far4, far6} {
		b.must(b.near.Reach(t.Context(), remote))
	}
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) run(h *topo.Host, command string) string {
	b.t.Helper()
	out, err := h.Output(b.t.Context(), strings.Fields(command)...)
	b.must(err)
	return string(out)
}

// silence has h drop what arrives of BFD, with all links up; hear ends it.
func (b *bench) silence(h *topo.Host) {
	b.t.Helper()
	b.run(h, "nft add table inet deaf")
	b.run(h, "nft add chain inet deaf in { type filter hook prerouting priority -300 ; }")
	b.run(h, "nft add rule inet deaf in udp dport { 3784, 4784 } drop")
}

func (b *bench) hear(h *topo.Host) { b.t.Helper(); b.run(h, "nft delete table inet deaf") }

// monitor is a Monitor on h.
func (b *bench) monitor(h *topo.Host) *Monitor {
	b.t.Helper()
	m, err := NewMonitor(slog.New(slog.NewTextHandler(b.t.Output(), nil)).With("host", h.Name))
	b.must(err)
	b.t.Cleanup(func() {
		if err := m.Close(); err != nil {
			b.t.Error(err)
		}
	})
	return m
}

func (b *bench) set(h *topo.Host, m *Monitor, peers ...Peer) {
	b.t.Helper()
	b.must(h.Do(func() error { return m.Set(peers) }))
}

func peerOf(local, remote netip.Addr, hops int) Peer {
	return Peer{Pair: overlay.Pair{Local: local, Remote: remote}, Hops: hops, Timers: quick}
}

// await waits until the pair is as wanted, woken by the Monitor's own events.
func (b *bench) await(m *Monitor, pair overlay.Pair, what string, good func(Result) bool) Result {
	b.t.Helper()
	limit := time.After(patience)
	poll := time.NewTicker(20 * time.Millisecond) // for what is no change of State
	defer poll.Stop()
	for {
		r, ok := m.Results()[pair]
		if ok && good(r) {
			return r
		}
		select {
		case <-m.Changed():
		case <-poll.C:
		case <-limit:
			b.t.Fatalf("%s is %+v, want it %s; dropped %v", pair, r, what, m.Dropped())
		}
	}
}

func (b *bench) awaitState(m *Monitor, pair overlay.Pair, want State) Result {
	b.t.Helper()
	return b.await(m, pair, string(want), func(r Result) bool { return r.State == want })
}

// Two Monitors over a router, both families: a path that swallows packets while all
// links are up is found, and is used again after its back-off.
func TestDetects(t *testing.T) {
	b := newBench(t)
	near, far := b.monitor(b.near), b.monitor(b.far)
	b.set(b.near, near, peerOf(near4, far4, 2), peerOf(near6, far6, 2))
	pairs := []overlay.Pair{{Local: near4, Remote: far4}, {Local: near6, Remote: far6}}
	for _, pair := range pairs { // nobody there yet: kernel peers are like that
		b.await(near, pair, "asked", func(r Result) bool { return r.State == Unknown && r.Usable() && r.Sent > 0 })
	}
	b.set(b.far, far, peerOf(far4, near4, 2), peerOf(far6, near6, 2))
	for _, pair := range pairs {
		b.awaitState(near, pair, Up)
		b.awaitState(far, overlay.Pair{Local: pair.Remote, Remote: pair.Local}, Up)
	}
	b.silence(b.router)
	for _, pair := range pairs {
		if r := b.awaitState(near, pair, Down); r.Usable() || r.Failures != 1 || !strings.Contains(r.Why, "no packet for 150ms") {
			t.Errorf("%s is %+v", pair, r)
		}
	}
	restored := time.Now()
	b.hear(b.router)
	for _, pair := range pairs {
		if r := b.awaitState(near, pair, Up); r.Since.Sub(restored) < firstHold {
			t.Errorf("%s is used again %s after it was restored, want it held back for %s", pair, r.Since.Sub(restored), firstHold)
		}
	}
	if dropped := near.Dropped(); len(dropped) > 0 {
		t.Errorf("packets of sound sessions were dropped: %v", dropped)
	}
}

// joined are both ends of a session over the router that is up, as each sees it.
func (b *bench) joined() (near, far *Monitor, there, back overlay.Pair) {
	b.t.Helper()
	near, far = b.monitor(b.near), b.monitor(b.far)
	there, back = overlay.Pair{Local: near4, Remote: far4}, overlay.Pair{Local: far4, Remote: near4}
	b.set(b.near, near, peerOf(near4, far4, 2))
	b.set(b.far, far, peerOf(far4, near4, 2))
	b.awaitState(near, there, Up)
	b.awaitState(far, back, Up)
	return near, far, there, back
}

// Where only one direction is dead, both ends find out.
func TestDetectsOneDirection(t *testing.T) {
	b := newBench(t)
	near, far, there, back := b.joined()
	b.silence(b.far)
	b.awaitState(far, back, Down)
	if r := b.awaitState(near, there, Down); !strings.Contains(r.Why, "receives nothing from here") {
		t.Errorf("near says %q", r.Why)
	}
}

// While this process does not run, the other end's packets wait in its socket. They
// are read before anybody is called dead.
func TestStallIsNoSilence(t *testing.T) {
	b := newBench(t)
	near, far := b.monitor(b.near), b.monitor(b.far)
	there, back := overlay.Pair{Local: near4, Remote: far4}, overlay.Pair{Local: far4, Remote: near4}
	patient := peerOf(near4, far4, 2)
	patient.Timers.Multiplier = 100 // so that far waits for near
	b.set(b.near, near, patient)
	b.set(b.far, far, peerOf(far4, near4, 2))
	b.await(near, there, "up with 150 ms", func(r Result) bool { return r.State == Up && r.Detects == 150*time.Millisecond })
	b.await(far, back, "up with 5 s", func(r Result) bool { return r.State == Up && r.Detects == 5*time.Second })
	for range 5 {
		sent := far.Results()[back].Sent
		near.mu.Lock()
		before := near.byPair[there].received
		// At least 37 ms apart: in all more than twice as long as near waits.
		b.await(far, back, "sending all the while", func(r Result) bool { return r.Sent >= sent+10 })
		near.mu.Unlock()
		r := b.await(near, there, "receiving again", func(r Result) bool { return r.Received > before+5 })
		if r.State != Up || r.Failures != 0 {
			t.Fatalf("after a stall of this end: %+v", r)
		}
	}
}

// An end that leaves takes the path out of use at once and without a failure. Timers
// that change do not cost the session.
func TestLeave(t *testing.T) {
	b := newBench(t)
	near, far, there, _ := b.joined()
	slower := peerOf(far4, near4, 2)
	slower.Timers = Timers{200 * time.Millisecond, 4}
	b.set(b.far, far, slower)
	if r := b.await(near, there, "slower", func(r Result) bool { return r.Detects == 800*time.Millisecond }); r.State != Up || r.Failures != 0 {
		t.Errorf("after a change of timers %+v", r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	b.must(far.Leave(ctx))
	if r := b.awaitState(near, there, Down); r.Failures != 0 || !r.Left || r.Why != "the remote took it out of use" {
		t.Errorf("after the other end left: %+v", r)
	}
	b.set(b.far, far, peerOf(far4, near4, 2))
	if r := b.awaitState(near, there, Up); r.Failures != 0 {
		t.Errorf("after it came back: %+v", r)
	}
}

// The next hop's session is single-hop: a packet from behind a router, or by another
// interface, is not its.
func TestDistance(t *testing.T) {
	b := newBench(t)
	near, router := b.monitor(b.near), b.monitor(b.router)
	there := overlay.Pair{Local: near6, Remote: router6}
	b.set(b.near, near, peerOf(near6, router6, 1), peerOf(near4, far4, 1))
	b.set(b.router, router, peerOf(router6, near6, 1))
	b.awaitState(near, there, Up)
	far := b.monitor(b.far)
	b.set(b.far, far, peerOf(far4, near4, 1))
	b.must(await.That(t.Context(), "packets from afar to be dropped", func() error {
		if near.Dropped()[TooFar] == 0 {
			return fmt.Errorf("dropped %v", near.Dropped())
		}
		return nil
	}))
	if r := near.Results()[overlay.Pair{Local: near4, Remote: far4}]; r.State != Unknown || r.Received > 0 {
		t.Errorf("a single-hop session over a router: %+v", r)
	}
	elsewhere := peerOf(near6, router6, 1)
	elsewhere.Ifindex = 1 // the loopback
	b.set(b.near, near, elsewhere)
	b.awaitState(near, there, Down)
	if near.Dropped()[WrongInterface] == 0 {
		t.Errorf("dropped %v, want packets that arrived at another interface", near.Dropped())
	}
}

// Packets that are not of a session are counted and change nothing.
func TestHostilePackets(t *testing.T) {
	b := newBench(t)
	near := b.monitor(b.near)
	pair := overlay.Pair{Local: near4, Remote: far4}
	b.set(b.near, near, peerOf(near4, far4, 2))
	var conn net.PacketConn
	b.must(b.router.Do(func() (err error) {
		conn, err = net.ListenPacket("udp4", "192.0.2.2:0")
		return err
	}))
	defer conn.Close()
	near.mu.Lock()
	own := near.byPair[pair].session.mine
	near.mu.Unlock()
	down0 := packet{state: down, multiplier: 3, mine: 5, desiredTx: time.Second, requiredRx: time.Second}
	theirs := down0
	theirs.yours = own
	for why, wire := range map[Reason][]byte{
		Truncated: []byte("?"), BadVersion: make([]byte, headerLen), NoSession: down0.marshal(), WrongSender: theirs.marshal(),
	} {
		if _, err := conn.WriteTo(wire, &net.UDPAddr{IP: near4.AsSlice(), Port: multihopPort}); err != nil {
			t.Fatal(err)
		}
		b.must(await.That(t.Context(), "a packet to be dropped: "+string(why), func() error {
			if near.Dropped()[why] != 1 {
				return fmt.Errorf("dropped %v", near.Dropped())
			}
			return nil
		}))
	}
	if r := near.Results()[pair]; r.State != Unknown || r.Received != 0 || r.Session != "down" {
		t.Errorf("hostile packets made the pair %+v", r)
	}
}

// A forged packet that says "down", without our discriminator, ends no session that is up. The
// remote that restarts still does: it is not heard for a detection time.
func TestForgedDownEndsNoSession(t *testing.T) {
	b := newBench(t)
	near, far, there, back := b.joined()
	since := near.Results()[there].Since
	var conn *net.UDPConn
	b.must(b.far.Do(func() (err error) {
		conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: far4.AsSlice()})
		return err
	}))
	defer conn.Close()
	raw, err := conn.SyscallConn()
	b.must(err)
	b.must(raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TTL, sentTTL) }))
	b.must(err)
	for _, state := range []sessionState{down, adminDown} {
		forged := packet{state: state, multiplier: 3, mine: 5, desiredTx: time.Second, requiredRx: time.Second}
		before := near.Dropped()[NotStarting]
		if _, err := conn.WriteTo(forged.marshal(), &net.UDPAddr{IP: near4.AsSlice(), Port: multihopPort}); err != nil {
			t.Fatal(err)
		}
		b.must(await.That(t.Context(), "a forged packet to be dropped", func() error {
			if near.Dropped()[NotStarting] == before {
				return fmt.Errorf("dropped %v", near.Dropped())
			}
			return nil
		}))
	}
	if r := near.Results()[there]; r.State != Up || r.Since != since {
		t.Errorf("forged packets made the pair %+v", r)
	}
	b.must(far.Close())
	again := b.monitor(b.far)
	b.set(b.far, again, peerOf(far4, near4, 2))
	b.awaitState(again, back, Up)
	b.awaitState(near, there, Up)
}

// Sockets are there while sessions are, and a port that is taken is named.
func TestSockets(t *testing.T) {
	b := newBench(t)
	m := b.monitor(b.near)
	taken := func() error {
		return b.near.Do(func() error {
			conn, err := net.ListenPacket("udp4", "192.0.2.1:3784")
			if err != nil {
				return err
			}
			return conn.Close()
		})
	}
	b.must(taken())
	b.set(b.near, m, peerOf(near4, router4, 1), peerOf(near4, far4, 1), peerOf(near4, netip.MustParseAddr("192.0.2.77"), 2))
	if len(m.sockets.senders) != 1 || len(m.sockets.listeners) != 3 {
		t.Errorf("%d sockets to send and %d to listen, want 1 and 3", len(m.sockets.senders), len(m.sockets.listeners))
	}
	if taken() == nil {
		t.Error("the port is free while there are sessions")
	}
	other := b.monitor(b.near)
	err := b.near.Do(func() error { return other.Set([]Peer{peerOf(near4, router4, 1)}) })
	if err == nil || !strings.Contains(err.Error(), "UDP port 3784 of 192.0.2.1 is taken: stop the other BFD daemon") {
		t.Errorf("a second monitor on the port: %v", err)
	}
	b.set(b.near, m)
	b.must(await.That(t.Context(), "the port to be free", taken))
	if err := m.Set([]Peer{{}}); err == nil {
		t.Error("a peer without addresses is taken")
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := m.Set(nil); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("Set after Close: %v", err)
	}
}
