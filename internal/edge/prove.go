package edge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/prove"
)

const (
	// defaultProve and mostProve bound how long an answer to a probe is waited for; all of a
	// proof takes several times that, and at most proveLasts.
	defaultProve, mostProve = 2 * time.Second, 5 * time.Second
	proveLasts              = 50 * time.Second
	// mostProofs is how many tunnels are proven at a time.
	mostProofs = 500
)

// prover makes one proof at a time, and remembers who answered by itself: who did is one of ours,
// and has to answer again.
type prover struct {
	*edge
	busy sync.Mutex
	ours map[netip.Addr]bool // by a remote's first address
}

// proveHandler serves proofs.
func (e *edge) proveHandler() http.HandlerFunc {
	p := &prover{edge: e, ours: make(map[netip.Addr]bool)}
	return func(w http.ResponseWriter, r *http.Request) {
		if !isChange(w, r) {
			return
		}
		q := api.ProveQuery{What: r.URL.Query().Get(api.ArgWhat), Timeout: defaultProve}
		if text := r.URL.Query().Get(api.ArgTimeout); text != "" {
			var err error
			if q.Timeout, err = time.ParseDuration(text); err != nil || q.Timeout < 10*time.Millisecond || q.Timeout > mostProve {
				reply(w, nil, api.BadRequest{Err: fmt.Errorf("%s: %q is not a duration from 10ms to %s", api.ArgTimeout, text, mostProve)})
				return
			}
		}
		if !p.busy.TryLock() {
			reply(w, nil, api.BadRequest{Err: errors.New("another proof is under way: try again in a few seconds")})
			return
		}
		defer p.busy.Unlock()
		ctx, cancel := context.WithTimeout(r.Context(), proveLasts)
		defer cancel()
		// The server's own limit is for answers that are there at once.
		err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(proveLasts + writeTimeout))
		if errors.Is(err, http.ErrNotSupported) {
			err = nil
		}
		var document api.ProveInfo
		if err == nil {
			document, err = p.prove(ctx, q)
		}
		reply(w, document, err)
	}
}

// prove sends probes and judges what comes back.
func (p *prover) prove(ctx context.Context, q api.ProveQuery) (api.ProveInfo, error) {
	begin, reported := time.Now(), p.hearsays()
	proofs, err := read(p.edge, "proof", func() ([]proof, error) { return p.plan(q.What, reported) })
	var wrong api.BadRequest
	if errors.As(err, &wrong) {
		return api.ProveInfo{}, wrong
	}
	if err != nil {
		return api.ProveInfo{}, err
	}
	info := api.ProveInfo{Proofs: []api.ProofInfo{}, Problems: []string{}}
	if len(proofs) > mostProofs {
		info.Problems = append(info.Problems, fmt.Sprintf("there are %d tunnels, and only the first %d were tried: name a segment or a prefix",
			len(proofs), mostProofs))
		proofs = proofs[:mostProofs]
	}
	if len(proofs) == 0 {
		info.Problems = append(info.Problems, "there is no remote yet, so there is nothing to prove")
		return info, nil
	}
	findings, sent, err := p.sendProbes(ctx, proofs, q.Timeout)
	if err != nil {
		return info, err
	}
	info.Sent = sent
	p.conclude(proofs, findings)
	for i := range proofs {
		info.Proofs = append(info.Proofs, proofs[i].info(findings[i]))
		info.Tally.Add(info.Proofs[i].State)
	}
	slices.SortStableFunc(info.Proofs, func(a, b api.ProofInfo) int {
		return cmp.Or(cmp.Compare(a.Router, b.Router), cmp.Compare(a.Segment, b.Segment), a.Remote.Compare(b.Remote))
	})
	info.Took = time.Since(begin).Seconds()
	return info, nil
}

// sendProbes sends the probes of all proofs. What cannot be reached gets none.
func (e *edge) sendProbes(ctx context.Context, proofs []proof, timeout time.Duration) (findings []prove.Finding, sent int, err error) {
	tunnels := make([]prove.Tunnel, 0, len(proofs))
	for _, p := range proofs {
		tunnels = append(tunnels, p.tunnel)
	}
	prober, err := inLoop(e, func() (*prove.Prober, error) { // for its network namespace
		o := prove.Options{MAC: prove.MAC(self(e.config)), Timeout: timeout}
		for _, name := range e.config.Underlay.Interfaces {
			if link, ok := e.hostState.Links[name]; ok && link.Up {
				o.Interfaces = append(o.Interfaces, link.Index)
			}
		}
		return prove.Open(o, tunnels)
	})
	if err != nil {
		return nil, 0, err
	}
	findings, err = prober.Prove(ctx)
	return findings, prober.Sent(), errors.Join(err, prober.Close())
}

// conclude has proofs of one remote learn from each other, and from former ones.
func (p *prover) conclude(proofs []proof, findings []prove.Finding) {
	for i, at := range proofs {
		for j, t := range at.targets {
			if t.kind == targetEdge && findings[i].Targets[j].Answered > 0 {
				p.ours[at.remote.Addrs[0]] = true
			}
		}
	}
	for i := range proofs {
		proofs[i].known.Ours = proofs[i].known.Ours || p.ours[proofs[i].remote.Addrs[0]]
	}
}

