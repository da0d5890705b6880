package prove

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/packetsocket"
)

const (
	// tries is how often a probe is sent that is not answered.
	tries = 3
	// firstWay is where the UDP source ports of tunnels begin (RFC 6335 section 6).
	firstWay, lastWays = 0xc000, 0x3fff
	// sizeWays is how many ways of a path are tried with the full size.
	sizeWays = 4
	// Of ICMP errors Linux sends one destination six at once, then one a second: discover has
	// two of them, and these are the ways that are tried then.
	rationedWays, rationedSizeWays = 3, 1
)

// sizes of outer IP packets at which paths are known to end, ascending: those of tunnels in
// tunnels, PPPoE, Ethernet and jumbo frames.
var sizes = []int{1280, 1350, 1380, 1400, 1420, 1440, 1450, 1460, 1472, 1480, 1492, 1500, 1600, 2000, 4000, 8000, 8900, 8950, 9000}

// Prober sends probes and reads what comes back. Its methods are not safe for concurrent use.
type Prober struct {
	mac     overlay.MAC
	sockets []*packetsocket.Socket
	readers sync.WaitGroup
	tunnels []Tunnel
	edges   map[netip.Addr][]netip.Addr // first addresses of the edges, by any of theirs
	sent    int
	wait    time.Duration // for a volley's answers

	mu   sync.Mutex
	open outstanding
}

// Options are of a Prober.
type Options struct {
	MAC        overlay.MAC // of the probes: MAC of this edge's first TEP
	Interfaces []int       // of the underlay, at which answers may come, at least one
	// Timeout is how long an answer may take.
	Timeout time.Duration
}

// Open opens the sockets in the network namespace of the calling thread, for these tunnels.
func Open(o Options, tunnels []Tunnel) (*Prober, error) {
	headers := make(map[uint16]overlay.Encapsulation)
	p := &Prober{mac: o.MAC, tunnels: tunnels, wait: o.Timeout / tries, edges: make(map[netip.Addr][]netip.Addr)}
	for _, t := range tunnels {
		headers[t.Header.UDPPort] = t.Header.Encapsulation
		for _, addr := range t.Remotes {
			if !slices.Contains(p.edges[addr], t.Remotes[0]) {
				p.edges[addr] = append(p.edges[addr], t.Remotes[0])
			}
		}
	}
	filter := filterFor(o.MAC, headers)
	for _, ifindex := range o.Interfaces {
		s, err := packetsocket.Open(ifindex, filter)
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		p.sockets = append(p.sockets, s)
		p.readers.Go(func() { p.listen(s, headers) })
	}
	if len(p.sockets) == 0 {
		return nil, errors.New("there is no underlay interface now")
	}
	return p, nil
}

// Close ends it.
func (p *Prober) Close() error {
	var errs []error
	for _, s := range p.sockets {
		errs = append(errs, s.Close())
	}
	p.readers.Wait()
	return errors.Join(errs...)
}

// Sent is how many packets were sent by now.
func (p *Prober) Sent() int { return p.sent }

func (p *Prober) listen(s *packetsocket.Socket, headers map[uint16]overlay.Encapsulation) {
	b := make([]byte, 1<<16)
	for {
		frame, err := s.Receive(b)
		if err != nil { // closed, or the interface went
			return
		}
		if r := read(frame, headers); r.kind != noReply {
			p.take(r, time.Now())
		}
	}
}

func newToken() (k token) {
	var b [4]byte
	_, _ = crand.Read(b[:]) // never fails
	_, _ = crand.Read(k.nonce[:])
	k.id = binary.BigEndian.Uint32(b[:])
	return k
}

// Prove probes all tunnels and returns what was found, as far as it came when ctx ends: with
// an error then.
func (p *Prober) Prove(ctx context.Context) ([]Finding, error) {
	findings := make([]Finding, len(p.tunnels))
	ways := make([][][]uint16, len(p.tunnels)) // by tunnel and path
	for i, t := range p.tunnels {
		findings[i] = Finding{Paths: make([]PathFinding, len(t.Paths)), Targets: make([]TargetFinding, len(t.Targets))}
		for range t.Paths {
			ways[i] = append(ways[i], someWays())
		}
	}
	r := run{p, findings, ways, make([][][]uint16, len(p.tunnels))}
	for _, step := range []func(context.Context) error{r.discover, r.tryWays, r.trySizes, r.bisect, r.ping} {
		if err := step(ctx); err != nil {
			return findings, err
		}
	}
	return findings, nil
}

