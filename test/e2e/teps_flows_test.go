package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/topo"
)

// bundle is many UDP flows from one guest to another, each a pair of ports, whose
// datagrams are numbered and say when they were sent.
type bundle struct {
	name              string
	sources, sinks    []*net.UDPConn
	addr              netip.Addr
	firstFrom, firsts uint16 // ports
	stop              chan struct{}
	sending, reading  sync.WaitGroup

	mu    sync.Mutex
	flows map[flowPorts]*flowRecord
	fault error
}

// flowPorts tell a flow of a bundle from the others.
type flowPorts struct{ from, to uint16 }

// flowRecord is what came of one flow.
type flowRecord struct {
	next     uint64 // the number that is due
	lastSent int64  // when the last one that came was sent, ns
	lost     uint64
	gap      time.Duration // the longest time without a datagram, by when they were sent
}

// newBundle opens sources × sinks flows, on ports from the given ones on.
func (n *network) newBundle(d direction, from, to uint16, sources, sinks int) *bundle {
	n.t.Helper()
	b := &bundle{name: d.name, addr: d.addr, firstFrom: from, firsts: to, stop: make(chan struct{}), flows: map[flowPorts]*flowRecord{}}
	n.t.Cleanup(b.close)
	open := func(h *topo.Host, port uint16) (c *net.UDPConn) {
		n.must(h.Do(func() (err error) {
			c, err = net.ListenUDP("udp", &net.UDPAddr{Port: int(port)})
			return err
		}))
		return c
	}
	for i := range sources {
		b.sources = append(b.sources, open(d.from, from+uint16(i)))
	}
	for i := range sinks {
		sink := open(d.to, to+uint16(i))
		n.must(sink.SetReadBuffer(1 << 20))
		b.sinks = append(b.sinks, sink)
		b.reading.Go(func() { b.read(sink, to+uint16(i)) })
	}
	return b
}

func (b *bundle) close() {
	select {
	case <-b.stop:
	default:
		close(b.stop)
	}
	b.sending.Wait()
	for _, c := range slices.Concat(b.sources, b.sinks) {
		c.Close()
	}
	b.reading.Wait()
}

func (b *bundle) read(sink *net.UDPConn, port uint16) {
	var buffer [64]byte
	for {
		size, from, err := sink.ReadFromUDPAddrPort(buffer[:])
		if err != nil {
			return // closed
		}
		if size != 16 {
			continue
		}
		number, sent := binary.BigEndian.Uint64(buffer[:]), int64(binary.BigEndian.Uint64(buffer[8:]))
		b.mu.Lock()
		f := b.flows[flowPorts{from.Port(), port}]
		if f == nil {
			f = &flowRecord{}
			b.flows[flowPorts{from.Port(), port}] = f
		}
		f.came(number, sent)
		b.mu.Unlock()
	}
}

// came takes in a datagram; one that was overtaken is no longer lost.
func (f *flowRecord) came(number uint64, sent int64) {
	switch {
	case number < f.next:
		f.lost--
		return
	case number > f.next:
		f.lost += number - f.next
		f.gap = max(f.gap, time.Duration(sent-f.lastSent))
	}
	f.next, f.lastSent = number+1, sent
}

// round sends one datagram of each flow.
func (b *bundle) round(number uint64) error {
	var datagram [16]byte
	binary.BigEndian.PutUint64(datagram[:], number)
	for i := range b.sinks {
		to := netip.AddrPortFrom(b.addr, b.firsts+uint16(i))
		for _, source := range b.sources {
			binary.BigEndian.PutUint64(datagram[8:], uint64(time.Now().UnixNano()))
			if _, err := source.WriteToUDPAddrPort(datagram[:], to); err != nil {
				return fmt.Errorf("send to %s: %w", to, err)
			}
		}
	}
	return nil
}

