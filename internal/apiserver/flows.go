package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
)

// flowsInTurn are flows: as they are, or by what they carry in an interval.
func (d documents) flowsInTurn() func(context.Context, url.Values) (api.Entries[api.FlowInfo], error) {
	turns := make(chan struct{}, ratesAtOnce)
	return func(ctx context.Context, v url.Values) (none api.Entries[api.FlowInfo], err error) {
		q, err := api.EntryQueryOf(v, api.ArgAddr, api.ArgSlow, api.ArgInterval)
		if err != nil {
			return none, err
		}
		if q.Interval != 0 {
			select {
			case turns <- struct{}{}:
				defer func() { <-turns }()
			default:
				return none, &api.Conflict{Status: http.StatusServiceUnavailable, Message: "rates of flows are being measured for others: ask again"}
			}
		}
		return d.flows(ctx, q)
	}
}

// ratesAtOnce is how many may have rates of flows measured at once, as each needs memory for all flows.
const ratesAtOnce = 2

// flows are those that a question asks for. The edge goes on between the readings.
func (d documents) flows(ctx context.Context, q api.EntryQuery) (api.Entries[api.FlowInfo], error) {
	flows, err := d.readFlows()
	if err != nil || q.Interval == 0 {
		return FlowEntries(flows, q), err
	}
	before := newFlowReading(flows, q, time.Now())
	select {
	case <-ctx.Done():
		return api.Entries[api.FlowInfo]{}, ctx.Err()
	case <-time.After(q.Interval):
	}
	if flows, err = d.readFlows(); err != nil {
		return api.Entries[api.FlowInfo]{}, err
	}
	return before.rates(flows, q, time.Now()), nil
}

func (d documents) readFlows() ([]datapath.Flow, error) {
	return read(d.o.Edge, "flows", func(e *State) ([]datapath.Flow, error) { return e.DataPath.Flows.Flows() })
}

// FlowEntries are the flows that a query chooses, the busiest first.
func FlowEntries(flows []datapath.Flow, q api.EntryQuery) api.Entries[api.FlowInfo] {
	list := []api.FlowInfo{}
	for i := range flows {
		if choosesFlow(q, &flows[i]) {
			list = append(list, flowInfo(flows[i]))
		}
	}
	slices.SortFunc(list, busiest)
	return limited(list, q.Limit)
}

// busiest has the flow that has carried the most first; the rest only makes the order the same each time.
func busiest(a, b api.FlowInfo) int {
	return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Packets, a.Packets),
		a.Src.Compare(b.Src), a.Dst.Compare(b.Dst), cmp.Compare(a.SrcPort, b.SrcPort), cmp.Compare(a.DstPort, b.DstPort))
}

// choosesFlow reports whether the query asks for a flow.
func choosesFlow(q api.EntryQuery, f *datapath.Flow) bool {
	return (q.Segment == "" || f.Segment == q.Segment || f.OutSegment == q.Segment) &&
		(q.Port == "" || isPort(f.InPort, q.Port) || isPort(f.OutPort, q.Port)) &&
		(!q.Remote.IsValid() || f.InRemote == q.Remote || f.OutRemote == q.Remote) &&
		(!q.Slow || !f.FastPath) && choosesEnds(q, f)
}

// choosesEnds reports whether it asks for who sends or receives.
func choosesEnds(q api.EntryQuery, f *datapath.Flow) bool {
	return (q.MAC == overlay.MAC{} || f.SrcMAC == q.MAC || f.DstMAC == q.MAC) &&
		(!q.Addr.IsValid() || slices.ContainsFunc([]netip.Addr{f.Src, f.Dst, f.ToSrc.Addr(), f.ToDst.Addr()}, q.Addr.Contains))
}

func flowInfo(f datapath.Flow) api.FlowInfo {
	info := api.FlowInfo{
		Segment: f.Segment, OutSegment: f.OutSegment, In: f.InPort, Out: f.OutPort, SrcMAC: f.SrcMAC, DstMAC: f.DstMAC, Proto: protoName(f),
		Src: f.Src, Dst: f.Dst, SrcPort: f.SrcPort, DstPort: f.DstPort,
		ToSrc: f.ToSrc, ToDst: f.ToDst, FastPath: f.FastPath, Why: f.Why, Packets: f.Packets, Bytes: f.Bytes, Idle: seconds(f.IdleNS),
	}
	if f.InRemote.IsValid() {
		info.In = f.InRemote.String()
	}
	switch {
	case f.OutRemote.IsValid():
		info.Out = f.OutRemote.String()
	case info.Out == "" && (f.DstMAC.Multicast() || strings.Contains(f.Why, outFlood)):
		info.Out = outFlood
	}
	return info
}

// protoName is the IP protocol by name or number, or the ethertype of what is not IP.
func protoName(f datapath.Flow) string {
	if f.EtherType != unix.ETH_P_IP && f.EtherType != unix.ETH_P_IPV6 {
		return fmt.Sprintf("0x%04x", f.EtherType)
	}
	switch f.Proto {
	case unix.IPPROTO_TCP:
		return "tcp"
	case unix.IPPROTO_UDP:
		return "udp"
	case unix.IPPROTO_ICMP:
		return "icmp"
	case unix.IPPROTO_ICMPV6:
		return "icmpv6"
	}
	return strconv.Itoa(int(f.Proto))
}
