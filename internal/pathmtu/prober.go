// Package pathmtu finds how large a packet gets from this host to a tunnel
// endpoint, with ICMP echo requests that any IP host answers. It searches as
// datagram packetization layers do (DPLPMTUD, RFC 8899 section 5).
//
// Its one invariant: a path MTU is confirmed only by an echo reply with the
// random bytes of a request of that size. What routers say only guides the
// search. Do not use it to decide whether a remote is alive: many hosts and
// firewalls answer no echo requests.
package pathmtu

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxTries is MAX_PROBES of RFC 8899 section 5.1.2.
	maxTries = 3
	// tryTimeout is its PROBE_TIMER, the least that section 5.1.1 allows: no
	// data waits for it, and a search may take it fifty times.
	tryTimeout = time.Second
	// receiveAgainAfter is the pause after a socket error, so that one that
	// stays is no load.
	receiveAgainAfter = 100 * time.Millisecond
)

// State says what is known of a path.
type State string

// The states of a path.
const (
	Probing    State = "probing"    // nothing yet
	Confirmed  State = "confirmed"  // the remote answered
	Unanswered State = "unanswered" // the remote, or a firewall, ignores echo requests
)

// Result is what probing a path found.
type Result struct {
	State State
	// MTU is the largest IP packet in bytes that was answered, at most the
	// ceiling; 0 when none was. A Monitor's keeps what was last confirmed while
	// its remote is unanswered.
	MTU int
	// When is the end of the last search; zero while probing.
	When time.Time
}

// Prober sends probes from one TEP in one network namespace. Its methods may be
// called from many goroutines.
type Prober struct {
	source  netip.Addr
	family  family
	sock    *socket
	timeout time.Duration // of one try

	mu     sync.Mutex
	probes map[uint16]*probe // that wait for an answer, by their id

	closed chan struct{}
	owned  sync.WaitGroup
}

// Open makes a Prober with source as its address, in the network namespace of
// the calling thread. It needs CAP_NET_RAW. The caller closes it after the last
// Probe has returned.
func Open(source netip.Addr) (*Prober, error) { return OpenBy(source, 0) }

// OpenBy is Open for probes that leave by one interface, by the first next hop of a route that is there; 0
// leaves it to the routing table. Answers may come by any.
func OpenBy(source netip.Addr, ifindex int) (*Prober, error) {
	source = source.Unmap()
	if err := checkAddr(source); err != nil {
		return nil, fmt.Errorf("probe from %w", err)
	}
	sock, err := openSocket(source, ifindex)
	if err != nil {
		return nil, err
	}
	p := &Prober{
		source:  source,
		family:  familyOf(source),
		sock:    sock,
		timeout: tryTimeout,
		probes:  map[uint16]*probe{},
		closed:  make(chan struct{}),
	}
	p.owned.Go(p.receive)
	return p, nil
}

func checkAddr(a netip.Addr) error {
	if !a.IsValid() || a.IsUnspecified() || a.IsMulticast() || a.Zone() != "" {
		return fmt.Errorf("%s: choose a unicast address without a zone", a)
	}
	return nil
}

// Close ends the receiving.
func (p *Prober) Close() error {
	close(p.closed)
	err := p.sock.close()
	p.owned.Wait()
	return err
}

// Probe finds the MTU of the path to remote, trying no size above ceiling (bytes
// of an IP packet; the underlay interface's MTU). A hint above 0 is where it looks
// early, and may be anybody's word. It returns Confirmed, or
// Unanswered and no error when remote answers nothing. An error is ctx's, or why
// this host could not send. It sends at most 98 packets in as many seconds.
func (p *Prober) Probe(ctx context.Context, remote netip.Addr, ceiling, hint int) (Result, error) {
	s, err := p.newSearch(remote.Unmap(), ceiling)
	if err != nil {
		return Result{}, err
	}
	s.hint = hint
	if err := s.run(ctx); err != nil {
		return Result{}, fmt.Errorf("probe %s from %s: %w", remote, p.source, err)
	}
	return s.result(), nil
}

