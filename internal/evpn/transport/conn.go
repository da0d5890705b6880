package transport

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/selvage/selvage/internal/evpn/message"
)

// Conn is a connection as GoBGP gets it: what it reads has passed a filter.
type Conn struct {
	*net.TCPConn
	transport *Transport
	link      *link
	neighbour netip.Addr
	dialled   bool // by this end
	// opened: the neighbour's OPEN is read, which has its id; established: a KEEPALIVE after it.
	opened, established, refused atomic.Bool
	id                           atomic.Value
	decided                      chan struct{} // it is closed, or GoBGP reads it
	decide                       func()
	closing                      sync.Once

	mu     sync.Mutex // of those who read
	filter *message.Filter
	in     *bufio.Reader
	out    []byte // that is yet to be read
	buffer []byte // of out
	raw    bool   // after a header that is none: GoBGP ends the session
}

// mostMessage is the length of the longest message (RFC 8654).
const mostMessage = 1<<16 - 1

// newConn returns the Conn of a connection with a neighbour; t.mu is held.
func (t *Transport) newConn(l *link, conn *net.TCPConn, dialled bool) *Conn {
	c := &Conn{TCPConn: conn, transport: t, link: l, neighbour: l.Addr, dialled: dialled, in: bufio.NewReaderSize(conn, mostMessage), decided: make(chan struct{})}
	c.decide = sync.OnceFunc(func() { close(c.decided) })
	c.filter = message.New(message.Config{Families: l.Families, External: l.AS != t.options.AS, AS: t.options.AS, RouterID: t.options.RouterID,
		Discard: func(d message.Discard) { t.options.Discarded(c.neighbour, d) }})
	return c
}

// Read is GoBGP's.
func (c *Conn) Read(p []byte) (int, error) {
	c.decide()
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.out) == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.out)
	c.out = c.out[n:]
	return n, nil
}

// await reads until there is something for GoBGP to read.
func (c *Conn) await() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.out) == 0 {
		if err := c.next(); err != nil {
			return err
		}
	}
	return nil
}

// next reads a message.
func (c *Conn) next() (err error) {
	defer func() {
		if err != nil && c.refused.Load() {
			err = io.EOF // GoBGP takes the end of a deadline for its own doing
		}
	}()
	if c.refused.Load() {
		return io.EOF
	}
	head, err := c.in.Peek(message.HeaderLen)
	if err != nil {
		return err
	}
	if c.raw = c.raw || !c.filter.Readable(head); c.raw {
		c.out, err = c.in.Peek(c.in.Buffered())
		_, _ = c.in.Discard(len(c.out))
		return err
	}
	m, err := c.in.Peek(int(binary.BigEndian.Uint16(head[16:])))
	if err != nil {
		return err
	}
	kind := m[18]
	c.buffer, err = c.filter.Read(c.buffer[:0], m)
	_, _ = c.in.Discard(len(m))
	if n := (*message.Notification)(nil); errors.As(err, &n) {
		c.refuse(n)
		c.transport.options.Refused(c.neighbour, n)
		return io.EOF
	}
	c.out = c.buffer
	c.noted(kind)
	return nil
}

// noted follows the session as far as a collision depends on it.
func (c *Conn) noted(kind uint8) {
	switch {
	case kind == message.Open && !c.opened.Load():
		c.id.Store(c.filter.ID())
		c.opened.Store(true)
	case kind == message.Keepalive && c.opened.Load() && !c.established.Load():
		c.established.Store(true)
	default:
		return
	}
	c.transport.collide(c.link)
}

// Close ends the connection.
func (c *Conn) Close() error {
	if c.refused.Load() {
		return nil // it ends by itself
	}
	c.forget()
	return c.TCPConn.Close()
}

func (c *Conn) forget() {
	c.closing.Do(func() {
		c.decide()
		c.transport.closed(c.link, c)
	})
}

// SetReadDeadline is GoBGP's, which stops its readers by it.
func (c *Conn) SetReadDeadline(at time.Time) error {
	if c.refused.Load() {
		return nil
	}
	return c.TCPConn.SetReadDeadline(at)
}

// mostDrained is how much is read of a connection that ends.
const mostDrained = 1 << 20

// refuse ends the connection by a NOTIFICATION. What the neighbour sends meanwhile is read: else the kernel resets the connection,
// and the NOTIFICATION may be lost with it.
func (c *Conn) refuse(n *message.Notification) {
	if c.refused.Swap(true) {
		return
	}
	c.forget()
	_ = c.SetWriteDeadline(time.Now().Add(writeTime))
	_, _ = c.TCPConn.Write(n.Message())
	_ = c.CloseWrite()
	_ = c.TCPConn.SetReadDeadline(time.Now()) // who reads stops
	t := c.transport
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		_ = c.TCPConn.Close()
		return
	}
	t.work.Go(c.drain)
}

// drain ends the connection when the neighbour does, or soon.
func (c *Conn) drain() {
	end := time.AfterFunc(writeTime, func() { _ = c.TCPConn.Close() })
	defer end.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for err := os.ErrDeadlineExceeded; errors.Is(err, os.ErrDeadlineExceeded); {
		_ = c.TCPConn.SetReadDeadline(time.Time{})
		_, err = io.CopyN(io.Discard, c.TCPConn, mostDrained)
	}
	_ = c.TCPConn.Close()
}
