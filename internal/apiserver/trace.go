package apiserver

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/trace"
)

func (d documents) trace(v url.Values) (api.TraceInfo, error) {
	q, err := api.TraceQueryOf(v)
	if err != nil {
		return api.TraceInfo{}, err
	}
	packet, err := trace.Parse(q.Packet)
	if err != nil {
		return api.TraceInfo{}, api.BadRequest{Err: err}
	}
	if q.Size != 0 {
		if err := packet.SetSize(q.Size); err != nil {
			return api.TraceInfo{}, api.BadRequest{Err: err}
		}
	}
	if q.TTL != 0 {
		packet.TTL = uint8(q.TTL)
	}
	var info api.TraceInfo
	err = d.o.Edge.ReadInLoop("trace", func(e *State) (err error) {
		info, err = follow(e, q, packet)
		return err
	})
	if err != nil {
		return api.TraceInfo{}, err
	}
	return info, nil
}

// follow traces a packet.
func follow(e *State, q api.TraceQuery, packet trace.Packet) (api.TraceInfo, error) {
	from, err := enter(e, q)
	if err != nil {
		return api.TraceInfo{}, api.BadRequest{Err: err}
	}
	macs, err := neighbourMACs(e)
	if err != nil {
		return api.TraceInfo{}, err
	}
	ether := trace.Ether{Src: q.SrcMAC, Dst: q.DstMAC, VLANs: from.tags}
	if ether.Src == (overlay.MAC{}) {
		ether.Src, err = sourceMAC(e, from, packet, macs)
	}
	if err == nil && ether.Dst == (overlay.MAC{}) {
		ether.Dst, err = destinationMAC(from, packet, macs)
	}
	if err != nil {
		return api.TraceInfo{}, api.BadRequest{Err: err}
	}
	in := from.input
	in.Frame = packet.Frame(ether)
	result, err := e.DataPath.Tracer.Trace(in)
	if err != nil {
		return api.TraceInfo{}, err
	}
	info := api.TraceInfo{
		Packet: trace.Summary(in.Frame), Frame: hex.EncodeToString(in.Frame),
		Steps: []api.TraceStep{}, Verdict: result.Verdict, Out: hex.EncodeToString(result.Out), Headers: []string{},
	}
	for _, s := range result.Steps {
		info.Steps = append(info.Steps, api.TraceStep(s))
	}
	if len(result.Out) > 0 {
		info.Headers = trace.Describe(result.Out, func(port uint16) overlay.Encapsulation { return tunnelAt(e, port) })
	}
	return info, nil
}

// tunnelAt is the encapsulation that arrives at a UDP port.
func tunnelAt(e *State, port uint16) overlay.Encapsulation {
	for _, s := range plan.Segments(e.Config) {
		if s.Tunnel.UDPPort == port {
			return s.Tunnel.Encapsulation
		}
	}
	return ""
}

// entry is where a packet comes in.
type entry struct {
	input   datapath.TraceInput
	segment overlay.Segment
	tags    []uint16
}

func enter(e *State, q api.TraceQuery) (entry, error) {
	switch {
	case (q.Port == "") == !q.Remote.IsValid():
		return entry{}, errors.New("give a port, or a remote with a segment")
	case q.Port != "" && q.Segment != "":
		return entry{}, errors.New("a port is in one segment: leave the segment out")
	case q.Port != "":
		return fromPort(e, q)
	}
	return fromRemote(e, q)
}

func fromPort(e *State, q api.TraceQuery) (entry, error) {
	a, err := attachment(e, q)
	if err != nil {
		return entry{}, err
	}
	from := entry{input: datapath.TraceInput{Port: a.Name}}
	from.segment, _ = segment(e, a.Segment)
	if a.VLAN != 0 {
		from.tags = append(from.tags, a.VLAN)
	}
	if q.VLAN != 0 && (q.VLAN != a.VLAN || a.Name == q.Port) { // not the one that chose the member
		from.tags = append(from.tags, q.VLAN)
	}
	return from, nil
}

