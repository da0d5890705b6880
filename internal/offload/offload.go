// Package offload finds out which offloads of an underlay interface send tunnels to a
// remote edge both right and fast: it sets each mode in turn, sends patterned frames
// through a tunnel like the data path's, and has the remote compare every byte.
//
// Its one invariant: only a mode in which the remote found everything that was sent, and
// nothing else, is ever advised, and never one that is faster by less than the noise.
// It probes what this edge sends; what it receives is probed by the remote. Do not use it
// as a benchmark: its frames end at the remote's interface, before any workload.
package offload

import (
	"slices"
	"time"

	"github.com/selvage/selvage/internal/host"
)

// Names of modes.
const (
	AsIs                  = "as-is"
	All                   = "all"
	NoTunnelSegmentation  = "no-tunnel-segmentation"
	NoChecksum            = "no-checksum"
	None                  = "none"
	tunnelSegmentation    = "tx-udp_tnl-segmentation"
	tunnelSumSegmentation = "tx-udp_tnl-csum-segmentation"
)

// The features that matter to tunnels, by ethtool's names: who cuts large segments behind a
// tunnel header, and who fills checksums in.
var (
	segmentations = []string{tunnelSegmentation, tunnelSumSegmentation, "tx-gre-segmentation", "tx-gre-csum-segmentation"}
	checksums     = []string{"tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"}
)

// Change is a feature that a mode sets, by ethtool's name.
type Change struct {
	Feature string `json:"feature"`
	On      bool   `json:"on"`
}

// Mode is a state of an interface's offloads: what differs from how the operator has them.
type Mode struct {
	Name    string   `json:"name"`
	Changes []Change `json:"changes"`
}

// order is that of Modes.
var order = []string{AsIs, All, NoTunnelSegmentation, NoChecksum, None}

// Modes are those that an interface with these features can be in, AsIs first. A feature
// that is fixed stays as it is, and a mode that would change nothing is AsIs.
func Modes(features map[string]host.Feature) []Mode {
	modes := []Mode{{Name: AsIs, Changes: []Change{}}}
	for _, m := range []struct {
		name         string
		segment, sum bool
	}{{All, true, true}, {NoTunnelSegmentation, false, true}, {NoChecksum, true, false}, {None, false, false}} {
		changes := append(changesTo(features, segmentations, m.segment), changesTo(features, checksums, m.sum)...)
		known := func(other Mode) bool { return slices.Equal(other.Changes, changes) }
		if !slices.ContainsFunc(modes, known) {
			modes = append(modes, Mode{m.name, changes})
		}
	}
	return modes
}

func changesTo(features map[string]host.Feature, names []string, on bool) []Change {
	changes := []Change{}
	for _, name := range names {
		if f, ok := features[name]; ok && !f.Fixed && f.On != on {
			changes = append(changes, Change{name, on})
		}
	}
	return changes
}

// Offloads are a mode's changes of an interface.
func (m Mode) Offloads(name string) []host.Offload {
	list := make([]host.Offload, 0, len(m.Changes))
	for _, c := range m.Changes {
		list = append(list, host.Offload{Interface: name, Feature: c.Feature, On: c.On})
	}
	return list
}

// Identity is what a result holds for: another kernel, driver or firmware may do otherwise.
type Identity struct {
	Kernel string `json:"kernel"`
	host.Driver
}

// Result is what probing one path found.
type Result struct {
	When      time.Time `json:"when"`
	Interface string    `json:"interface"`
	Identity  Identity  `json:"identity"`
	Trials    []Trial   `json:"trials"` // of AsIs first
	Mode      Mode      `json:"mode"`   // the advice
	Why       string    `json:"why"`
	// Wrong says that not even the advised mode is right.
	Wrong bool `json:"wrong"`
}

// Trial is what the remote saw of one mode.
type Trial struct {
	Mode Mode `json:"mode"`
	// Of the frames that are checked byte by byte: units are what one packet carries.
	Sent       int `json:"sent_units"`
	Corrupt    int `json:"corrupt_frames"`
	Duplicates int `json:"duplicate_units"`
	Missing    int `json:"missing_units"`
	// Speeds of timed bursts, in payload bits per second.
	Speeds []float64 `json:"bits_per_second"`
	// Uncut says that large segments arrived whole: the link is inside one host.
	Uncut bool `json:"uncut"`
}
