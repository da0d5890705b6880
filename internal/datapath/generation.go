package datapath

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/selvage/selvage/internal/overlay"
)

// generationStep is far more than the data path can add between our reading and
// writing a generation, so that a lost increment never brings an old one back.
const generationStep = 1 << 16

// shards is SHARDS of bpf/abi/forwarding.h.
const shards = uint32(len(bpfSegment{}.Shards))

// macShard is the shard of a MAC address, see bpf/cache/generation.h.
func macShard(mac overlay.MAC) uint32 {
	h := uint32(mac[0]^mac[2]^mac[4]) | uint32(mac[1]^mac[3]^mac[5])<<8 // words of a little-endian machine
	return (h ^ h>>6 ^ h>>12) % shards
}

// addrShard is that of an IP address.
func addrShard(a bpfAddr) uint32 {
	h := a.W[0] ^ a.W[1] ^ a.W[2] ^ a.W[3]
	h ^= h >> 16
	return (h ^ h>>6 ^ h>>12) % shards
}

// segmentStride is how far apart the kernel has the entries of the map segments.
const segmentStride = (unsafe.Sizeof(bpfSegment{}) + 7) &^ 7

// inMemory is a number of a segment as the programs have it, at an offset in its entry.
func (cg *Changes) inMemory(segment uint32, offset uintptr) *uint32 {
	return (*uint32)(unsafe.Pointer(&cg.memory[uintptr(segment)*segmentStride+offset]))
}

// invalidate makes the data path decide about a segment's flows again.
func (cg *Changes) invalidate(segment uint32) error {
	atomic.AddUint32(cg.inMemory(segment, unsafe.Offsetof(bpfSegment{}.Generation)), generationStep)
	return cg.changed()
}

// invalidateMAC does so for the flows whose source or destination shares the shard of the
// address. The transit programs notice when changed is called.
func (cg *Changes) invalidateMAC(segment uint32, mac overlay.MAC) {
	offset := unsafe.Offsetof(bpfSegment{}.Shards) + uintptr(macShard(mac))*unsafe.Sizeof(uint32(0))
	atomic.AddUint32(cg.inMemory(segment, offset), 1)
}

// invalidatePort does so for the segment of a port.
func (cg *Changes) invalidatePort(id uint32) error {
	if segment := cg.numbers.vports[id].Segment; segment != 0 && cg.numbers.vports[id].Kind == bpfVportKindVPORT_PORT {
		return cg.invalidate(segment)
	}
	return nil
}

// hostPrefix is the length of a key that is about one address.
const hostPrefix = 32 + 128

// invalidateRoute plans to do so for the flows to a prefix; putRouter carries it out.
func (ro *Routes) invalidateRoute(k bpfRouteKey) {
	r := &ro.numbers.routers[k.Router]
	if k.Prefixlen != hostPrefix {
		r.Generation += generationStep
		return
	}
	r.Shards[addrShard(k.Addr)]++
	r.Translated++
}

// generations are what decisions are compared with.
type generations struct {
	segments map[uint32]bpfSegment
	routers  map[uint32]bpfRouter
}

func (cg *Changes) generations() (generations, error) {
	g := generations{map[uint32]bpfSegment{}, map[uint32]bpfRouter{}}
	for id := range cg.numbers.names.segments {
		var s bpfSegment
		if err := cg.numbers.maps.Segments.Lookup(id, &s); err != nil {
			return g, fmt.Errorf("read segment %d: %w", id, err)
		}
		g.segments[id] = s
	}
	for id := range cg.numbers.names.routers {
		var r bpfRouter
		if err := cg.numbers.maps.Routers.Lookup(id, &r); err != nil {
			return g, fmt.Errorf("read router %d: %w", id, err)
		}
		g.routers[id] = r
	}
	return g, nil
}

// isCurrent reports whether nothing has changed that a decision depends on, see bpf/cache/flow_cache.h.
func (g generations) isCurrent(k *bpfFlowKey, decision *bpfDecision) bool {
	if decision.Flags&bpfFlowFlagsFLOW_NEVER_CURRENT != 0 {
		return false
	}
	seg, to := g.segments[uint32(decision.Segment)], g.segments[uint32(decision.ToSegment)]
	now := seg.Generation + seg.Shards[macShard(k.Smac)]
	if decision.Flags&bpfFlowFlagsFLOW_ROUTED == 0 {
		return now+seg.Shards[macShard(k.Dmac)] == decision.Generation
	}
	router := g.routers[seg.Router]
	now += router.Generation + to.Generation + to.Shards[macShard(decision.Dmac)]
	if decision.Flags&bpfFlowFlagsFLOW_DNAT != 0 {
		return now+router.Translated == decision.Generation
	}
	if seg.Flags&bpfSegmentFlagsSEGMENT_UPLINK != 0 { // the route back
		now += router.Shards[addrShard(k.Saddr)]
	}
	return now+router.Shards[addrShard(k.Daddr)] == decision.Generation
}

// total grows with any generation of a segment.
func total(s bpfSegment) uint32 {
	sum := s.Generation
	for _, n := range s.Shards {
		sum += n
	}
	return sum
}
