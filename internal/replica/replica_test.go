package replica

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
)

const (
	testLen  = 8
	patience = 20 * time.Second
)

// table is a store of numbers.
type table struct {
	mu      sync.Mutex
	has     map[uint64]bool
	stuck   chan struct{} // Put waits until it is closed, where it is not nil
	refuses error
}

func newTable(numbers ...uint64) *table {
	t := &table{has: map[uint64]bool{}}
	for _, n := range numbers {
		t.has[n] = true
	}
	return t
}

func (t *table) Snapshot(_ ID, do func([]byte)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n := range t.has {
		do(record(n))
	}
	return nil
}

func (t *table) Put(_ ID, records []byte) error {
	t.mu.Lock()
	stuck := t.stuck
	t.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	return t.each(records, func(n uint64) { t.has[n] = true })
}

func (t *table) Delete(_ ID, records []byte) error {
	return t.each(records, func(n uint64) { delete(t.has, n) })
}

func (t *table) each(records []byte, do func(uint64)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r := range slices.Chunk(records, testLen) {
		do(binary.BigEndian.Uint64(r))
	}
	return t.refuses
}

func (t *table) list() []uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.has))
}

func record(numbers ...uint64) (b []byte) {
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

func sequence(n uint64) []byte {
	var b []byte
	for i := range n {
		b = binary.BigEndian.AppendUint64(b, i)
	}
	return b
}

// gateway is one end under test: 127.0.0.N.
type gateway struct {
	*Replicator
	kept *table
	addr netip.Addr
}

func loopback(n byte) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, n}) }

