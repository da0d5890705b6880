package harness

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/selvage/selvage/lab/topo"
)

// Bundle is many UDP flows from one guest to another, each a pair of ports, whose
// datagrams are numbered and say when they were sent.
type Bundle struct {
	Name              string
	Sources, Sinks    []*net.UDPConn
	addr              netip.Addr
	firstFrom, firsts uint16 // ports
	stop              chan struct{}
	sending, reading  sync.WaitGroup

	Mu    sync.Mutex
	Flows map[FlowPorts]*flowRecord
	fault error
}

// FlowPorts tell a flow of a bundle from the others.
type FlowPorts struct{ From, To uint16 }

// flowRecord is what came of one flow.
type flowRecord struct {
	Next     uint64 // the number that is due
	lastSent int64  // when the last one that came was sent, ns
	Lost     uint64
	Gap      time.Duration // the longest time without a datagram, by when they were sent
}

// NewBundle opens sources × sinks flows, on ports from the given ones on.
func (n *Network) NewBundle(d Direction, from, to uint16, sources, sinks int) *Bundle {
	n.T.Helper()
	b := &Bundle{Name: d.Name, addr: d.Addr, firstFrom: from, firsts: to, stop: make(chan struct{}), Flows: map[FlowPorts]*flowRecord{}}
	n.T.Cleanup(b.close)
	open := func(h *topo.Host, port uint16) (c *net.UDPConn) {
		n.Must(h.Do(func() (err error) {
			c, err = net.ListenUDP("udp", &net.UDPAddr{Port: int(port)})
			return err
		}))
		return c
	}
	for i := range sources {
		b.Sources = append(b.Sources, open(d.From, from+uint16(i)))
	}
	for i := range sinks {
		sink := open(d.To, to+uint16(i))
		n.Must(sink.SetReadBuffer(1 << 20))
		b.Sinks = append(b.Sinks, sink)
		b.reading.Go(func() { b.read(sink, to+uint16(i)) })
	}
	return b
}

func (b *Bundle) close() {
	select {
	case <-b.stop:
	default:
		close(b.stop)
	}
	b.sending.Wait()
	for _, c := range slices.Concat(b.Sources, b.Sinks) {
		CloseNow(c)
	}
	b.reading.Wait()
}

func (b *Bundle) read(sink *net.UDPConn, port uint16) {
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
		b.Mu.Lock()
		f := b.Flows[FlowPorts{from.Port(), port}]
		if f == nil {
			f = &flowRecord{}
			b.Flows[FlowPorts{from.Port(), port}] = f
		}
		f.came(number, sent)
		b.Mu.Unlock()
	}
}

// came takes in a datagram; one that was overtaken is no longer lost.
func (f *flowRecord) came(number uint64, sent int64) {
	switch {
	case number < f.Next:
		f.Lost--
		return
	case number > f.Next:
		f.Lost += number - f.Next
		f.Gap = max(f.Gap, time.Duration(sent-f.lastSent))
	}
	f.Next, f.lastSent = number+1, sent
}

// inARow are sent without a pause: a busy core has room for 1,000 packets that it has not come to
// yet (net.core.netdev_max_backlog), and the kernel drops more without telling an edge.
const inARow = 256

// Round sends one datagram of each flow.
func (b *Bundle) Round(number uint64) error {
	var datagram [16]byte
	binary.BigEndian.PutUint64(datagram[:], number)
	sent := 0
	for i := range b.Sinks {
		to := netip.AddrPortFrom(b.addr, b.firsts+uint16(i))
		for _, source := range b.Sources {
			if sent++; sent%inARow == 0 {
				<-time.After(time.Millisecond)
			}
			binary.BigEndian.PutUint64(datagram[8:], uint64(time.Now().UnixNano()))
			if _, err := source.WriteToUDPAddrPort(datagram[:], to); err != nil {
				return fmt.Errorf("send to %s: %w", to, err)
			}
		}
	}
	return nil
}

// Start sends a datagram of each flow every interval, until the bundle is closed.
func (b *Bundle) Start(interval time.Duration) {
	b.sending.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for number := uint64(0); ; number++ {
			select {
			case <-b.stop:
				return
			case <-ticker.C:
			}
			if err := b.Round(number); err != nil {
				b.Mu.Lock()
				b.fault = err
				b.Mu.Unlock()
				return
			}
		}
	})
}

// GoesOn waits until every flow has come so many datagrams further.
func (n *Network) GoesOn(b *Bundle, count uint64) {
	n.T.Helper()
	from := map[FlowPorts]uint64{}
	b.Mu.Lock()
	for ports, f := range b.Flows {
		from[ports] = f.Next
	}
	b.Mu.Unlock()
	n.Fact(fmt.Sprintf("every flow from %s goes on", b.Name), func() error {
		b.Mu.Lock()
		defer b.Mu.Unlock()
		if want := len(b.Sources) * len(b.Sinks); len(b.Flows) != want {
			return errors.Join(fmt.Errorf("%d of %d flows have arrived", len(b.Flows), want), b.fault)
		}
		for ports, f := range b.Flows {
			if f.Next < from[ports]+count {
				return errors.Join(fmt.Errorf("flow %v is at %d, was at %d", ports, f.Next, from[ports]), b.fault)
			}
		}
		return nil
	})
}

// Gaps are the longest ones of the flows that lost something, sorted, and how many
// flows lost nothing.
func (b *Bundle) Gaps(among func(FlowPorts) bool) (gaps []time.Duration, whole int) {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	for ports, f := range b.Flows {
		switch {
		case !among(ports):
		case f.Lost > 0:
			gaps = append(gaps, f.Gap)
		default:
			whole++
		}
	}
	slices.Sort(gaps)
	return gaps, whole
}
