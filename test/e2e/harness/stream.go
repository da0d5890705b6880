package harness

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// StreamRate is what a stream sends, in datagrams a second.
const StreamRate = 2000

// Stream is numbered datagrams at a steady rate: what is lost has a number.
type Stream struct {
	name     string
	sender   *net.UDPConn
	receiver *net.UDPConn
	stop     chan struct{}
	sending  sync.WaitGroup
	reading  sync.WaitGroup
	Sent     atomic.Uint64
	Got      atomic.Uint64

	mu    sync.Mutex
	sent  []time.Time    // when each number was
	times map[uint64]int // how often each number came
	from  map[netip.Addr]int
	fault error // of sending
}

// StartStream sends until lost is called.
func (n *Network) StartStream(d Direction) *Stream {
	n.T.Helper()
	s := &Stream{name: d.Name, stop: make(chan struct{}), times: map[uint64]int{}, from: map[netip.Addr]int{}}
	var err error
	s.receiver, err = ListenUDP(d.To, d.Addr)
	n.Must(err)
	s.sender, err = DialUDP(d.From, s.receiver.LocalAddr())
	n.Must(err)
	s.reading.Go(s.read)
	s.sending.Go(s.send)
	var once sync.Once
	n.T.Cleanup(func() { once.Do(s.End) })
	return s
}

func (s *Stream) send() {
	// After a stall, what is due at once would overrun the kernel's queues: a veth has room for 256 packets until a kernel
	// thread has a core, which other tests want too.
	const tick, burstMost = 5 * time.Millisecond, 16
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	began := time.Now()
	for {
		select {
		case <-s.stop:
			return
		case now := <-ticker.C:
			due := uint64(now.Sub(began).Seconds() * StreamRate)
			for range burstMost {
				if s.Sent.Load() >= due {
					break
				}
				if err := s.sendOne(); err != nil {
					s.mu.Lock()
					s.fault = err
					s.mu.Unlock()
					return
				}
			}
		}
	}
}

func (s *Stream) sendOne() error {
	var b [100]byte
	binary.BigEndian.PutUint64(b[:], s.Sent.Load())
	s.mu.Lock()
	s.sent = append(s.sent, time.Now())
	s.mu.Unlock()
	_, err := s.sender.Write(b[:])
	if err == nil {
		s.Sent.Add(1)
	}
	return err
}

func (s *Stream) read() {
	var b [200]byte
	for {
		size, from, err := s.receiver.ReadFromUDPAddrPort(b[:])
		if err != nil {
			return // closed
		}
		if size == 100 {
			s.mu.Lock()
			s.times[binary.BigEndian.Uint64(b[:])]++
			s.from[from.Addr().Unmap()]++
			s.mu.Unlock()
			s.Got.Add(1)
		}
	}
}

// Received is nil when n datagrams have come.
func (s *Stream) Received(n uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.Got.Load(); got < n {
		return errors.Join(fmt.Errorf("%d of %d sent have come, want %d", got, s.Sent.Load(), n), s.fault)
	}
	return nil
}

// From are the addresses that datagrams came from, and how many did.
func (s *Stream) From() map[netip.Addr]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.from)
}

// More waits until another n datagrams have come.
func (n *Network) More(s *Stream, count uint64) {
	n.T.Helper()
	want := s.Got.Load() + count
	n.Fact(fmt.Sprintf("stream from %s goes on", s.name), func() error { return s.Received(want) })
}

// End stops the stream; what was sent has arrived or is lost.
func (s *Stream) End() {
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
	s.sending.Wait()
	s.sender.Close()
	s.receiver.Close()
	s.reading.Wait()
}

// Lost ends the stream, of which exactly so many datagrams may be missing and
// none come twice.
func (n *Network) Lost(s *Stream, most int) {
	n.T.Helper()
	close(s.stop)
	s.sending.Wait()
	sent := s.Sent.Load()
	// The last ones are on their way; a loss shows as a wait that fails.
	n.Fact(fmt.Sprintf("stream from %s lost at most %d of %d", s.name, most, sent), func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		var missing, twice []uint64
		for i := range sent {
			switch times := s.times[i]; {
			case times == 0:
				missing = append(missing, i)
			case times > 1:
				twice = append(twice, i)
			}
		}
		if len(missing) > most || len(twice) > 0 || s.fault != nil {
			return errors.Join(fmt.Errorf("missing %d: %v, twice %d: %v", len(missing), s.first(missing), len(twice), s.first(twice)), s.fault)
		}
		return nil
	})
	s.End()
}

// first are at most twenty numbers, with the times at which they were sent, as the edges' logs have them.
func (s *Stream) first(numbers []uint64) (list []string) {
	for _, n := range numbers[:min(20, len(numbers))] {
		list = append(list, fmt.Sprintf("%d of %s", n, s.sent[n].UTC().Format("15:04:05.000")))
	}
	return list
}

// GoOn waits for a quarter of a second of each stream.
func (n *Network) GoOn(streams []*Stream) {
	n.T.Helper()
	for _, s := range streams {
		n.More(s, StreamRate/4)
	}
}

// LostNothing ends streams; not one datagram of theirs is missing.
func (n *Network) LostNothing(streams []*Stream) {
	n.T.Helper()
	for _, s := range streams {
		n.Lost(s, 0)
	}
}
