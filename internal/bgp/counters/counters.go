// Package counters holds what is counted of BGP.
//
// Its one invariant: it is plain data of one moment, and imports no implementation of BGP, so that
// who shows it links none.
//
// Do not use it for documents of the API (package api).
package counters

import (
	"time"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
)

// BGP is all that is counted.
type BGP struct {
	Routes         evpn.Counts
	Problems       int    // routes that need attention
	Moved, Updates uint64 // hosts that moved; updates that were received
	Neighbours     []Neighbour
	Convergence    Convergence
	Settling       bool // what a former process learned stays until the neighbours said all
}

// Neighbour is what is counted of one neighbour.
type Neighbour struct {
	Name        string
	Established bool
	Flaps       uint32            // sessions that were lost
	Overflows   uint64            // sessions that this edge ended, as too many updates waited
	Malformed   uint64            // routes that could not be understood
	Discarded   map[string]uint64 // what is not used, by what it is
	Families    []Family
}

// Family are the routes of one that are exchanged with a neighbour.
type Family struct {
	Family               overlay.BGPFamily
	Received, Advertised uint64
}

// Convergence is how long updates took, as a histogram.
type Convergence struct {
	Buckets []Bucket // each with those of the ones before
	Count   uint64
	Sum     time.Duration
}

// Bucket is how many took no longer than its bound.
type Bucket struct {
	Bound time.Duration
	Count uint64
}
