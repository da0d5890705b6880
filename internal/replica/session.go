package replica

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/selvage/selvage/internal/event"
)

const (
	// tickEvery is between frames at least, and silence how long an end waits for one.
	beatEvery = time.Second
	silence   = 5 * time.Second
	// queueMost bounds the records that wait for a slow end.
	queueMost = 262144
)

// session is a connection whose ends know each other. What is queued from its beginning on
// is sent behind the snapshot, so nothing is overtaken.
type session struct {
	r    *Replicator
	link *link
	conn net.Conn

	sending        sync.Mutex // one frame
	synced         atomic.Bool
	resync         atomic.Bool
	sent, received atomic.Uint64

	mu      sync.Mutex
	waiting []batch
	records int // that wait
	why     error
	tell    bool // the link's parts
	more    chan struct{}
}

// batch is records that become one frame.
type batch struct {
	kind    kind
	records []byte
}

func newSession(r *Replicator, l *link, c net.Conn) *session {
	return &session{r: r, link: l, conn: c, tell: true, more: make(chan struct{}, 1)}
}

// cut ends the session for a reason.
func (s *session) cut(why error) {
	s.mu.Lock()
	if s.why == nil {
		s.why = why
		s.waiting, s.records = nil, 0
	}
	s.mu.Unlock()
	s.resync.Store(true)
	s.conn.Close()
}

// queue copies records to be sent. An end that lets too many wait is cut off.
func (s *session) queue(k kind, records []byte) {
	size := s.r.Format.Len
	s.mu.Lock()
	if s.why != nil {
		s.mu.Unlock()
		return
	}
	s.records += len(records) / size
	full := s.records > s.r.most
	for len(records) > 0 && !full {
		last := len(s.waiting) - 1
		if last < 0 || s.waiting[last].kind != k || len(s.waiting[last].records) == recordsMost*size {
			s.waiting = append(s.waiting, batch{kind: k})
			last++
		}
		at := &s.waiting[last]
		n := min(len(records), recordsMost*size-len(at.records))
		at.records = append(at.records, records[:n]...)
		records = records[n:]
	}
	s.mu.Unlock()
	if full {
		s.cut(fmt.Errorf("it is too slow: %d sessions wait for it, and all of them are sent again", s.r.most))
		return
	}
	s.wake()
}

// wake has write look for what there is to send.
func (s *session) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// take is what waits.
func (s *session) take() (list []batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, s.waiting, s.records = s.waiting, nil, 0
	return list
}

// run reads and writes until the connection ends, and says why it did.
func (s *session) run() error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var writing error
	var owned sync.WaitGroup
	owned.Go(func() {
		writing = s.write(ctx)
		s.conn.Close()
	})
	owned.Go(func() { s.beat(ctx) })
	reading := s.read()
	s.conn.Close()
	stop()
	owned.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.why != nil:
		return s.why
	case !errors.Is(reading, net.ErrClosed):
		return reading
	}
	return writing
}

// write sends the snapshot and what is queued.
func (s *session) write(ctx context.Context) error {
	if err := errors.Join(s.writeParts(), s.writeSnapshot()); err != nil {
		return err
	}
	for {
		if err := s.writeParts(); err != nil {
			return err
		}
		for _, b := range s.take() {
			if err := s.writeRecords(b); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.more:
		}
	}
}

// beat lets the other end hear something, also while the snapshot is made.
func (s *session) beat(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s.send(kindBeat, nil) != nil {
			return // write and read find out too
		}
	}
}

// writeSnapshot takes all at once, so that nobody waits for the network meanwhile. A slow end keeps
// the memory of its own snapshot, and no other end from its.
func (s *session) writeSnapshot() error {
	all, err := s.snapshot()
	if err != nil {
		return fmt.Errorf("read the sessions: %w", err)
	}
	for i := range all {
		if err := s.writeRecords(all[i]); err != nil {
			return err
		}
		all[i].records = nil // not needed while the others are sent
	}
	return s.send(kindSynced, nil)
}

// snapshot is all sessions, in frames.
func (s *session) snapshot() (all []batch, err error) {
	s.r.snapshots.Lock()
	defer s.r.snapshots.Unlock()
	most := recordsMost * s.r.Format.Len
	err = s.r.Store.Snapshot(s.link.ID(), func(records []byte) {
		for len(records) > 0 {
			if last := len(all) - 1; last < 0 || len(all[last].records) == most {
				all = append(all, batch{kind: kindPut, records: make([]byte, 0, most)})
			}
			at := &all[len(all)-1]
			n := min(len(records), most-len(at.records))
			at.records, records = append(at.records, records[:n]...), records[n:]
		}
	})
	return all, err
}

func (s *session) writeRecords(b batch) error {
	if err := s.send(b.kind, b.records); err != nil {
		return err
	}
	s.sent.Add(uint64(len(b.records) / s.r.Format.Len))
	return nil
}

func (s *session) send(k kind, payload []byte) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if err := s.conn.SetWriteDeadline(time.Now().Add(silence)); err != nil {
		return err
	}
	return writeFrame(s.conn, k, payload)
}

// read obeys what the other end sends.
func (s *session) read() error {
	from := bufio.NewReaderSize(s.conn, 64<<10)
	buffer := make([]byte, recordsMost*s.r.Format.Len)
	for {
		if err := s.conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
			return err
		}
		k, payload, err := readFrame(from, buffer)
		if errors.Is(err, io.EOF) {
			return errors.New("the other gateway closed the connection")
		}
		if err == nil {
			err = s.obey(k, payload)
		}
		if err != nil {
			return err
		}
	}
}

func (s *session) obey(k kind, payload []byte) error {
	switch k {
	case kindPut, kindDelete:
	case kindSynced:
		if !s.synced.Swap(true) {
			s.r.Log.Info("sessions of the other gateway are here", event.Is(event.SyncUp), "gateway", s.link.Remote, "port", s.link.Port)
			s.r.notify()
		}
		return nil
	case kindBeat:
		return nil
	case kindParts:
		return s.takeParts(payload)
	default:
		return fmt.Errorf("%s in the middle of a connection", k)
	}
	if len(payload)%s.r.Format.Len != 0 {
		return fmt.Errorf("%d bytes, which are no whole records of %d", len(payload), s.r.Format.Len)
	}
	s.received.Add(uint64(len(payload) / s.r.Format.Len))
	if k == kindDelete {
		return s.r.Store.Delete(s.link.ID(), payload)
	}
	return s.r.Store.Put(s.link.ID(), payload)
}