func newGateway(t testing.TB, n byte, store *table) *gateway {
	t.Helper()
	r, err := New(Options{
		Format: Format{Len: testLen, Version: 1}, Store: store, Log: slog.New(slog.DiscardHandler), Enter: func() error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return &gateway{r, store, loopback(n)}
}

// freePort is one that nothing listens there on now.
func freePort(t testing.TB) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort().Port()
}

// to links g with others.
func (g *gateway) to(t testing.TB, port uint16, key string, others ...*gateway) {
	t.Helper()
	var links []Link
	for _, o := range others {
		links = append(links, Link{Local: g.addr, Remote: o.addr, Port: port, Key: []byte(key)})
	}
	if err := g.Set(links); err != nil {
		t.Fatal(err)
	}
}

func (g *gateway) state(o *gateway, port uint16) State { return g.States()[ID{o.addr, port}] }

func within(t testing.TB, what string, ok func() bool) {
	t.Helper()
	err := await.Within(t.Context(), patience, what, func() error {
		if !ok() {
			return errNotYet
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

var errNotYet = errors.New("it is not so")

// Each end gets what the other has, and then what is new, in order.
func TestSynchronises(t *testing.T) {
	for _, key := range []string{"", "secret"} {
		t.Run("key="+key, func(t *testing.T) {
			port := freePort(t)
			a, b, c := newGateway(t, 1, newTable(1, 2, 3)), newGateway(t, 2, newTable(3, 4)), newGateway(t, 3, newTable())
			a.to(t, port, key, b, c)
			b.to(t, port, key, a, c)
			c.to(t, port, key, a, b)
			all := []*gateway{a, b, c}
			for _, g := range all {
				for _, o := range all {
					if g != o {
						within(t, fmt.Sprintf("%s is synchronised with %s", g.addr, o.addr), func() bool { return g.state(o, port).Synced })
					}
				}
			}
			for _, g := range all {
				within(t, g.addr.String()+" has all", func() bool { return slices.Equal(g.kept.list(), []uint64{1, 2, 3, 4}) })
			}
			id := ID{b.addr, port}
			a.Put(id, record(7))
			a.Delete(id, record(7, 1))
			a.Put(id, record(8))
			within(t, "news", func() bool { return slices.Equal(b.kept.list(), []uint64{2, 3, 4, 8}) })
			if got := c.kept.list(); !slices.Equal(got, []uint64{1, 2, 3, 4}) {
				t.Errorf("who was not told has %v", got)
			}
			if s := a.state(b, port); s.Sent < 7 || s.Sent > 8 || s.Received < 2 || !s.Connected || s.Resyncs != 0 {
				t.Errorf("state %+v, want 3 or 4 records of the snapshot and 4 of the news sent", s)
			}
		})
	}
}

// More than a frame has.
func TestManyRecords(t *testing.T) {
	port, full := freePort(t), newTable()
	for n := range uint64(2*recordsMost + 7) {
		full.has[n] = true
	}
	a, b := newGateway(t, 1, full), newGateway(t, 2, newTable())
	a.to(t, port, "k", b)
	b.to(t, port, "k", a)
	within(t, "all", func() bool { return len(b.kept.list()) == 2*recordsMost+7 && b.state(a, port).Synced })
	a.Put(ID{b.addr, port}, sequence(5*recordsMost+1))
	within(t, "all news", func() bool { return len(b.kept.list()) == 5*recordsMost+1 })
}

// An end that comes back is told all again.
func TestReturns(t *testing.T) {
	port := freePort(t)
	a, b := newGateway(t, 1, newTable(1)), newGateway(t, 2, newTable(2))
	a.to(t, port, "k", b)
	b.to(t, port, "k", a)
	within(t, "synchronised", func() bool { return a.state(b, port).Synced && b.state(a, port).Synced })
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	within(t, "lost", func() bool { s := a.state(b, port); return !s.Connected && s.Why != "" })
	a.Put(ID{b.addr, port}, record(9)) // nobody hears
	a.kept.mu.Lock()
	a.kept.has[9] = true
	a.kept.mu.Unlock()
	again := newGateway(t, 2, newTable(5))
	again.to(t, port, "k", a)
	within(t, "all", func() bool {
		return slices.Equal(again.kept.list(), []uint64{1, 2, 5, 9}) && slices.Equal(a.kept.list(), []uint64{1, 2, 5, 9})
	})
}

// What is not the same at both ends is said, and nothing is exchanged.
func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		name, keyA, keyB, want string
		change                 func(b *gateway)
	}{
		{"other key", "a", "b", "another key", func(*gateway) {}},
		{"one key", "a", "", "only one of both has a key", func(*gateway) {}},
		{"other records", "a", "a", "records are of version 2", func(b *gateway) { b.Format.Version = 2 }},
		{"other length", "a", "a", "with 9 bytes", func(b *gateway) { b.Format.Len = 9 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			port := freePort(t)
			a, b := newGateway(t, 1, newTable(1)), newGateway(t, 2, newTable(2))
			c.change(b)
			a.to(t, port, c.keyA, b)
			b.to(t, port, c.keyB, a)
			within(t, c.want, func() bool { return strings.Contains(a.state(b, port).Why, c.want) })
			if s := a.state(b, port); s.Connected || s.Synced || s.Received > 0 || len(a.kept.list()) != 1 || len(b.kept.list()) != 1 {
				t.Errorf("state %+v, sessions %v and %v", s, a.kept.list(), b.kept.list())
			}
		})
	}
}

// A record that the store refuses ends the connection and says why.
func TestStoreRefuses(t *testing.T) {
	port := freePort(t)
	a, b := newGateway(t, 1, newTable(1)), newGateway(t, 2, newTable())
	b.kept.refuses = errors.New("no such session")
	a.to(t, port, "", b)
	b.to(t, port, "", a)
	within(t, "said", func() bool { return strings.Contains(b.state(a, port).Why, "no such session") })
}

// Any bytes are either a frame within the limits or an error.
func FuzzReadFrame(f *testing.F) {
	var wire bytes.Buffer
	if err := writeFrame(&wire, kindPut, record(1)); err != nil {
		f.Fatal(err)
	}
	f.Add(wire.Bytes())
	f.Add(wire.Bytes()[:9])
	f.Add([]byte{byte(kindPut), 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		k, payload, err := readFrame(bytes.NewReader(b), nil)
		if err == nil && (len(payload) > k.limit() || len(payload)+headerLen > len(b)) {
			t.Errorf("%s with %d bytes out of %d", k, len(payload), len(b))
		}
	})
}

// Whatever the other end sends inside TLS, a gateway answers with an error or takes whole records; it does not crash.
func FuzzConversation(f *testing.F) {
	conversation := func(version byte) []byte {
		var b bytes.Buffer
		_ = writeFrame(&b, kindHello, []byte{0, testLen, 0, version})
		_ = writeFrame(&b, kindPut, record(1, 2))
		_ = writeFrame(&b, kindSynced, nil)
		_ = writeFrame(&b, kindDelete, record(2))
		return b.Bytes()
	}
	f.Add(conversation(1))
	f.Add(conversation(2))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		near, far := net.Pipe()
		go func() {
			_, _ = far.Write(b)
			far.Close()
		}()
		go func() { _, _ = io.Copy(io.Discard, far) }()
		defer near.Close()
		format := Format{testLen, 1}
		r := &Replicator{Options: Options{Format: format, Store: newTable(), Log: slog.New(slog.DiscardHandler)}, changed: make(chan struct{}, 1)}
		l := &link{Link: Link{Local: loopback(2), Remote: loopback(1)}, ctx: t.Context()}
		err := greet(near, format)
		if err == nil {
			err = r.serve(l, near)
		}
		if err == nil {
			t.Error("a connection ended without a reason")
		}
	})
}

// BenchmarkRecords is what one direction carries, with a key.
func BenchmarkRecords(b *testing.B) {
	port := freePort(b)
	from, to := newGateway(b, 1, newTable()), newGateway(b, 2, newTable())
	from.to(b, port, "k", to)
	to.to(b, port, "k", from)
	within(b, "synchronised", func() bool { return to.state(from, port).Synced })
	batch := sequence(recordsMost)
	id, sent := ID{to.addr, port}, 0
	for b.Loop() {
		for int(to.state(from, port).Received)+100*recordsMost < sent {
			runtime.Gosched()
		}
		from.Put(id, batch)
		sent += recordsMost
	}
	within(b, "all", func() bool { return int(to.state(from, port).Received) == sent })
	b.ReportMetric(float64(sent)/b.Elapsed().Seconds(), "records/s")
}