func fromRemote(e *State, q api.TraceQuery) (entry, error) {
	from := entry{input: datapath.TraceInput{Remote: q.Remote, Segment: q.Segment}}
	if q.VLAN != 0 {
		from.tags = []uint16{q.VLAN}
	}
	var names []string
	for _, s := range plan.Segments(e.Config) {
		if plan.SendsTo(s, q.Remote) {
			names = append(names, s.Name)
		}
	}
	known := false
	from.segment, known = segment(e, q.Segment)
	switch {
	case q.Segment == "":
		return from, fmt.Errorf("name the segment too; with remote %s are: %s", q.Remote, strings.Join(names, ", "))
	case !known || from.segment.VNI == 0:
		return from, fmt.Errorf("there is no segment %q with tunnels; with remote %s are: %s", q.Segment, q.Remote, strings.Join(names, ", "))
	}
	return from, nil
}

func segment(e *State, name string) (overlay.Segment, bool) {
	all := plan.AllSegments(e.Config, e.Host)
	i := slices.IndexFunc(all, func(s overlay.Segment) bool { return s.Name == name })
	if i < 0 {
		return overlay.Segment{}, false
	}
	return all[i], true
}

// attachment is the port of q, or the member of a trunk that q.VLAN chooses.
func attachment(e *State, q api.TraceQuery) (plan.Attachment, error) {
	all := plan.Attachments(e.Config)
	i := slices.IndexFunc(all, func(a plan.Attachment) bool { return a.Trunk == q.Port && a.VLAN == q.VLAN && q.VLAN != 0 })
	if i < 0 {
		i = slices.IndexFunc(all, func(a plan.Attachment) bool { return a.Name == q.Port })
	}
	var names []string
	for _, a := range all {
		names = append(names, a.Name)
	}
	switch {
	case i < 0:
		return plan.Attachment{}, fmt.Errorf("there is no port %q; ports: %s", q.Port, strings.Join(names, ", "))
	case portState(e.Host, all[i]) == stateAbsent:
		return plan.Attachment{}, fmt.Errorf("port %s: interface %s does not exist", q.Port, all[i].Interface)
	}
	return all[i], nil
}

// sourceMAC is that of the host with the packet's source address or, between
// routers, of the one behind the remote.
func sourceMAC(e *State, from entry, p trace.Packet, macs map[segmentAddr]overlay.MAC) (overlay.MAC, error) {
	if mac, ok := macs[segmentAddr{from.segment.Name, p.Src}]; ok && p.Src.IsValid() {
		return mac, nil
	}
	for _, r := range e.Config.Routers {
		for _, route := range r.Routes {
			for _, via := range route.Via {
				if via.Remote.IsValid() && via.Remote == from.input.Remote && r.SegmentName() == from.segment.Name {
					return via.MAC, nil
				}
			}
		}
	}
	return overlay.MAC{}, unknownMAC(p.Src, from.segment.Name, "--src-mac")
}

// destinationMAC is what a host of the segment would send the packet to.
func destinationMAC(from entry, p trace.Packet, macs map[segmentAddr]overlay.MAC) (overlay.MAC, error) {
	group, isGroup := trace.GroupMAC(p.Dst)
	known, isKnown := macs[segmentAddr{from.segment.Name, p.Dst}]
	gateway, onLink, own := from.segment.Gateway, false, false
	if gateway != nil {
		onLink = slices.ContainsFunc(gateway.Addresses, func(a netip.Prefix) bool { return a.Contains(p.Dst) })
		own = slices.ContainsFunc(gateway.Addresses, func(a netip.Prefix) bool { return a.Addr() == p.Dst })
	}
	switch {
	case p.ARP():
		return trace.Broadcast, nil
	case !p.Dst.IsValid():
	case isGroup:
		return group, nil
	case own:
		return gateway.MAC, nil
	case isKnown:
		return known, nil
	case gateway != nil && !onLink:
		return gateway.MAC, nil
	}
	return overlay.MAC{}, unknownMAC(p.Dst, from.segment.Name, "--dst-mac")
}

func unknownMAC(addr netip.Addr, segment, flag string) error {
	if !addr.IsValid() {
		return fmt.Errorf("without IP addresses, MAC addresses cannot be looked up: give %s", flag)
	}
	return fmt.Errorf("the MAC address of %s in segment %s is not known: give it with %s", addr, segment, flag)
}
