package prove

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/overlay"
)

// Probes are sent in bursts of so many, this far apart: at most 2,000 a second.
const (
	burst    = 8
	burstGap = 4 * time.Millisecond
)

// shot is one probe, sent until it is answered.
type shot struct {
	tunnel, path, target int // target noTarget: a plain ping of the path
	way                  uint16
	size                 int // of the inner IP packet, of a ping of the packet
	k                    token
	sent                 time.Time
	tries                int
	answer               reply
	rtt                  time.Duration // 0 until answered
	refused              reply         // what somebody on the underlay said
	failed               error         // it could not be sent
}

const noTarget = -1

// host is whom an answer without random numbers is of.
type host struct {
	vni    overlay.VNI
	remote netip.Addr
	addr   netip.Addr
}

// flow is what an underlay's refusal quotes.
type flow struct {
	to  netip.Addr
	way uint16
}

// outstanding are the probes that wait for answers; by is guarded by the Prober's mu.
type outstanding struct {
	left    int
	done    chan struct{} // closed when left is 0
	byToken map[uint32]*shot
	byHost  map[host][]*shot
	byFlow  map[flow][]*shot
}

// volley sends the shots and waits for their answers, so often, so long each time.
func (p *Prober) volley(ctx context.Context, shots []*shot, tries int, wait time.Duration) error {
	for range tries {
		open := slices.DeleteFunc(slices.Clone(shots), func(s *shot) bool { return s.rtt != 0 || s.failed != nil })
		if len(open) == 0 {
			return nil
		}
		if err := p.fire(ctx, open, wait); err != nil {
			return err
		}
	}
	return nil
}

// fire sends each shot once.
func (p *Prober) fire(ctx context.Context, shots []*shot, wait time.Duration) error {
	done := p.expect(shots)
	for i, s := range shots {
		if i%burst == 0 && p.sent > 0 {
			if err := pause(ctx, burstGap); err != nil {
				return err
			}
		}
		if err := p.shoot(s); err != nil {
			return err
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
		return fmt.Errorf("probes were cut short: %w", ctx.Err())
	}
	p.mu.Lock()
	p.open = outstanding{}
	p.mu.Unlock()
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("probes were cut short: %w", ctx.Err())
	case <-time.After(d):
		return nil
	}
}

// expect has answers to the shots be taken.
func (p *Prober) expect(shots []*shot) <-chan struct{} {
	o := outstanding{
		left: len(shots), done: make(chan struct{}),
		byToken: make(map[uint32]*shot), byHost: make(map[host][]*shot), byFlow: make(map[flow][]*shot),
	}
	for _, s := range shots {
		t := &p.tunnels[s.tunnel]
		to := t.Paths[s.path].Remote
		o.byFlow[flow{to, s.way}] = append(o.byFlow[flow{to, s.way}], s)
		if s.target != noTarget && t.Targets[s.target].Ask == Resolve {
			at := host{t.VNI, t.Remotes[0], t.Targets[s.target].Addr}
			o.byHost[at] = append(o.byHost[at], s)
			continue
		}
		for o.byToken[s.k.id] != nil {
			s.k = newToken()
		}
		o.byToken[s.k.id] = s
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = o
	return o.done
}

// shoot sends one probe. An error ends all; what one interface does not take is the shot's.
func (p *Prober) shoot(s *shot) error {
	t := &p.tunnels[s.tunnel]
	path := t.Paths[s.path]
	var frame []byte
	if s.target == noTarget {
		frame = path.ping(s.size, s.k)
	} else {
		frame = t.Packet(path, s.way, t.Targets[s.target].frame(p.mac, s.size, s.k))
	}
	p.mu.Lock()
	s.sent = time.Now()
	s.tries++
	p.mu.Unlock()
	p.sent++
	err := p.sockets[0].Send(path.Ifindex, frame)
	if errors.Is(err, unix.EMSGSIZE) || errors.Is(err, unix.ENETDOWN) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) {
		p.mu.Lock()
		s.failed = err
		p.answered()
		p.mu.Unlock()
		return nil
	}
	if err != nil {
		return fmt.Errorf("send a probe by interface %d: %w", path.Ifindex, err)
	}
	return nil
}

// answered counts a shot that waits no more; mu is held.
func (p *Prober) answered() {
	p.open.left--
	if p.open.left == 0 {
		close(p.open.done)
	}
}

// take matches what was received with a shot.
func (p *Prober) take(r reply, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.kind == refused {
		for _, s := range p.open.byFlow[flow{r.quoted, r.way}] {
			if t := &p.tunnels[s.tunnel]; r.udp == t.Header.UDPPort {
				s.refused = r
			}
		}
		return
	}
	s := p.match(r)
	if s == nil || s.rtt != 0 || s.failed != nil || s.tries == 0 {
		return
	}
	s.answer, s.rtt = r, max(now.Sub(s.sent), 1)
	p.answered()
}

// match finds the shot that a reply answers, nil where there is none; mu is held.
func (p *Prober) match(r reply) *shot {
	if r.kind == resolved {
		return p.matchHost(r)
	}
	s := p.open.byToken[r.k.id]
	if s == nil || r.nonce && r.k.nonce != s.k.nonce || !r.nonce && r.kind == echoed {
		return nil
	}
	if p.isAbout(s, r) {
		return s
	}
	return nil
}

// isAbout reports whether a reply with the shot's token came from where it may, about whom it
// was sent to.
func (p *Prober) isAbout(s *shot, r reply) bool {
	t := &p.tunnels[s.tunnel]
	if s.target == noTarget {
		return r.kind == echoed && r.vni == 0 && r.outer == t.Paths[s.path].Remote
	}
	about := r.quoted
	if r.kind == echoed {
		about = r.from
	}
	target := t.Targets[s.target]
	if !target.Near && slices.Contains(t.Remotes, r.outer) && r.vni != 0 { // a host there may answer by another segment
		return about == target.Addr
	}
	return about == target.Addr && p.isFrom(t, r)
}

// matchHost finds the eldest shot for an address, of a host that said where it is.
func (p *Prober) matchHost(r reply) *shot {
	for _, edge := range p.edges[r.outer] {
		for _, s := range p.open.byHost[host{r.vni, edge, r.from}] {
			t := &p.tunnels[s.tunnel]
			mac := t.Targets[s.target].MAC
			known := mac.Multicast() || mac == r.mac || r.mac == overlay.MAC{}
			if s.rtt == 0 && s.tries > 0 && known && r.to == p.mac && p.isFrom(t, r) {
				return s
			}
		}
	}
	return nil
}

// isFrom reports whether a reply came out of t.
func (p *Prober) isFrom(t *Tunnel, r reply) bool {
	return r.vni == t.VNI && (r.udp == t.Header.UDPPort) && slices.Contains(t.Remotes, r.outer)
}
