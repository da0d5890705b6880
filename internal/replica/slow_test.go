package replica

import (
	"slices"
	"testing"
)

// An end that does not take what it is sent costs a bounded amount of memory, and is told
// all again when it does.
func TestSlowEnd(t *testing.T) {
	port := freePort(t)
	stuck := newTable()
	stuck.stuck = make(chan struct{})
	a, b := newGateway(t, 1, newTable()), newGateway(t, 2, stuck)
	a.most = 5000
	a.to(t, port, "k", b)
	b.to(t, port, "k", a)
	within(t, "connected", func() bool { return a.state(b, port).Connected })
	n := uint64(0)
	within(t, "cut", func() bool {
		for range 10_000 { // until the kernel's buffers are full too
			a.kept.mu.Lock()
			a.kept.has[n] = true
			a.kept.mu.Unlock()
			a.Put(ID{b.addr, port}, record(n))
			n++
		}
		return a.state(b, port).Resyncs > 0
	})
	stuck.mu.Lock()
	close(stuck.stuck)
	stuck.stuck = nil
	stuck.mu.Unlock()
	within(t, "all", func() bool { return len(b.kept.list()) == int(n) })
}

// An end that is slow to take its snapshot keeps no other one waiting for its own.
func TestSlowSnapshot(t *testing.T) {
	port := freePort(t)
	stuck := newTable()
	stuck.stuck = make(chan struct{})
	full := newTable()
	for n := range uint64(1 << 20) { // more than the kernel's buffers take
		full.has[n] = true
	}
	a, b, c := newGateway(t, 1, full), newGateway(t, 2, stuck), newGateway(t, 3, newTable())
	t.Cleanup(func() { close(stuck.stuck) })
	a.to(t, port, "k", b)
	b.to(t, port, "k", a)
	within(t, "the slow end has begun", func() bool { return b.state(a, port).Received > 0 })
	began := a.state(b, port)
	c.to(t, port, "k", a)
	a.to(t, port, "k", b, c)
	within(t, "the other one is synchronised", func() bool { return c.state(a, port).Synced })
	if now := a.state(b, port); !now.Connected || now.Since != began.Since {
		t.Errorf("the other end waited until the slow one was cut off: %+v", now)
	}
}

func TestResync(t *testing.T) {
	port := freePort(t)
	a, b := newGateway(t, 1, newTable(1)), newGateway(t, 2, newTable())
	a.to(t, port, "", b)
	b.to(t, port, "", a)
	within(t, "synchronised", func() bool { return b.state(a, port).Synced })
	a.kept.mu.Lock()
	a.kept.has[2] = true
	a.kept.mu.Unlock()
	a.Resync("news were lost")
	within(t, "all", func() bool { return slices.Equal(b.kept.list(), []uint64{1, 2}) && a.state(b, port).Resyncs == 1 })
}