// proof is what is to be proven, and what is known of it.
type proof struct {
	segment  overlay.Segment
	remote   overlay.Remote
	router   string
	prefixes []netip.Prefix
	count    int
	tunnel   prove.Tunnel
	targets  []proofTarget // as the tunnel's
	names    []string      // interfaces of its paths
	known    prove.Known
	control  []string
}

// proofTarget is who is asked, in words.
type proofTarget struct{ kind, origin string }

// Kinds of targets.
const (
	targetHost    = "host"
	targetGateway = "gateway"
	targetEdge    = "edge"
	targetAddress = "address"
	targetRouter  = "router"
)

// info is the document of a proof.
func (p proof) info(f prove.Finding) api.ProofInfo {
	v := prove.Classify(p.tunnel, f, p.known)
	info := api.ProofInfo{
		Segment: p.segment.Name, VNI: p.segment.VNI, Remote: p.remote.Addrs[0], Name: p.remote.Name,
		Router: p.router, Prefixes: p.prefixes, Count: p.count,
		State: string(v.State), Cause: v.Cause, Fix: v.Fix, Control: append([]string{}, p.control...),
		Paths: []api.ProofPath{}, Targets: []api.ProofTarget{}, Size: p.tunnel.Size, SizeState: api.SizeNotTried, Passed: f.Passed,
	}
	for i, path := range f.Paths {
		info.Paths = append(info.Paths, api.ProofPath{
			Local: p.tunnel.Paths[i].Local, Remote: p.tunnel.Paths[i].Remote, Interface: p.names[i],
			Ways: path.Ways, Answered: path.Answered, Ping: path.Ping.String(),
		})
	}
	for i, t := range f.Targets {
		asked := p.tunnel.Targets[i]
		info.Targets = append(info.Targets, api.ProofTarget{
			Kind: p.targets[i].kind, Address: asked.Addr, MAC: asked.MAC, Origin: p.targets[i].origin,
			Asked: t.Asked, Answered: t.Answered, Answer: t.Answer,
		})
	}
	if len(f.RTTs) > 0 {
		slices.Sort(f.RTTs)
		info.RTT, info.RTTMin = f.RTTs[len(f.RTTs)/2].Seconds(), f.RTTs[0].Seconds()
	}
	if f.SizeTried {
		info.SizeState = api.SizePasses
		if !f.Fits {
			info.SizeState = api.SizeLost
		}
	}
	return info
}

// underlayPaths are the paths of the segment's tunnels to a remote, with their interfaces, or why
// there is none. mu is held.
func (e *edge) underlayPaths(p *proof, r pathReadings) {
	first := p.remote.Addrs[0]
	for _, path := range r.plan.pathPolicies.Paths {
		if path.Edge != first || !e.isPinnedTo(p.segment, path.Local) {
			continue
		}
		name := e.hostState.Routes[path.Pair].Interface
		if life := r.lives[path.Pair]; life.State != "" {
			p.control = append(p.control, fmt.Sprintf("BFD of %s: %s", path.Pair, life.State))
			p.known.Alive = p.known.Alive || life.State == bfd.Up || r.lives[path.Endpoints()].State == bfd.Up
		}
		if path.NextMAC == (overlay.MAC{}) {
			p.known.NoWay = fmt.Sprintf("next hop %s on %s does not answer", e.hostState.Routes[path.Pair].Addr, name)
			p.known.NoWayFix = "check that it is up and in the same network"
			continue
		}
		p.control = append(p.control, fmt.Sprintf("path MTU of %s: %d, %s", path.Pair, path.MTU, r.state(path.Endpoints())))
		p.tunnel.Paths = append(p.tunnel.Paths, prove.Path{Pair: path.Pair, Ifindex: path.Ifindex, SrcMAC: path.SrcMAC, NextMAC: path.NextMAC, MTU: path.MTU})
		p.names = append(p.names, name)
	}
	switch {
	case len(p.tunnel.Paths) > 0:
		p.known.NoWay, p.known.NoWayFix = "", ""
	case p.known.NoWay == "":
		p.known.NoWay = fmt.Sprintf("there is no route to %s by an underlay interface", first)
		p.known.NoWayFix = "add the route, or add the interface to the underlay: `selvage teps` says more"
	}
}

// isPinnedTo reports whether the segment may use a TEP.
func (e *edge) isPinnedTo(s overlay.Segment, local netip.Addr) bool {
	return len(s.TEPs) == 0 || slices.ContainsFunc(e.config.Underlay.Local(), func(t overlay.TEP) bool {
		return t.Addr == local && slices.Contains(s.TEPs, t.Name)
	})
}

// plainMTU is that of hosts where no port says another.
const plainMTU = 1500

// sizeOf is the largest inner IP packet that goes to the remote: what the paths carry and, of a
// segment with hosts, what its ports do. mu is held.
func (e *edge) sizeOf(p *proof) int {
	size := 0
	for _, path := range p.tunnel.Paths {
		carries := path.MTU - p.segment.Tunnel.Overhead(path.Remote)
		if size == 0 || carries < size {
			size = carries
		}
	}
	if p.router != "" {
		return size
	}
	most := 0
	for _, a := range plan.Attachments(e.config) {
		if a.Segment == p.segment.Name {
			most = max(most, e.hostState.Links[a.Interface].MTU)
		}
	}
	return min(size, cmp.Or(most, plainMTU))
}
