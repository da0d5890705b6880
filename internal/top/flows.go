package top

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/observe"
)

// flowsShown is how many flows there are on the page.
const flowsShown = 200

func flowsPage() page {
	return page{
		name: "Flows", sort: -1, none: "No flow is in the cache.",
		columns: []column{
			{title: "SEGMENT"}, {title: "IN"}, {title: "OUT"}, {title: "PROTO"}, {title: "SOURCE"}, {title: "DESTINATION"}, {title: "PATH"},
			{"PKT/S", true}, {"BIT/S", true}, {"BYTES", true},
		},
		read: readFlows,
	}
}

// readFlows takes as long as the interval over which the edge measures.
func readFlows(ctx context.Context, r *reader) ([]line, error) {
	interval := min(max(r.interval, api.LeastInterval), api.MostInterval)
	flows, err := r.client.Flows(ctx, api.EntryQuery{Limit: flowsShown, Interval: interval})
	if err != nil {
		return nil, err
	}
	lines := make([]line, 0, len(flows.List))
	for _, f := range flows.List {
		lines = append(lines, flowLine(f))
	}
	return lines, nil
}

func flowLine(f api.FlowInfo) line {
	source, destination := f.SrcMAC.String(), f.DstMAC.String()
	if f.Src.IsValid() && f.Dst.IsValid() {
		source, destination = end(f, f.Src, f.SrcPort), end(f, f.Dst, f.DstPort)
	}
	segment := f.Segment
	if f.OutSegment != "" && f.OutSegment != f.Segment {
		segment += ">" + f.OutSegment
	}
	path := cell{text: "fast", tone: good}
	if !f.FastPath {
		path = cell{text: "slow", tone: warning}
	}
	rate := cmp.Or(f.Rate, &api.FlowRate{})
	return line{
		key: strings.Join([]string{f.Segment, f.In, f.Proto, source, destination, f.SrcMAC.String(), f.DstMAC.String()}, " "),
		cells: []cell{
			{text: segment}, {text: cmp.Or(f.In, "-")}, {text: cmp.Or(f.Out, "-")}, {text: f.Proto}, {text: source}, {text: destination}, path,
			rateCell(rate.Packets), rateCell(8 * rate.Bytes), {text: observe.Count(f.Bytes), by: float64(f.Bytes)},
		},
		subject: flowSubject(f), detail: flowDetail(f),
	}
}

func flowDetail(f api.FlowInfo) string {
	var all []string
	if f.Why != "" {
		all = append(all, f.Why)
	}
	if f.ToSrc.IsValid() {
		all = append(all, "source becomes "+f.ToSrc.String())
	}
	if f.ToDst.IsValid() {
		all = append(all, "destination becomes "+f.ToDst.String())
	}
	return strings.Join(append(all, fmt.Sprintf("%s > %s, idle %s", f.SrcMAC, f.DstMAC, observe.Span(f.Idle))), "; ")
}

// hasPorts reports whether a flow has ports, and not just something in their place.
func hasPorts(f api.FlowInfo) bool { return f.Proto == "tcp" || f.Proto == "udp" }

func end(f api.FlowInfo, a netip.Addr, port uint16) string {
	if !hasPorts(f) {
		return a.String()
	}
	return netip.AddrPortFrom(a, port).String()
}

// flowSubject is a packet of the flow, where words can say it.
func flowSubject(f api.FlowInfo) subject {
	s := subject{segment: f.Segment}
	if remote, err := netip.ParseAddr(f.In); err == nil {
		s.remote = remote
	} else {
		s.port = f.In
	}
	if !f.Src.IsValid() || !f.Dst.IsValid() {
		return s
	}
	switch f.Proto {
	case "tcp", "udp":
		s.packet = fmt.Sprintf("%s %s > %s", f.Proto, end(f, f.Src, f.SrcPort), end(f, f.Dst, f.DstPort))
	case "icmp", "icmpv6":
		s.packet = fmt.Sprintf("icmp %s > %s", f.Src, f.Dst)
	default:
		s.packet = fmt.Sprintf("ip %s %s > %s", f.Proto, f.Src, f.Dst)
	}
	return s
}
