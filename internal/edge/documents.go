package edge

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/problem"
)

// fullAt is the filling of the FDB, in percent, that is a problem.
const fullAt = 95

// States of ports and TEPs, ways of delivery, and what is sent everywhere.
const (
	stateUp, stateDown, stateAbsent                 = "up", "down", "absent"
	stateResolved, stateUnresolved, stateNoRoute    = "resolved", "unresolved", "no route"
	deliverPeer, deliverRedirect, hookTCX, outFlood = "peer", "redirect", "tcx", "flood"
)

// read holds the edge still while f makes a document of it.
func read[T any](e *edge, what string, f func() (T, error)) (document T, err error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.dp == nil {
		return document, fmt.Errorf("%s: the data path was lost, the edge stops", what)
	}
	if document, err = f(); err != nil {
		return document, fmt.Errorf("read %s: %w", what, err)
	}
	return document, nil
}

func (e *edge) statusDocument() (api.Status, error) {
	return read(e, "status", func() (api.Status, error) {
		stats, err := e.dp.Flows.Stats()
		if err != nil {
			return api.Status{}, err
		}
		netns, err := e.ns.inode()
		if err != nil {
			return api.Status{}, err
		}
		s := api.Status{
			Name: e.config.Name, Version: e.opts.Version, PID: os.Getpid(), NetNS: netns, Started: e.started,
			Config: e.opts.ConfigPath, Adopted: e.adopted, TEP: e.config.Underlay.TEP,
			Segments:  segmentInfos(e.config, e.hostState, stats.Generations),
			FDB:       api.Usage{Used: stats.FDBUsed, Size: e.config.FDB.Size},
			FlowCache: e.config.FlowCache.Enabled, LookUps: lookUps(stats),
			Hits: stats.Hits, Misses: stats.Misses, Dropped: stats.Dropped,
			Problems: append([]problem.Problem{}, e.allProblems()...),
		}
		CountFlows(&s, stats.Caches)
		s.Firewall, s.NAT, s.BGP = e.firewallUse(), e.natUse(), e.bgpUse()
		for _, a := range plan.Attachments(e.config) {
			s.Ports.Count(portState(e.hostState, a) == stateUp)
		}
		for _, remote := range plan.Remotes(e.config) {
			s.TEPs.Count(tepState(e.config, e.hostState, remote) == stateResolved)
		}
		unresolved, err := e.unresolvedHops()
		if err != nil {
			return api.Status{}, err
		}
		s.Problems = append(s.Problems, unresolved...)
		if s.FDB.Used*100 >= int(s.FDB.Size)*fullAt {
			s.Problems = append(s.Problems, problem.Warning(
				"FDB: %d of %d entries are in use: raise spec.fdb.size, or frames to hosts that do not fit are flooded", s.FDB.Used, s.FDB.Size))
		}
		for _, warning := range e.config.Warnings {
			s.Problems = append(s.Problems, problem.Warning("%s", warning))
		}
		switch alarm, text := e.cacheAlarm(); alarm {
		case "":
		case alarmOff: // somebody wanted it
			s.Problems = append(s.Problems, problem.Note("%s", text))
		default:
			s.Problems = append(s.Problems, problem.Warning("%s", text))
		}
		slices.SortStableFunc(s.Problems, worstFirst)
		s.Verdict = problem.Sum(s.Problems)
		return s, nil
	})
}

// worstFirst orders problems by severity.
func worstFirst(a, b problem.Problem) int {
	order := []problem.Severity{problem.SeverityError, problem.SeverityWarning, problem.SeverityNote}
	return cmp.Compare(slices.Index(order, a.Severity), slices.Index(order, b.Severity))
}

// CountFlows notes how full the flow caches are.
func CountFlows(s *api.Status, caches []datapath.Cache) {
	for _, c := range caches {
		usage := api.Usage{Used: c.Used, Size: uint32(c.Size)}
		if c.Name == datapath.CacheTransit {
			s.Transit = &usage
			continue
		}
		s.Flows = usage
	}
}

// firewallUse is nil without one.
func (e *edge) firewallUse() *api.FirewallUse {
	fw := e.config.Firewall
	if fw == nil {
		return nil
	}
	return &api.FirewallUse{
		Rules:       len(e.ruled.policy.Rules()),
		Connections: api.Usage{Used: e.guard.gcStats.Connections, Size: fw.Sizes.Connections},
		HalfOpen:    api.Usage{Used: e.guard.gcStats.Waiting, Size: fw.Sizes.HalfOpen},
	}
}

