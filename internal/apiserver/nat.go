package apiserver

import (
	"cmp"
	"net/netip"
	"net/url"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/problem"
)

func (d documents) natSessions(v url.Values) (api.NATSessionList, error) {
	q, err := api.ConnectionQueryOf(v, datapath.StateNames[:], api.NATTopKinds, api.ArgPolicy, api.ArgRouter)
	if err != nil {
		return api.NATSessionList{}, err
	}
	return read(d.o.Edge, "NAT sessions", func(e *State) (api.NATSessionList, error) {
		if e.Config.Egress == nil {
			return api.NATSessionList{}, noEgress()
		}
		t := connectionTable[datapath.NATSession, api.NATSessionInfo]{
			each: e.DataPath.NAT.EachNATSession,
			base: func(b *datapath.NATSession) *datapath.Connection { return &b.Connection },
			ends: func(b *datapath.NATSession) [3]netip.Addr {
				return [...]netip.Addr{b.Inside.Addr(), b.Egress.Addr(), b.Outside.Addr()}
			},
			match: func(b *datapath.NATSession) bool {
				return (q.Policy == "" || b.Policy == q.Policy) && (q.Router == "" || b.Router == q.Router) && (q.Top == "" || !b.Mapping)
			},
			order: natSessionOrder, infos: natSessionInfos, topBy: topNATSessionsBy(q.Top),
		}
		return t.answer(q)
	})
}

// natSessionOrder makes the order the same each time.
func natSessionOrder(a, b *datapath.NATSession) int {
	return cmp.Or(a.Inside.Compare(b.Inside), a.Outside.Compare(b.Outside), cmp.Compare(a.Proto, b.Proto), cmp.Compare(a.Router, b.Router))
}

func topNATSessionsBy(kind string) func(*datapath.NATSession) any {
	switch kind {
	case "sources":
		return func(b *datapath.NATSession) any { return b.Inside.Addr() }
	case "destinations":
		return func(b *datapath.NATSession) any { return b.Outside }
	case "addresses":
		return func(b *datapath.NATSession) any { return b.Egress.Addr() }
	}
	return func(b *datapath.NATSession) any { return b.Policy }
}

func natSessionInfos(sessions []datapath.NATSession) ([]api.NATSessionInfo, error) {
	list := make([]api.NATSessionInfo, len(sessions))
	for i := range sessions {
		list[i] = natSessionInfo(&sessions[i])
	}
	return list, nil
}

func natSessionInfo(b *datapath.NATSession) api.NATSessionInfo {
	info := api.NATSessionInfo{
		Policy: b.Policy, Router: b.Router, Proto: api.ProtoName(b.Proto), Inside: b.Inside.Addr(), InsidePort: b.Inside.Port(),
		Egress: b.Egress.Addr(), EgressPort: b.Egress.Port(), Via: b.Via, State: b.State, Answered: b.Answered,
		Forwarded: b.Forwarded, Independent: b.Independent, Mapping: b.Mapping, Replica: b.Replica,
		Age: seconds(b.AgeNS), Idle: seconds(b.IdleNS), Left: seconds(b.LeftNS),
		OrigPackets: b.Orig.Packets, OrigBytes: b.Orig.Bytes, ReplyPackets: b.Reply.Packets, ReplyBytes: b.Reply.Bytes,
	}
	if !b.Mapping {
		info.Outside, info.OutsidePort = b.Outside.Addr(), b.Outside.Port()
	}
	return info
}

func (d documents) nat() (api.NATInfo, error) {
	return read(d.o.Edge, "NAT", func(e *State) (api.NATInfo, error) {
		if e.Config.Egress == nil {
			return api.NATInfo{}, noEgress()
		}
		events, err := e.DataPath.Drops.Events()
		if err != nil {
			return api.NATInfo{}, err
		}
		c := e.NAT.GCStats
		info := api.NATInfo{
			SweptAt: e.NAT.SweptAt, Sessions: c.Sessions, Mappings: c.Mappings, Replicas: c.Replicas,
			States: stateInfos(c.States), Tables: tableInfos(e.DataPath.Egress.NATTables(c)), Events: eventInfos(natEvents, events), LogLost: e.Replication.LogLost(),
			Problems: problem.Fold(e.NAT.Problems),
		}
		return info, nil
	})
}

// natEvents are the events of bpf/core/reasons.h that are about NAT. A test compares names and
// texts.
var natEvents = []api.EventInfo{
	{Name: "nat-created", Description: "NAT sessions created"},
	{Name: "nat-next-address", Description: "NAT sessions that took another address of the pool"},
	{Name: "nat-retried", Description: "ports that NAT tried and found in use"},
	{Name: "nat-deleted", Description: "NAT sessions deleted"},
	{Name: gateway.EventsLost, Description: "NAT events not sent to the log and to other gateways"},
}

// portUsageMost bounds the lines of a question without a limit.
const portUsageMost = 1000

func (d documents) portUsage(v url.Values) ([]api.PortUsageInfo, error) {
	a := api.Arguments{Values: v}
	most := a.Number(api.ArgLimit, 0, api.MaxLimit)
	if err := a.End(); err != nil {
		return nil, err
	}
	return read(d.o.Edge, "port usage", func(e *State) ([]api.PortUsageInfo, error) {
		if e.Config.Egress == nil {
			return nil, noEgress()
		}
		pressures, err := e.DataPath.Egress.PortUsages(cmp.Or(most, portUsageMost), 0)
		list := make([]api.PortUsageInfo, 0, len(pressures))
		for _, p := range pressures {
			list = append(list, api.PortUsageInfo{
				Policy: p.Policy, Router: p.Router, Proto: api.ProtoName(p.Proto), Egress: p.Egress,
				Outside: p.Outside.Addr(), OutsidePort: p.Outside.Port(), Used: p.Used, Size: p.Size,
			})
		}
		return list, err
	})
}
