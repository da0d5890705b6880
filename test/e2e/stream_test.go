package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// streamRate is what a stream sends, in datagrams a second.
const streamRate = 2000

// stream is numbered datagrams at a steady rate: what is lost has a number.
type stream struct {
	name     string
	sender   *net.UDPConn
	receiver *net.UDPConn
	stop     chan struct{}
	sending  sync.WaitGroup
	reading  sync.WaitGroup
	sent     atomic.Uint64
	got      atomic.Uint64

	mu    sync.Mutex
	times map[uint64]int // how often each number came
	fault error          // of sending
}

// startStream sends until lost is called.
func (n *network) startStream(d direction) *stream {
	n.t.Helper()
	s := &stream{name: d.name, stop: make(chan struct{}), times: map[uint64]int{}}
	var err error
	s.receiver, err = listenUDP(d.to, d.addr)
	n.must(err)
	s.sender, err = dialUDP(d.from, s.receiver.LocalAddr())
	n.must(err)
	s.reading.Go(s.read)
	s.sending.Go(s.send)
	var once sync.Once
	n.t.Cleanup(func() { once.Do(s.end) })
	return s
}

func (s *stream) send() {
	const tick = 5 * time.Millisecond
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	began := time.Now()
	for {
		select {
		case <-s.stop:
			return
		case now := <-ticker.C:
			due := uint64(now.Sub(began).Seconds() * streamRate)
			for s.sent.Load() < due {
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

func (s *stream) sendOne() error {
	var b [100]byte
	binary.BigEndian.PutUint64(b[:], s.sent.Load())
	_, err := s.sender.Write(b[:])
	if err == nil {
		s.sent.Add(1)
	}
	return err
}

func (s *stream) read() {
	var b [200]byte
	for {
		size, err := s.receiver.Read(b[:])
		if err != nil {
			return // closed
		}
		if size == 100 {
			s.mu.Lock()
			s.times[binary.BigEndian.Uint64(b[:])]++
			s.mu.Unlock()
			s.got.Add(1)
		}
	}
}

// received is nil when n datagrams have come.
func (s *stream) received(n uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.got.Load(); got < n {
		return errors.Join(fmt.Errorf("%d of %d sent have come, want %d", got, s.sent.Load(), n), s.fault)
	}
	return nil
}

// more waits until another n datagrams have come.
func (n *network) more(s *stream, count uint64) {
	n.t.Helper()
	want := s.got.Load() + count
	n.fact(fmt.Sprintf("stream from %s goes on", s.name), func() error { return s.received(want) })
}

func (s *stream) end() {
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

// lost ends the stream, of which exactly so many datagrams may be missing and
// none come twice.
func (n *network) lost(s *stream, most int) {
	n.t.Helper()
	close(s.stop)
	s.sending.Wait()
	sent := s.sent.Load()
	// The last ones are on their way; a loss shows as a wait that fails.
	n.fact(fmt.Sprintf("stream from %s lost at most %d of %d", s.name, most, sent), func() error {
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
			return errors.Join(fmt.Errorf("missing %d: %v, twice %d: %v", len(missing), first(missing), len(twice), first(twice)), s.fault)
		}
		return nil
	})
	s.end()
}

// first are at most twenty numbers.
func first(numbers []uint64) []uint64 { return numbers[:min(20, len(numbers))] }
