package api

import (
	"context"
	"net/netip"
	"net/url"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/prove"
)

// ProveQuery asks for probes through the overlay, which POST /v1/prove sends. It takes a few
// times Timeout at most.
type ProveQuery struct {
	// What is a segment by name ("NAME-l3" too), or a prefix or an address, which is proven
	// by its next hops; "" is everything.
	What string
	// Timeout is how long an answer is waited for; 0: 2 s.
	Timeout time.Duration
}

// values is the query in a URL, as POST /v1/prove reads it.
func (q ProveQuery) values() url.Values {
	v := url.Values{}
	if q.What != "" {
		v.Set(ArgWhat, q.What)
	}
	if q.Timeout != 0 {
		v.Set(ArgTimeout, q.Timeout.String())
	}
	return v
}

// Prove has the edge send probes to remotes by the overlay, and fetches what came back.
func (c *Client) Prove(ctx context.Context, q ProveQuery) (ProveInfo, error) {
	return post[ProveInfo](ctx, c, "prove?"+q.values().Encode(), nil)
}

// States of proofs.
const (
	ProofProven     = string(prove.Proven)     // small and full-sized packets came through, by all ways
	ProofPartial    = string(prove.Partial)    // some did
	ProofBroken     = string(prove.Broken)     // none did
	ProofUnprovable = string(prove.Unprovable) // there is nothing at the other end that had to answer
)

// ProveInfo is what probes through the overlay found.
type ProveInfo struct {
	Took   float64     `json:"took_s"`
	Sent   int         `json:"sent_packets"`
	Proofs []ProofInfo `json:"proofs"` // by segment, remote and prefix
	Tally  ProofTally  `json:"tally"`
	// Problems are reasons why something could not be tried at all.
	Problems []string `json:"problems"`
}

// ProofTally counts proofs by state.
type ProofTally struct {
	Proven     int `json:"proven"`
	Partial    int `json:"partial"`
	Broken     int `json:"broken"`
	Unprovable int `json:"unprovable"`
}

// ProofInfo is a segment's tunnels to one remote or, with Router, the next hop of prefixes
// that it reaches by one.
type ProofInfo struct {
	Segment string      `json:"segment"`
	VNI     overlay.VNI `json:"vni"`
	Remote  netip.Addr  `json:"remote"` // its first address
	Name    string      `json:"name,omitempty"`
	Router  string      `json:"router,omitempty"`
	// Prefixes are those that were tried of the Count that go this way.
	Prefixes []netip.Prefix `json:"prefixes,omitempty"`
	Count    int            `json:"prefix_count,omitempty"`

	State string `json:"state"`
	// Cause says what is wrong, or of what is proven what else was seen, and Cure what to do; ""
	// where all is well.
	Cause string `json:"cause"`
	Fix   string `json:"fix"`
	// Control is what is known without packets: of BGP, liveness and path MTU, in words.
	Control []string `json:"control"`

	Paths   []ProofPath   `json:"paths"`
	Targets []ProofTarget `json:"targets"`
	// RTT is the median of the answers, and RTTMin their least; 0 without any.
	RTT    float64 `json:"rtt_s"`
	RTTMin float64 `json:"rtt_min_s"`

	// Size is the largest IP packet that the segment may send there, in bytes; SizeState is
	// "passes", "lost", or "not tried". Passed is the largest that came through of "lost".
	Size      int    `json:"size"`
	SizeState string `json:"size_state"`
	Passed    int    `json:"passed_size,omitempty"`
}

// States of sizes.
const (
	SizePasses   = "passes"
	SizeLost     = "lost"
	SizeNotTried = "not tried"
)

// ProofPath is from one of this edge's TEPs to one of the remote's. Its ways are UDP source
// ports (with nvgre flow identifiers), by which an underlay of equal paths tells flows apart.
type ProofPath struct {
	Local     netip.Addr `json:"local"`
	Remote    netip.Addr `json:"remote"`
	Interface string     `json:"interface"`
	Ways      int        `json:"ways"`     // that were tried
	Answered  int        `json:"answered"` // of these
	// Ping is what a plain ping of the remote found where no way answered: "answers",
	// "silent", or "not tried".
	Ping string `json:"ping"`
}

// ProofTarget is who was asked.
type ProofTarget struct {
	// Kind is "host", "gateway" or "edge", and of prefixes "address", which is one by itself as
	// a loopback's is, or "router", where a packet to the prefix ends.
	Kind     string      `json:"kind"`
	Address  netip.Addr  `json:"address,omitzero"`
	MAC      overlay.MAC `json:"mac"`
	Origin   string      `json:"origin,omitempty"` // of a host: "bgp", "learned", "static"
	Asked    int         `json:"asked"`
	Answered int         `json:"answered"`
	Answer   string      `json:"answer,omitempty"` // what it was, in words
}

// Add counts one more proof.
func (t *ProofTally) Add(state string) {
	switch state {
	case ProofProven:
		t.Proven++
	case ProofPartial:
		t.Partial++
	case ProofBroken:
		t.Broken++
	default:
		t.Unprovable++
	}
}
