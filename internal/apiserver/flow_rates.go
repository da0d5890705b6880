package apiserver

import (
	"cmp"
	"hash/maphash"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
)

// flowReading is what flows had carried when they were read, by hashes of what makes them one flow.
type flowReading struct {
	at      time.Time
	seed    maphash.Seed
	carried map[uint64]carried
}

type carried struct{ packets, bytes uint64 }

// flowKey is what makes two decisions those of one flow.
type flowKey struct {
	in               string
	inRemote         netip.Addr
	segment          string
	srcMAC, dstMAC   overlay.MAC
	etherType        uint16
	proto            uint8
	src, dst         netip.Addr
	srcPort, dstPort uint16
}

func (r flowReading) key(f *datapath.Flow) uint64 {
	return maphash.Comparable(r.seed, flowKey{
		in: f.InPort, inRemote: f.InRemote, segment: f.Segment, srcMAC: f.SrcMAC, dstMAC: f.DstMAC, etherType: f.EtherType, proto: f.Proto,
		src: f.Src, dst: f.Dst, srcPort: f.SrcPort, dstPort: f.DstPort,
	})
}

// newFlowReading notes the flows that a question asks for.
func newFlowReading(flows []datapath.Flow, q api.EntryQuery, at time.Time) flowReading {
	r := flowReading{at, maphash.MakeSeed(), make(map[uint64]carried)}
	for i := range flows {
		if f := &flows[i]; choosesFlow(q, f) {
			r.carried[r.key(f)] = carried{f.Packets, f.Bytes}
		}
	}
	return r
}

// rates are the flows of a later reading, the fastest first. What a new flow has carried, and one whose
// counters began anew, it has carried in between.
func (r flowReading) rates(flows []datapath.Flow, q api.EntryQuery, at time.Time) api.Entries[api.FlowInfo] {
	list, elapsed := []api.FlowInfo{}, at.Sub(r.at).Seconds()
	for i := range flows {
		f := &flows[i]
		if !choosesFlow(q, f) {
			continue
		}
		was := r.carried[r.key(f)]
		if was.packets > f.Packets || was.bytes > f.Bytes {
			was = carried{}
		}
		info := flowInfo(*f)
		info.Rate = &api.FlowRate{Packets: float64(f.Packets-was.packets) / elapsed, Bytes: float64(f.Bytes-was.bytes) / elapsed}
		list = append(list, info)
	}
	slices.SortFunc(list, func(a, b api.FlowInfo) int {
		return cmp.Or(cmp.Compare(b.Rate.Bytes, a.Rate.Bytes), cmp.Compare(b.Rate.Packets, a.Rate.Packets), busiest(a, b))
	})
	return limited(list, q.Limit)
}