// rounds sends so many datagrams of each flow, and waits for all of them.
func (n *network) rounds(b *bundle, count int) {
	n.t.Helper()
	for i := range count {
		n.must(b.round(uint64(i)))
		time.Sleep(time.Millisecond) // so that sockets are emptied
	}
	n.fact(fmt.Sprintf("all flows from %s arrive", b.name), func() error { return b.complete(uint64(count)) })
}

func (b *bundle) complete(count uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if want := len(b.sources) * len(b.sinks); len(b.flows) != want {
		return fmt.Errorf("%d of %d flows have arrived", len(b.flows), want)
	}
	for ports, f := range b.flows {
		if f.next != count || f.lost > 0 {
			return fmt.Errorf("flow %v: %d of %d, %d lost", ports, f.next, count, f.lost)
		}
	}
	return nil
}

// start sends a datagram of each flow every interval, until the bundle is closed.
func (b *bundle) start(interval time.Duration) {
	b.sending.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for number := uint64(0); ; number++ {
			select {
			case <-b.stop:
				return
			case <-ticker.C:
			}
			if err := b.round(number); err != nil {
				b.mu.Lock()
				b.fault = err
				b.mu.Unlock()
				return
			}
		}
	})
}

// goesOn waits until every flow has come so many datagrams further.
func (n *network) goesOn(b *bundle, count uint64) {
	n.t.Helper()
	from := map[flowPorts]uint64{}
	b.mu.Lock()
	for ports, f := range b.flows {
		from[ports] = f.next
	}
	b.mu.Unlock()
	n.fact(fmt.Sprintf("every flow from %s goes on", b.name), func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if want := len(b.sources) * len(b.sinks); len(b.flows) != want {
			return errors.Join(fmt.Errorf("%d of %d flows have arrived", len(b.flows), want), b.fault)
		}
		for ports, f := range b.flows {
			if f.next < from[ports]+count {
				return errors.Join(fmt.Errorf("flow %v is at %d, was at %d", ports, f.next, from[ports]), b.fault)
			}
		}
		return nil
	})
}

// gaps are the longest ones of the flows that lost something, sorted, and how many
// flows lost nothing.
func (b *bundle) gaps(among func(flowPorts) bool) (gaps []time.Duration, whole int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ports, f := range b.flows {
		switch {
		case !among(ports):
		case f.lost > 0:
			gaps = append(gaps, f.gap)
		default:
			whole++
		}
	}
	slices.Sort(gaps)
	return gaps, whole
}

// seenAt are the flows of bundles whose tunnel packets pass an interface, both ways.
func (n *network) seenAt(h *topo.Host, name string, outer int, during time.Duration) map[flowPorts]bool {
	n.t.Helper()
	f, err := openFrames(h, name, true)
	n.must(err)
	defer f.close()
	seen := map[flowPorts]bool{}
	inner := 14 + outer + 8 + 8 + 14 // Ethernet, IP, UDP, VXLAN, Ethernet
	for deadline := time.Now().Add(during); ; {
		frame, err := f.next(deadline)
		if err != nil {
			return seen
		}
		if len(frame) < inner+28 || frame[inner]>>4 != 4 || frame[inner+9] != 17 {
			continue
		}
		seen[flowPorts{binary.BigEndian.Uint16(frame[inner+20:]), binary.BigEndian.Uint16(frame[inner+22:])}] = true
	}
}

// The measure of what was lost is right: a gap is the time between what was sent
// last before a loss and first after it.
func TestFlowRecord(t *testing.T) {
	ms := func(n int64) int64 { return n * int64(time.Millisecond) }
	var f flowRecord
	for i := range int64(3) {
		f.came(uint64(i), ms(10*i))
	}
	f.came(9, ms(90))
	if f.lost != 6 || f.gap != 70*time.Millisecond {
		t.Errorf("lost %d in %s, want 6 in 70ms", f.lost, f.gap)
	}
	f.came(5, ms(50)) // overtaken
	f.came(11, ms(110))
	if f.lost != 6 || f.gap != 70*time.Millisecond || f.next != 12 {
		t.Errorf("lost %d in %s up to %d, want 6 in 70ms up to 12", f.lost, f.gap, f.next)
	}
}
