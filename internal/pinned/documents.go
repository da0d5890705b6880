package pinned

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/apiserver"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/problem"
)

// why stands where an answer needs a process that observes.
const why = "the edge does not run"

func (e *Edge) status() (api.Status, error) {
	stats, err := e.reader.Stats()
	if err != nil {
		return api.Status{}, err
	}
	s := api.Status{
		Name: e.name, Pins: e.dir, Config: e.configPath, TEP: e.reader.TEP(), Segments: []api.SegmentInfo{},
		FDB:       api.Usage{Used: stats.FDBUsed, Size: e.reader.FDBSize()},
		FlowCache: e.config == nil || e.config.FlowCache.Enabled, LookUps: alarm.ReadFlowCache(time.Time{}, stats).LookUps,
		Hits: stats.Hits, Misses: stats.Misses, Dropped: stats.Dropped, Problems: e.problems(),
	}
	if e.config != nil {
		s.TEP = e.config.Underlay.TEP
	}
	apiserver.CountFlows(&s, stats.Caches)
	s.Verdict = problem.Sum(s.Problems)
	segments, err := e.reader.Segments()
	if err != nil {
		return s, err
	}
	for _, g := range segments {
		s.Segments = append(s.Segments, e.segment(g))
	}
	ports, err := e.ports()
	if err != nil {
		return s, err
	}
	for _, p := range ports {
		s.Ports.Count(p.State == "up")
	}
	teps, err := e.teps()
	for _, t := range teps {
		s.TEPs.Count(t.State == "resolved")
	}
	return s, err
}

// problems are that it does not run, and what makes the answers doubtful.
func (e *Edge) problems() []problem.Problem {
	list := []problem.Problem{problem.Error("the edge does not run: its data path goes on as it was, but learned entries do not age, and changes of "+
		"routes, MTUs, interfaces and BGP are not followed: %s", api.RestartOrRemove(cmp.Or(e.configPath, "FILE"), e.name))}
	for _, what := range e.doubts() {
		list = append(list, problem.Warning("%s", what))
	}
	return list
}

func (e *Edge) segment(g datapath.PinnedSegment) api.SegmentInfo {
	info := api.SegmentInfo{
		Name: g.Name, VNI: g.VNI, Encapsulation: g.Encapsulation, UDPPort: g.UDPPort, Ports: g.Ports, Remotes: g.Remotes,
		Router: g.Router, Gateway: []netip.Prefix{}, Generation: g.Generation,
	}
	for _, s := range e.segments {
		if s.Name == g.Name && s.Gateway != nil {
			info.Gateway = append(info.Gateway, s.Gateway.Addresses...)
		}
	}
	return info
}

func (e *Edge) ports() ([]api.PortInfo, error) {
	ports, err := e.reader.Ports()
	if err != nil {
		return nil, err
	}
	limits, err := e.limits()
	if err != nil {
		return nil, err
	}
	list := []api.PortInfo{}
	for _, p := range ports {
		dev, a := e.device(p.Ifindex), e.attached[p.Name]
		info := api.PortInfo{
			Name: p.Name, Interface: cmp.Or(a.Interface, dev.Name), Ifindex: p.Ifindex, VLAN: p.VLAN, Trunk: a.Trunk, Router: a.Router,
			Segment: p.Segment, State: e.state(dev), Deliver: "redirect", MTU: p.MTU,
			RxPackets: p.Rx.Packets, RxBytes: p.Rx.Bytes, TxPackets: p.Tx.Packets, TxBytes: p.Tx.Bytes, Drops: p.Drops,
			Limits: []api.LimitInfo{},
		}
		info.Hook = e.hook(p.Ifindex)
		if p.Peer {
			info.Deliver = "peer"
		}
		for _, l := range limits {
			if l.Kind == string(datapath.OwnerPort) && l.Owner == p.Name {
				info.Limits = append(info.Limits, l)
			}
		}
		list = append(list, info)
	}
	return list, nil
}

// state is that of an interface by now; "" where that cannot be seen.
func (e *Edge) state(dev net.Interface) string {
	const up = net.FlagUp | net.FlagRunning
	switch {
	case e.elsewhere:
		return ""
	case dev.Index == 0:
		return "absent"
	case dev.Flags&up == up:
		return "up"
	}
	return "down"
}