// someWays are different source ports. An odd step leads to other residues of 2, 4 and 8 each
// time, and to other low bytes, which are NVGRE's.
func someWays() []uint16 {
	first, step := rand.N(lastWays+1), 2*rand.N(lastWays/Ways/2)+1
	ways := make([]uint16, 0, Ways)
	for i := range Ways {
		ways = append(ways, firstWay|uint16(first+i*step)&lastWays)
	}
	slices.Sort(ways)
	return ways
}

// run is what happens to all tunnels, step by step.
type run struct {
	p        *Prober
	findings []Finding
	ways     [][][]uint16
	good     [][][]uint16 // ways that were answered
}

// discover asks each target until it answers, by other ways each time.
func (r *run) discover(ctx context.Context) error {
	for try := range tries {
		var shots []*shot
		for i, t := range r.p.tunnels {
			for target := range t.Targets {
				if r.findings[i].Targets[target].Answered > 0 {
					continue
				}
				for path, ways := range r.ways[i] {
					first, last := try*len(ways)/tries, (try+1)*len(ways)/tries
					for _, way := range ways[first:last] {
						shots = append(shots, &shot{tunnel: i, path: path, target: target, way: way, k: newToken()})
					}
				}
			}
		}
		if err := r.p.volley(ctx, shots, 1, r.p.wait); err != nil {
			return err
		}
		r.count(shots)
	}
	return nil
}

// count takes over what targets did.
func (r *run) count(shots []*shot) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	for _, s := range shots {
		f := &r.findings[s.tunnel]
		if s.refused.kind == refused {
			f.Paths[s.path].Refusal = s.refused.refusal()
		}
		if s.failed != nil {
			f.Paths[s.path].Refusal = "the interface does not take it: " + s.failed.Error()
		}
		if s.target == noTarget || s.size != 0 {
			continue
		}
		t := &f.Targets[s.target]
		t.Asked += s.tries
		if s.rtt == 0 {
			continue
		}
		t.Answered++
		if t.Answer == "" {
			t.Answer, t.Refused = s.answer.words(), s.answer.kind == unreached
			t.Rationed = t.Refused || s.answer.kind == exceeded
		}
		if s.tries == 1 {
			f.RTTs = append(f.RTTs, s.rtt)
		}
	}
}

// choose is the target that answered which tells most: one whose answer names the probe, and
// of the edge itself rather than of a host.
func (r *run) choose(tunnel int) (target int, ok bool) {
	best := -1
	for i, t := range r.p.tunnels[tunnel].Targets {
		if r.findings[tunnel].Targets[i].Answered == 0 {
			continue
		}
		rank := 0
		if t.Ask == Echo && !r.findings[tunnel].Targets[i].Rationed {
			rank++
		}
		if t.Near {
			rank += 2
		}
		if rank > best {
			best, target = rank, i
		}
	}
	return target, best >= 0
}

// steps has shots that only their host tells apart be sent one after the other, those of all
// tunnels at once.
func (r *run) steps(ctx context.Context, all []*shot, tries int) error {
	for len(all) > 0 {
		var now, later []*shot
		busy := make(map[host]bool)
		for _, s := range all {
			t := &r.p.tunnels[s.tunnel]
			if target := t.Targets[s.target]; target.Ask == Resolve {
				at := host{t.VNI, t.Remotes[0], target.Addr}
				if busy[at] {
					later = append(later, s)
					continue
				}
				busy[at] = true
			}
			now = append(now, s)
		}
		if err := r.p.volley(ctx, now, tries, r.p.wait/2); err != nil {
			return err
		}
		all = later
	}
	return nil
}