// Confirm asks whether packets of size, which were answered once, still are. Where they are not, it finds
// what is, as Probe does.
func (p *Prober) Confirm(ctx context.Context, remote netip.Addr, size int) (Result, error) {
	s, err := p.newSearch(remote.Unmap(), size)
	if err != nil {
		return Result{}, err
	}
	if err := s.confirm(ctx); err != nil {
		return Result{}, fmt.Errorf("probe %s from %s: %w", remote, p.source, err)
	}
	return s.result(), nil
}

func (p *Prober) newSearch(remote netip.Addr, ceiling int) (*search, error) {
	if err := checkAddr(remote); err != nil {
		return nil, fmt.Errorf("probe %w", err)
	}
	if remote.Is4() != p.source.Is4() {
		return nil, fmt.Errorf("probe %s from %s: they are of different families", remote, p.source)
	}
	if ceiling < p.family.smallest {
		return nil, fmt.Errorf("probe %s: a link of %d bytes is below the %d that its family needs", remote, ceiling, p.family.smallest)
	}
	return newSearch(p.family, min(ceiling, maxPacket), func(ctx context.Context, size int) (verdict, int, error) {
		return p.ask(ctx, remote, size)
	}), nil
}

// ask is an asker for remote.
func (p *Prober) ask(ctx context.Context, remote netip.Addr, size int) (v verdict, packets int, err error) {
	pr, err := p.begin(remote, size)
	if err != nil {
		return verdict{}, 0, err
	}
	defer p.end(pr)
	for packets < maxTries {
		if err := context.Cause(ctx); err != nil {
			return verdict{}, packets, err
		}
		p.mu.Lock() // an answer may come before send returns
		message := pr.next()
		p.mu.Unlock()
		packets++
		err := p.sock.send(remote, message)
		if errors.Is(err, unix.EMSGSIZE) { // this host's own interface is smaller
			return verdict{}, packets, nil
		}
		if err != nil {
			return verdict{}, packets, fmt.Errorf("send %d bytes: %w", size, err)
		}
		select {
		case v := <-pr.verdicts:
			return v, packets, nil
		case <-ctx.Done():
		case <-time.After(p.timeout):
		}
	}
	return verdict{}, packets, context.Cause(ctx)
}

// begin registers a probe with an unguessable id, sequence and body.
func (p *Prober) begin(remote netip.Addr, size int) (*probe, error) {
	var random [4]byte
	body := make([]byte, size-p.family.ipHeader-icmpHeader)
	rand.Read(body)
	p.mu.Lock()
	defer p.mu.Unlock()
	for range 64 { // some ids are taken, by as many searches as run at once
		rand.Read(random[:])
		id := binary.BigEndian.Uint16(random[:])
		if p.probes[id] != nil {
			continue
		}
		pr := &probe{
			family:   p.family,
			remote:   remote,
			id:       id,
			firstSeq: binary.BigEndian.Uint16(random[2:]),
			body:     body,
			verdicts: make(chan verdict, 1),
		}
		p.probes[id] = pr
		return pr, nil
	}
	return nil, fmt.Errorf("%d probes are under way: no id is free", len(p.probes))
}

func (p *Prober) end(pr *probe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.probes, pr.id)
}

// receive hands answers to their probes until the Prober is closed.
func (p *Prober) receive() {
	buffer := make([]byte, maxPacket)
	for {
		message, from, err := p.sock.receive(buffer)
		if err != nil {
			select {
			case <-p.closed:
				return
			case <-time.After(receiveAgainAfter):
			}
			continue
		}
		if a, ok := p.family.parse(p.source, from, message); ok {
			p.deliver(a)
		}
	}
}

func (p *Prober) deliver(a answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pr := p.probes[a.id]
	if pr == nil {
		return
	}
	v, ok := pr.classify(a)
	if !ok {
		return
	}
	select {
	case pr.verdicts <- v:
	default: // the first counts
	}
}