// hook is where packets of an interface are taken first.
func (e *Edge) hook(ifindex int) string {
	for role, hook := range map[string]string{datapath.HookedXDP: "xdp", datapath.HookedGeneric: "xdpgeneric"} {
		if slices.Contains(e.hooks, datapath.Hook{Role: role, Ifindex: ifindex}) {
			return hook
		}
	}
	for _, role := range []string{datapath.HookedPort, datapath.HookedUnderlay} {
		if slices.Contains(e.hooks, datapath.Hook{Role: role, Ifindex: ifindex}) {
			return "tcx"
		}
	}
	return ""
}

// interfaces are those of the underlay, then uplinks.
func (e *Edge) interfaces() ([]api.InterfaceInfo, error) {
	list := []api.InterfaceInfo{}
	add := func(ifindex int, role string) {
		i := slices.IndexFunc(list, func(o api.InterfaceInfo) bool { return o.Ifindex == ifindex })
		if i < 0 {
			i = len(list)
			dev := e.device(ifindex)
			list = append(list, api.InterfaceInfo{Name: dev.Name, Ifindex: ifindex, Hook: e.hook(ifindex), MTU: dev.MTU, RedirectWhy: why})
		}
		if !slices.Contains(list[i].Roles, role) {
			list[i].Roles = append(list[i].Roles, role)
		}
	}
	for _, h := range e.hooks {
		if h.Role == datapath.HookedUnderlay {
			add(h.Ifindex, "underlay")
		}
	}
	ports, err := e.reader.Ports()
	for _, p := range ports {
		if p.Uplink {
			add(p.Ifindex, "uplink")
		}
	}
	return list, err
}

func (e *Edge) teps() ([]api.TEPInfo, error) {
	remotes, err := e.reader.Remotes()
	if err != nil {
		return nil, err
	}
	list := []api.TEPInfo{}
	for _, r := range remotes {
		info := api.TEPInfo{Address: r.Addr, Segments: append([]string{}, r.Segments...), State: "unresolved", Paths: []api.PathInfo{}}
		if e.config != nil {
			info.Name = e.config.Remote(r.Addr).Name
		}
		for i, p := range r.Paths {
			path := api.PathInfo{
				Local: p.Local, Remote: p.Remote, Interface: e.device(p.Ifindex).Name, State: "unknown", Why: why, MTU: p.MTU, PathMTU: p.MTU,
				Shares: []api.ShareInfo{}, TxPackets: p.Tx.Packets, TxBytes: p.Tx.Bytes,
			}
			if p.Down {
				path.State = "down"
			}
			info.Paths = append(info.Paths, path)
			if i == 0 {
				info.Interface = path.Interface
			}
			if info.NextMAC == "" && p.NextMAC != (overlay.MAC{}) {
				info.Interface, info.NextMAC, info.State = path.Interface, p.NextMAC.String(), "resolved"
			}
			if info.MTU == 0 || p.MTU < info.MTU {
				info.MTU, info.PathMTU = p.MTU, p.MTU
			}
			info.RxPackets, info.RxBytes = info.RxPackets+p.Rx.Packets, info.RxBytes+p.Rx.Bytes
			info.TxPackets, info.TxBytes = info.TxPackets+p.Tx.Packets, info.TxBytes+p.Tx.Bytes
		}
		if e.config != nil {
			info.InnerMTU = plan.InnerMTU(*e.config, r.Addr, info.PathMTU)
		}
		list = append(list, info)
	}
	return list, nil
}

func (e *Edge) flowCache() (api.FlowCacheInfo, error) {
	at := time.Now() // counters are read before entries are counted
	stats, err := e.reader.Stats()
	info := alarm.ReadFlowCache(at, stats)
	info.Enabled = e.config == nil || e.config.FlowCache.Enabled
	return info, err
}

func (e *Edge) drops() ([]api.DropInfo, error) {
	drops, err := e.reader.Drops()
	list := make([]api.DropInfo, 0, len(drops))
	for _, d := range drops {
		list = append(list, api.DropInfo(d))
	}
	return list, err
}

func (e *Edge) limits() ([]api.LimitInfo, error) {
	usages, err := e.reader.LimitUsages()
	return append([]api.LimitInfo{}, alarm.LimitInfos(usages)...), err
}