// tryWays tries each way of each path of the tunnels where anything came back.
func (r *run) tryWays(ctx context.Context) error {
	var shots []*shot
	for i := range r.p.tunnels {
		target, alive := r.choose(i)
		r.good[i] = make([][]uint16, len(r.ways[i]))
		for path, ways := range r.ways[i] {
			if alive && r.findings[i].Targets[target].Rationed {
				ways = ways[:min(len(ways), rationedWays)]
			}
			r.findings[i].Paths[path].Ways = len(ways)
			for _, way := range ways {
				if alive {
					shots = append(shots, &shot{tunnel: i, path: path, target: target, way: way, k: newToken()})
				}
			}
		}
	}
	if err := r.steps(ctx, shots, tries); err != nil {
		return err
	}
	r.count(shots)
	for _, s := range shots {
		path := &r.findings[s.tunnel].Paths[s.path]
		if s.rtt == 0 {
			path.Dead = append(path.Dead, s.way)
			continue
		}
		path.Answered++
		r.good[s.tunnel][s.path] = append(r.good[s.tunnel][s.path], s.way)
	}
	return nil
}

// trySizes sends what is as large as may be.
func (r *run) trySizes(ctx context.Context) error {
	var shots []*shot
	for i, t := range r.p.tunnels {
		target, alive := r.choose(i)
		if !alive || t.Size <= least {
			continue
		}
		most := sizeWays
		if r.findings[i].Targets[target].Rationed {
			most = rationedSizeWays
		}
		for path, ways := range r.good[i] {
			for _, way := range ways[:min(len(ways), most)] {
				shots = append(shots, &shot{tunnel: i, path: path, target: target, way: way, size: t.Size, k: newToken()})
			}
		}
	}
	if err := r.steps(ctx, shots, tries); err != nil {
		return err
	}
	r.count(shots)
	for _, s := range shots {
		f := &r.findings[s.tunnel]
		if !f.SizeTried {
			f.SizeTried, f.Fits = true, true
		}
		f.Fits = f.Fits && s.rtt != 0
		if s.rtt == 0 { // the way that bisect takes
			r.good[s.tunnel] = append(make([][]uint16, s.path), []uint16{s.way})
		}
	}
	return nil
}

// bisect finds out what comes through where the full size does not.
func (r *run) bisect(ctx context.Context) error {
	low, high := make([]int, len(r.p.tunnels)), make([]int, len(r.p.tunnels)) // of sizes: passed below low
	for i, t := range r.p.tunnels {
		if f := r.findings[i]; f.SizeTried && !f.Fits {
			outer := t.Size + t.Header.Overhead(t.Remotes[0])
			high[i], _ = slices.BinarySearch(sizes, outer)
		}
	}
	for range sizes {
		var shots []*shot
		for i, t := range r.p.tunnels {
			if low[i] == high[i] {
				continue
			}
			target, _ := r.choose(i)
			path := len(r.good[i]) - 1
			size := sizes[(low[i]+high[i])/2] - t.Header.Overhead(t.Remotes[0])
			shots = append(shots, &shot{tunnel: i, path: path, target: target, way: r.good[i][path][0], size: size, k: newToken()})
		}
		if len(shots) == 0 {
			return nil
		}
		if err := r.steps(ctx, shots, tries-1); err != nil {
			return err
		}
		for _, s := range shots {
			middle := (low[s.tunnel] + high[s.tunnel]) / 2
			if s.rtt == 0 {
				high[s.tunnel] = middle
				continue
			}
			low[s.tunnel], r.findings[s.tunnel].Passed = middle+1, s.size
		}
	}
	return nil
}

// ping asks the remote's own address where tunnels fail, with and without the full size.
func (r *run) ping(ctx context.Context) error {
	var shots []*shot
	for i, t := range r.p.tunnels {
		f := &r.findings[i]
		for path, found := range f.Paths {
			if found.Ways > 0 && found.Answered == found.Ways && (!f.SizeTried || f.Fits) {
				continue
			}
			full := t.Size + t.Header.Overhead(t.Remotes[0])
			for _, size := range []int{least, full} {
				shots = append(shots, &shot{tunnel: i, path: path, target: noTarget, size: size, k: newToken()})
			}
		}
	}
	if err := r.p.volley(ctx, shots, tries, r.p.wait/2); err != nil {
		return err
	}
	for _, s := range shots {
		outcome := Silent
		if s.rtt != 0 {
			outcome = Answers
		}
		found := &r.findings[s.tunnel].Paths[s.path]
		if s.size == least {
			found.Ping = outcome
		} else {
			found.LargePing = outcome
		}
	}
	return nil
}