func segmentInfos(e overlay.Edge, v host.State, generations map[string]uint32) []api.SegmentInfo {
	ports := make(map[string]int)
	for _, a := range plan.Attachments(e) {
		ports[a.Segment]++
	}
	segments := plan.AllSegments(e, v)
	list := make([]api.SegmentInfo, 0, len(segments))
	for _, s := range segments {
		info := api.SegmentInfo{
			Name: s.Name, VNI: s.VNI, Encapsulation: s.Tunnel.Encapsulation, UDPPort: s.Tunnel.UDPPort,
			Ports: ports[s.Name], Remotes: len(s.Remotes), Gateway: []netip.Prefix{}, Generation: generations[s.Name],
		}
		if s.Gateway != nil {
			info.Router, info.Gateway = s.Gateway.Router, append(info.Gateway, s.Gateway.Addresses...)
		}
		list = append(list, info)
	}
	return list
}

func (e *edge) portDocuments() ([]api.PortInfo, error) {
	return read(e, "ports", func() ([]api.PortInfo, error) {
		counters, err := e.dp.Counters.Ports()
		if err != nil {
			return nil, err
		}
		limits, err := e.portLimits()
		if err != nil {
			return nil, err
		}
		attachments := plan.Attachments(e.config)
		list := make([]api.PortInfo, 0, len(attachments))
		for _, a := range attachments {
			c := counters[a.Name]
			info := api.PortInfo{
				Name: a.Name, Interface: a.Interface, VLAN: a.VLAN, Trunk: a.Trunk, Router: a.Router, Segment: a.Segment,
				State: portState(e.hostState, a), Hook: hookTCX,
				RxPackets: c.Rx.Packets, RxBytes: c.Rx.Bytes, TxPackets: c.Tx.Packets, TxBytes: c.Tx.Bytes, Drops: c.Drops,
				Limits: append([]api.LimitInfo{}, limits[a.Name]...),
			}
			if link, ok := e.hostState.Links[a.Interface]; ok {
				info.Ifindex, info.MTU, info.Deliver = link.Index, link.MTU, deliverRedirect
				if plan.ByPeer(link) {
					info.Deliver = deliverPeer
				}
			}
			if a.Router != "" {
				info.Hook, info.HookWhy = e.transitHook(a.Interface)
			}
			list = append(list, info)
		}
		return list, nil
	})
}

func portState(v host.State, a plan.Attachment) string {
	link, ok := v.Links[a.Interface]
	switch {
	case !ok:
		return stateAbsent
	case link.Up:
		return stateUp
	}
	return stateDown
}

func (e *edge) tepDocuments() ([]api.TEPInfo, error) {
	return read(e, "TEPs", func() ([]api.TEPInfo, error) {
		counters, err := e.dp.Counters.TEPs()
		if err != nil {
			return nil, err
		}
		readings, err := e.readPathReadings()
		if err != nil {
			return nil, err
		}
		remotes := plan.Remotes(e.config)
		list := make([]api.TEPInfo, 0, len(remotes))
		for _, remote := range remotes {
			info, c := tepInfo(e.config, e.hostState, remote), counters[remote]
			info.Paths = e.pathInfos(remote, readings)
			for _, p := range info.Paths {
				if info.PathMTU == 0 || p.PathMTU < info.PathMTU {
					info.PathMTU, info.PathMTUState = p.PathMTU, p.PathMTUState
				}
				if info.ReportedMTU == 0 || p.ReportedMTU != 0 && p.ReportedMTU < info.ReportedMTU {
					info.ReportedMTU = p.ReportedMTU
				}
			}
			info.InnerMTU = plan.InnerMTU(e.config, remote, info.PathMTU)
			info.RxPackets, info.RxBytes = c.Rx.Packets, c.Rx.Bytes
			info.TxPackets, info.TxBytes = c.Tx.Packets, c.Tx.Bytes
			list = append(list, info)
		}
		return list, nil
	})
}

// tepInfo is what configuration and host say about remote.
func tepInfo(e overlay.Edge, v host.State, remote netip.Addr) api.TEPInfo {
	info := api.TEPInfo{Address: remote, Name: e.Remote(remote).Name, Segments: []string{}, State: tepState(e, v, remote)}
	for _, s := range plan.Segments(e) {
		if plan.SendsTo(s, remote) {
			info.Segments = append(info.Segments, s.Name)
		}
	}
	path, ok := plan.Path(e, v, remote)
	if !ok {
		return info
	}
	info.Interface, info.NextHop, info.MTU = path.Interface, path.NextHop.Addr, path.MTU
	if (path.NextMAC != overlay.MAC{}) {
		info.NextMAC = path.NextMAC.String()
	}
	return info
}

