// Package proof decides what probes through the overlay have to prove, has them sent, and puts into
// words what came back.
//
// Its one invariant: what to prove is decided from Facts alone, which are of one moment, so that a
// proof never mixes two states of an edge.
//
// Do not use it to send or read packets (package prove), nor to change anything.
package proof

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/prove"
)

// mostProofs is how many tunnels are proven at a time.
const mostProofs = 500

// Facts are what an edge knows at one moment.
type Facts struct {
	Config overlay.Edge
	Self   netip.Addr // this edge as others know it
	Host   host.State
	Paths  []Path
	Routes []plan.Table // of routers
	// Advertised are the routes of BGP neighbours.
	Advertised []evpn.Status
	Neighbours []datapath.Neighbour
	FDB        []datapath.FDBEntry
}

// Path is one to a remote.
type Path struct {
	plan.TunnelPath
	// Life is what BFD says of the path, and EndpointLife of its addresses by whatever next hop;
	// "" where nothing is watched.
	Life, EndpointLife bfd.State
	MTUState           string // where its MTU comes from
}

// Edge is what is proven to work.
type Edge interface {
	// Facts are those of now.
	Facts() (Facts, error)
	// Open opens sockets for the probes, in the network namespace of the edge.
	Open(tunnels []prove.Tunnel, timeout time.Duration) (*prove.Prober, error)
}

// Prover makes one proof at a time, and remembers who answered by itself: who did is one of ours,
// and has to answer again.
type Prover struct {
	edge Edge
	busy sync.Mutex
	ours map[netip.Addr]bool // by a remote's first address
}

// NewProver proves what edge does.
func NewProver(edge Edge) *Prover { return &Prover{edge: edge, ours: make(map[netip.Addr]bool)} }

// Prove sends probes and says what comes back. Several at a time, and what is not known, are
// api.BadRequest.
func (p *Prover) Prove(ctx context.Context, q api.ProveQuery) (api.ProveInfo, error) {
	if !p.busy.TryLock() {
		return api.ProveInfo{}, api.BadRequest{Err: errors.New("another proof is under way: try again in a few seconds")}
	}
	defer p.busy.Unlock()
	begin := time.Now()
	facts, err := p.edge.Facts()
	if err != nil {
		return api.ProveInfo{}, err
	}
	proofs, err := newPlanner(facts).plan(q.What)
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
	findings, sent, err := p.send(ctx, proofs, q.Timeout)
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

// send sends the probes of all proofs. What cannot be reached gets none.
func (p *Prover) send(ctx context.Context, proofs []proof, timeout time.Duration) (findings []prove.Finding, sent int, err error) {
	tunnels := make([]prove.Tunnel, 0, len(proofs))
	for _, p := range proofs {
		tunnels = append(tunnels, p.tunnel)
	}
	prober, err := p.edge.Open(tunnels, timeout)
	if err != nil {
		return nil, 0, err
	}
	findings, err = prober.Prove(ctx)
	return findings, prober.Sent(), errors.Join(err, prober.Close())
}

// conclude has proofs of one remote learn from each other, and from former ones.
func (p *Prover) conclude(proofs []proof, findings []prove.Finding) {
	for i, at := range proofs {
		for j, t := range at.targets {
			if t.kind == TargetEdge && findings[i].Targets[j].Answered > 0 {
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

// Kinds of targets, as documents name them.
const (
	TargetHost    = "host"
	TargetGateway = "gateway"
	TargetEdge    = "edge"
	TargetAddress = "address"
	TargetRouter  = "router"
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
