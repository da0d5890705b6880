package datapath

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// way is an underlay and a tunnel on it.
type way struct {
	name   string
	family family
	tunnel overlay.Tunnel
}

// Options of Geneve that segments are configured with: none of them critical, and
// one that is.
var (
	plainOptions    = pkttest.Option(0x0103, 0x01, 8)
	criticalOptions = append(pkttest.Option(0x0103, 0x02, 0), pkttest.Option(0x0104, 0x83, 4)...)
	// longestOptions fill the header's length field: 252 bytes.
	longestOptions = slices.Concat(pkttest.Option(0x0103, 0x03, 120), pkttest.Option(0x0103, 0x04, 120), pkttest.Option(0x0103, 0x05, 0))
)

var tunnels = []struct {
	name   string
	tunnel overlay.Tunnel
}{
	{"VXLAN", overlay.Tunnel{Encapsulation: overlay.VXLAN, UDPPort: 4789}},
	{"Geneve", overlay.Tunnel{Encapsulation: overlay.Geneve, UDPPort: 6081}},
	{"Geneve with options", overlay.Tunnel{Encapsulation: overlay.Geneve, UDPPort: 6081, Options: criticalOptions}},
	{"NVGRE", overlay.Tunnel{Encapsulation: overlay.NVGRE}},
}

// ways are all encapsulations on both families.
func ways() (list []way) {
	for _, f := range families {
		for _, t := range tunnels {
			list = append(list, way{t.name + " on " + f.name, f, t.tunnel})
		}
	}
	return list
}

func eachWay(t *testing.T, f func(t *testing.T, to way)) {
	t.Helper()
	for _, to := range ways() {
		t.Run(to.name, func(t *testing.T) { f(t, to) })
	}
}

// tunnelled gives blue a tunnel.
func tunnelled(tunnel overlay.Tunnel) func(*Config, *fib.Tables) {
	return func(_ *Config, tables *fib.Tables) { tables.Segments[0].Tunnel = tunnel }
}

// world is one with blue on the way, alice at p0 and bob behind the first remote.
func (to way) world(t testing.TB, change ...func(*Config, *fib.Tables)) *world {
	t.Helper()
	return newWorld(t, to.family, append([]func(*Config, *fib.Tables){static(to.family), tunnelled(to.tunnel)}, change...)...)
}

// sent is the header that this edge must have put before a frame of the segment,
// with the entropy that stands in the packet.
func (w *world) sent(segment string, remote netip.Addr, out []byte) pkttest.Outer {
	o := w.outerIn(segment, remote)
	o.SrcMAC, o.DstMAC, o.Src, o.Dst = o.DstMAC, nextHop, w.family.tep, remote
	if hasCritical(o.GeneveOptions) {
		o.Flags = pkttest.GeneveCritical
	}
	if len(out) < o.Len() {
		return o
	}
	entropy := binary.BigEndian.Uint16(out[o.TunnelAt():])
	if !w.family.tep.Is4() {
		o.FlowLabel = binary.BigEndian.Uint32(out[etherLen:]) & 0xfffff
	}
	if o.NVGRE() {
		o.Reserved = out[o.HeaderAt()+7]
		return o
	}
	o.SrcPort = entropy
	return o
}

func hasCritical(list []byte) bool {
	return slices.ContainsFunc(options(list), func(o uint32) bool { return o&optionCritical != 0 })
}

// entropyOf is what a way tells flows apart by: UDP's source port or NVGRE's FlowID.
func (to way) entropyOf(w *world, out []byte) uint16 {
	o := w.sent("blue", to.family.remotes[0], out)
	if o.NVGRE() {
		return uint16(o.Reserved)
	}
	return o.SrcPort
}

// wantTunnel checks a tunnel packet of blue to the first remote byte for byte;
// change says what differs from the default header.
func (w *world) wantTunnel(t testing.TB, in, inner []byte, r result, change ...func(*pkttest.Outer)) bool {
	t.Helper()
	return w.wantTunnelIn(t, "blue", in, inner, r, change...)
}

func (w *world) wantTunnelIn(t testing.TB, segment string, in, inner []byte, r result, change ...func(*pkttest.Outer)) bool {
	t.Helper()
	r.want(t, in, forwarded)
	o := w.sent(segment, w.family.remotes[0], r.out)
	for _, c := range change {
		c(&o)
	}
	return check.Equal(t, "tunnel packet", o.Wrap(inner), r.out) && w.wantEntropy(t, o)
}

// wantEntropy checks that the entropy stands in all fields that share it.
func (w *world) wantEntropy(t testing.TB, o pkttest.Outer) bool {
	t.Helper()
	label := o.FlowLabel
	switch {
	case o.NVGRE() && (w.family.tep.Is4() || uint32(o.Reserved) == label&0xff && label >= 49152):
	case !o.NVGRE() && o.SrcPort >= 49152 && (w.family.tep.Is4() || label == uint32(o.SrcPort)):
	default:
		t.Errorf("source port %d, FlowID %d, flow label %d", o.SrcPort, o.Reserved, label)
		return false
	}
	return true
}

// refill fills the token buckets of all ports and segments, and lets the edge ask for next hops
// again.
func (w *world) refill(t testing.TB) {
	t.Helper()
	refillBuckets(t, w)
	var sent []uint64
	must(t, w.dp.Traffic.maps.Events.Lookup(bpfEventEVENT_NEIGH_REQUESTED, &sent))
	n := uint64(0)
	for _, core := range sent {
		n += core
	}
	if n == w.requested { // to walk an empty table takes longer than a packet
		return
	}
	for key := range w.requests(t) {
		must(t, w.dp.prog.objs.NeighbourRequests.Delete(key))
	}
	w.requested = n
}

// requests are the times at which next hops were asked for.
func (w *world) requests(t testing.TB) map[bpfNeighbourKey]uint64 {
	t.Helper()
	asked := map[bpfNeighbourKey]uint64{}
	each(t, w.dp.prog.objs.NeighbourRequests, func(k bpfNeighbourKey, then uint64) { asked[k] = then })
	return asked
}

// refillBuckets is for worlds with limits; in others nobody looks into the buckets.
func refillBuckets(t testing.TB, w *world) {
	t.Helper()
	limited := func(l overlay.Limits) bool { return l != overlay.Limits{} }
	if !slices.ContainsFunc(w.tables.Ports, func(p fib.Port) bool { return limited(p.Limits) }) &&
		!slices.ContainsFunc(w.tables.Segments, func(s overlay.Segment) bool { return limited(s.Limits) }) {
		return
	}
	owners := slices.Collect(maps.Values(w.dp.numbers.names.portIDs))
	for _, id := range w.dp.numbers.names.segIDs {
		owners = append(owners, segmentOwner+id)
	}
	for id := range w.dp.numbers.vports {
		if w.dp.numbers.vports[id].Kind == bpfVportKindVPORT_TEP {
			owners = append(owners, uint32(id))
		}
	}
	for _, owner := range owners {
		var u bpfLimitUsage
		must(t, w.dp.Limits.maps.OwnerUsages.Lookup(ownerIndex(owner), &u))
		u.Buckets, u.Shares = bpfLimitUsage{}.Buckets, bpfLimitUsage{}.Shares
		must(t, w.dp.Limits.maps.OwnerUsages.Put(ownerIndex(owner), u))
	}
}
