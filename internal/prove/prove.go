// Package prove sends probes through the overlay and says what came back: a remote in a
// table, or a session that is up, proves nothing of packets.
//
// Its one invariant: only an answer that nobody could give without a probe makes something
// proven. It comes out of a tunnel from an address of the probed remote (of the probed segment,
// but for what hosts behind a router answer) and names whom the probe asked, by its random
// numbers where the protocol has room for them. Probes
// are the edge's own tunnel packets, not frames sent as if from a port: so a segment without a
// port can be proven, no host's guard or firewall decides, and each way of an underlay with
// equal paths can be tried by its UDP source port. Whether the tables send a host's frames
// the same way is Trace's to say (package datapath).
package prove

import (
	"net/netip"
	"time"

	"github.com/selvage/selvage/internal/overlay"
)

// Ways is how many UDP source ports are tried on a path. Where the underlay has two equal
// paths, all of them take the same one in 1 of 128 cases.
const Ways = 8

// Ask is how a target is asked.
type Ask uint8

// The ways to ask. A probe of who has an address (RFC 5227), or a neighbour solicitation
// (RFC 4861), which every host answers whatever its firewall says; or an echo request.
const (
	Resolve Ask = iota
	Echo
)

// Target is somebody who would answer at the other end of a tunnel.
type Target struct {
	Ask Ask
	// MAC is where the frame goes in the segment: a host's, a router's, or broadcast.
	MAC overlay.MAC
	// Addr is asked for, or sent to.
	Addr netip.Addr
	// From is the source of an echo request.
	From netip.Addr
	TTL  uint8 // of an echo request
	// Near says that the edge itself answers: its host's MTU is none that matters.
	Near bool
}

// Path is a way of the underlay that tunnels may take.
type Path struct {
	overlay.Pair
	Ifindex         int
	SrcMAC, NextMAC overlay.MAC
	MTU             int // of the path as it is known, in bytes of an outer IP packet
}

// Tunnel is what is to be proven: a segment's to one remote.
type Tunnel struct {
	VNI    overlay.VNI
	Header overlay.Tunnel
	// Remotes are all addresses of the remote, from which answers may come.
	Remotes []netip.Addr
	Paths   []Path
	Targets []Target
	// Size is the largest inner IP packet that goes there, in bytes; 0: is not tried.
	Size int
}

// Finding is what came back of a tunnel's probes.
type Finding struct {
	Paths   []PathFinding   // as Tunnel.Paths
	Targets []TargetFinding // as Tunnel.Targets
	RTTs    []time.Duration // of all small probes that were answered at once
	// SizeTried says whether probes of the full size were sent; Fits, that all came through.
	SizeTried, Fits bool
	// Passed is the largest inner IP packet that came through where the full size did not.
	Passed int
}

// PathFinding is what came back by one path.
type PathFinding struct {
	Ways, Answered int
	// Dead are the UDP source ports of those that did not, where others did.
	Dead []uint16
	// Ping says what a plain ping of the remote's address did, where something was amiss.
	Ping Ping
	// LargePing is that of packets as large as the largest tunnel packet.
	LargePing Ping
	// Refusal is what somebody on the underlay said of a probe, by ICMP; "" when nobody did.
	Refusal string
}

// Ping is the outcome of pings.
type Ping uint8

// The outcomes.
const (
	NotPinged Ping = iota
	Answers
	Silent
)

// String names the outcome.
func (p Ping) String() string { return [...]string{"not tried", "answers", "silent"}[p] }

// TargetFinding is what one target did.
type TargetFinding struct {
	Asked, Answered int
	// Answer is the first one in words, with who gave it.
	Answer string
	// Refused says that the answer is of a router that has no way to the target, and Rationed
	// that it is an ICMP error, of which routers send few.
	Refused, Rationed bool
}

// alive reports whether anything came back.
func (f Finding) alive() bool {
	for _, t := range f.Targets {
		if t.Answered > 0 {
			return true
		}
	}
	return false
}

// Prefix begins the MAC addresses of all edges' probes.
var Prefix = [3]byte{0x02, 0x53, 0x56}

// MAC is the address from which the edge with this first TEP sends probes, and at which one of
// ours answers them: the same for all its segments, locally administered, and known to every
// other edge, whether it heard of it or not.
func MAC(tep netip.Addr) overlay.MAC {
	h := uint32(2166136261) // FNV-1a: only to spread addresses over three bytes
	for _, b := range tep.AsSlice() {
		h = (h ^ uint32(b)) * 16777619
	}
	h ^= h >> 24
	return overlay.MAC{Prefix[0], Prefix[1], Prefix[2], byte(h >> 16), byte(h >> 8), byte(h)}
}

// LinkLocal is the address of a host with this MAC address (RFC 4291 appendix A).
func LinkLocal(mac overlay.MAC) netip.Addr {
	return netip.AddrFrom16([16]byte{
		0: 0xfe, 1: 0x80, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5],
	})
}