func tepState(e overlay.Edge, v host.State, remote netip.Addr) string {
	path, ok := plan.Path(e, v, remote)
	switch {
	case !ok:
		return stateNoRoute
	case path.NextMAC == overlay.MAC{}:
		return stateUnresolved
	}
	return stateResolved
}

func (e *edge) fdbDocuments(v url.Values) (api.Entries[api.FDBEntry], error) {
	q, err := api.EntryQueryOf(v, api.ArgOrigin)
	if err != nil {
		return api.Entries[api.FDBEntry]{}, err
	}
	return read(e, "FDB", func() (api.Entries[api.FDBEntry], error) {
		entries, err := e.dp.Hosts.FDB()
		if err != nil {
			return api.Entries[api.FDBEntry]{}, err
		}
		return FDBEntries(entries, q), nil
	})
}

// FDBEntries are the entries of the FDB that a query chooses, by segment and MAC address.
func FDBEntries(entries []datapath.FDBEntry, q api.EntryQuery) api.Entries[api.FDBEntry] {
	list := []api.FDBEntry{}
	for i := range entries {
		f := &entries[i]
		if !choosesMAC(q, f) {
			continue
		}
		list = append(list, api.FDBEntry{
			Segment: f.Segment, MAC: f.MAC, Port: f.Port, Remote: f.Remote,
			Static: f.Static, Origin: string(f.Origin), Sticky: f.Sticky, Age: seconds(f.AgeNS), Moves: f.Moves,
			Frozen: f.Frozen.Seconds(), Other: f.Other,
		})
	}
	slices.SortFunc(list, func(a, b api.FDBEntry) int {
		return cmp.Or(cmp.Compare(a.Segment, b.Segment), slices.Compare(a.MAC[:], b.MAC[:]))
	})
	return limited(list, q.Limit)
}

// choosesMAC reports whether the query asks for an entry of the FDB.
func choosesMAC(q api.EntryQuery, f *datapath.FDBEntry) bool {
	return (q.Segment == "" || f.Segment == q.Segment) && (q.Port == "" || isPort(f.Port, q.Port)) && (!q.Remote.IsValid() || f.Remote == q.Remote) &&
		(q.MAC == overlay.MAC{} || f.MAC == q.MAC) && (q.Origin == "" || string(f.Origin) == q.Origin)
}

// limited leaves out what is behind a limit, if there is one.
func limited[T any](list []T, limit int) api.Entries[T] {
	entries := api.Entries[T]{List: list, Matched: len(list)}
	if limit > 0 && limit < len(list) {
		entries.List = list[:limit]
	}
	return entries
}

func (e *edge) flowDocuments(v url.Values) (api.Entries[api.FlowInfo], error) {
	q, err := api.EntryQueryOf(v, api.ArgAddr, api.ArgSlow)
	if err != nil {
		return api.Entries[api.FlowInfo]{}, err
	}
	return read(e, "flows", func() (api.Entries[api.FlowInfo], error) {
		flows, err := e.dp.Flows.Flows()
		if err != nil {
			return api.Entries[api.FlowInfo]{}, err
		}
		return FlowEntries(flows, q), nil
	})
}

// FlowEntries are the flows that a query chooses, the busiest first.
func FlowEntries(flows []datapath.Flow, q api.EntryQuery) api.Entries[api.FlowInfo] {
	list := []api.FlowInfo{}
	for i := range flows {
		if choosesFlow(q, &flows[i]) {
			list = append(list, flowInfo(flows[i]))
		}
	}
	// The busiest first; what follows only makes the order the same each time.
	slices.SortFunc(list, func(a, b api.FlowInfo) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Packets, a.Packets),
			a.Src.Compare(b.Src), a.Dst.Compare(b.Dst), cmp.Compare(a.SrcPort, b.SrcPort), cmp.Compare(a.DstPort, b.DstPort))
	})
	return limited(list, q.Limit)
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

func (e *edge) dropDocuments() ([]api.DropInfo, error) {
	return read(e, "drops", func() ([]api.DropInfo, error) {
		drops, err := e.dp.Drops.Drops()
		if err != nil {
			return nil, err
		}
		list := make([]api.DropInfo, 0, len(drops))
		for _, d := range drops {
			list = append(list, api.DropInfo(d))
		}
		return list, nil
	})
}

func seconds(ns uint64) float64 { return time.Duration(ns).Seconds() }
