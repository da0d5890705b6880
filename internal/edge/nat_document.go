package edge

import (
	"cmp"
	"container/heap"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/problem"
)

// NATSessionQuery chooses sessions. What is zero chooses nothing.
type NATSessionQuery struct {
	Policy string
	Router string
	Proto  string       // a name or a number
	Addr   netip.Prefix // of any of the three ends
	State  string
	Limit  int    // of sessions, or of lines; 0: all
	Top    string // one of NATSessionKinds: sums by that, not sessions
}

// NATSessionKinds are what sessions can be summed up by.
var NATSessionKinds = []string{"sources", "destinations", "addresses", "policies"}

// The query's fields in the URL, beside those of sessions.
const argPolicy, argRouter = "policy", "router"

func (q NATSessionQuery) values() url.Values {
	v := SessionQuery{Proto: q.Proto, Addr: q.Addr, State: q.State, Limit: q.Limit}.values()
	for name, value := range map[string]string{argPolicy: q.Policy, argRouter: q.Router, argTop: q.Top} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return v
}

// natSessionQueryOf reads what values writes.
func natSessionQueryOf(v url.Values) (q NATSessionQuery, err error) {
	q = NATSessionQuery{Policy: v.Get(argPolicy), Router: v.Get(argRouter), Top: v.Get(argTop)}
	if q.Top != "" && !slices.Contains(NATSessionKinds, q.Top) {
		return q, mistake{fmt.Errorf("%s: %q is none of %s", argTop, q.Top, strings.Join(NATSessionKinds, ", "))}
	}
	shared := url.Values{}
	for _, name := range []string{argProto, argAddr, argState, argLimit} {
		if v.Has(name) {
			shared.Set(name, v.Get(name))
		}
	}
	s, err := sessionQueryOf(shared)
	q.Proto, q.Addr, q.State, q.Limit = s.Proto, s.Addr, s.State, s.Limit
	return q, err
}

// matcher is the query as it is asked about each session.
func (q NATSessionQuery) matcher() (func(*datapath.NATSession) bool, error) {
	proto, err := protoNumber(q.Proto)
	if err != nil {
		return nil, mistake{fmt.Errorf("%s: %w", argProto, err)}
	}
	return func(b *datapath.NATSession) bool {
		return (q.Policy == "" || b.Policy == q.Policy) && (q.Router == "" || b.Router == q.Router) &&
			(proto < 0 || int(b.Proto) == proto) && (q.State == "" || b.State == q.State) && q.hasAddr(b)
	}, nil
}

func (q NATSessionQuery) hasAddr(b *datapath.NATSession) bool {
	return !q.Addr.IsValid() || q.Addr.Contains(b.Inside.Addr()) || q.Addr.Contains(b.Egress.Addr()) || q.Addr.Contains(b.Outside.Addr())
}

func (e *edge) natSessionDocument(v url.Values) (NATSessionList, error) {
	q, err := natSessionQueryOf(v)
	if err != nil {
		return NATSessionList{}, err
	}
	match, err := q.matcher()
	if err != nil {
		return NATSessionList{}, err
	}
	return read(e, "NAT sessions", func() (NATSessionList, error) {
		if e.config.Egress == nil {
			return NATSessionList{}, noEgress()
		}
		if q.Top != "" {
			return e.topNATSessions(q, match)
		}
		return e.listNATSessions(q, match)
	})
}

func natSessionVolume(b *datapath.NATSession) uint64 { return b.Orig.Bytes + b.Reply.Bytes }

// quietestNATSessions is a heap, from which the session with the fewest bytes goes first.
type quietestNATSessions []datapath.NATSession

func (l quietestNATSessions) Len() int { return len(l) }
func (l quietestNATSessions) Less(i, j int) bool {
	return natSessionVolume(&l[i]) < natSessionVolume(&l[j])
}
func (l quietestNATSessions) Swap(i, j int) { l[i], l[j] = l[j], l[i] }

// Push is heap.Interface's.
func (l *quietestNATSessions) Push(b any) { *l = append(*l, b.(datapath.NATSession)) }

// Pop is heap.Interface's.
func (l *quietestNATSessions) Pop() any {
	last := (*l)[len(*l)-1]
	*l = (*l)[:len(*l)-1]
	return last
}

// listNATSessions keeps the busiest in memory, and no others. mu is held.
func (e *edge) listNATSessions(q NATSessionQuery, match func(*datapath.NATSession) bool) (NATSessionList, error) {
	list := NATSessionList{Sessions: []NATSessionInfo{}}
	var busiest quietestNATSessions
	err := e.dp.EachNATSession(func(b *datapath.NATSession) bool {
		list.Total++
		if !match(b) {
			return true
		}
		list.Matched++
		switch {
		case q.Limit == 0:
			busiest = append(busiest, *b)
		case len(busiest) < q.Limit:
			heap.Push(&busiest, *b)
		case natSessionVolume(b) > natSessionVolume(&busiest[0]):
			busiest[0] = *b
			heap.Fix(&busiest, 0)
		}
		return true
	})
	slices.SortFunc(busiest, func(a, b datapath.NATSession) int {
		return cmp.Or(cmp.Compare(natSessionVolume(&b), natSessionVolume(&a)), a.Inside.Compare(b.Inside), a.Outside.Compare(b.Outside),
			cmp.Compare(a.Proto, b.Proto), cmp.Compare(a.Router, b.Router))
	})
	for i := range busiest {
		list.Sessions = append(list.Sessions, natSessionInfo(&busiest[i]))
	}
	return list, err
}

func natSessionInfo(b *datapath.NATSession) NATSessionInfo {
	info := NATSessionInfo{
		Policy: b.Policy, Router: b.Router, Proto: ipProto(b.Proto), Inside: b.Inside.Addr(), InsidePort: b.Inside.Port(),
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

// topNATSessions sums up. mu is held.
func (e *edge) topNATSessions(q NATSessionQuery, match func(*datapath.NATSession) bool) (NATSessionList, error) {
	list := NATSessionList{Top: []TopInfo{}}
	sums := make(map[any]*TopInfo)
	err := e.dp.EachNATSession(func(b *datapath.NATSession) bool {
		list.Total++
		if !match(b) || b.Mapping {
			return true
		}
		list.Matched++
		key := natSessionKey(q.Top, b)
		sum, ok := sums[key]
		if !ok {
			sum = &TopInfo{}
			sums[key] = sum
		}
		sum.Sessions++
		if !b.Answered {
			sum.HalfOpen++
		}
		sum.Packets += b.Orig.Packets + b.Reply.Packets
		sum.Bytes += natSessionVolume(b)
		return true
	})
	for key, sum := range sums {
		sum.What = fmt.Sprint(key)
		list.Top = append(list.Top, *sum)
	}
	slices.SortFunc(list.Top, func(a, b TopInfo) int {
		return cmp.Or(cmp.Compare(b.Sessions, a.Sessions), cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.What, b.What))
	})
	if q.Limit > 0 && len(list.Top) > q.Limit {
		list.Top = list.Top[:q.Limit]
	}
	return list, err
}

func natSessionKey(by string, b *datapath.NATSession) any {
	switch by {
	case "sources":
		return b.Inside.Addr()
	case "destinations":
		return b.Outside
	case "addresses":
		return b.Egress.Addr()
	}
	return b.Policy
}

func (e *edge) natDocument() (NATInfo, error) {
	return read(e, "NAT", func() (NATInfo, error) {
		if e.config.Egress == nil {
			return NATInfo{}, noEgress()
		}
		events, err := e.dp.Events()
		if err != nil {
			return NATInfo{}, err
		}
		c := e.natGuard.gcStats
		info := NATInfo{
			SweptAt: e.natGuard.sweptAt, Sessions: c.Sessions, Mappings: c.Mappings, Replicas: c.Replicas,
			States: []StateInfo{}, Tables: tableInfos(e.dp.NATTables(c)), Events: []EventInfo{}, LogLost: e.logLost.Load(),
			Problems: append([]problem.Problem{}, e.natGuard.problems...),
		}
		for _, name := range datapath.StateNames {
			info.States = append(info.States, StateInfo{Name: name, Sessions: c.States[name]})
		}
		for _, event := range natEvents {
			event.Count = events[event.Name]
			info.Events = append(info.Events, event)
		}
		return info, nil
	})
}

// natEvents are the events of bpf/core/reasons.h that are about NAT. A test compares names and
// texts.
var natEvents = []EventInfo{
	{Name: "nat-created", Description: "NAT sessions created"},
	{Name: "nat-next-address", Description: "NAT sessions that took another address of the pool"},
	{Name: "nat-retried", Description: "ports that NAT tried and found in use"},
	{Name: "nat-deleted", Description: "NAT sessions deleted"},
	{Name: eventNATEventsLost, Description: "NAT events not sent to the log and to other gateways"},
}

func tableInfos(tables []datapath.Table) []TableInfo {
	list := []TableInfo{}
	for _, t := range tables {
		table := TableInfo{Name: t.Name, Size: t.Size, Bytes: t.Bytes}
		if t.Used >= 0 {
			table.Used = &t.Used
		}
		list = append(list, table)
	}
	return list
}

// portUsageMost bounds the lines of a question without a limit.
const portUsageMost = 1000

func (e *edge) portUsageDocument(v url.Values) ([]PortUsageInfo, error) {
	most := portUsageMost
	if text := v.Get(argLimit); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, mistake{fmt.Errorf("%s: %q is not a number from 0 on", argLimit, text)}
		}
		if n > 0 {
			most = n
		}
	}
	return read(e, "port usage", func() ([]PortUsageInfo, error) {
		if e.config.Egress == nil {
			return nil, noEgress()
		}
		pressures, err := e.dp.PortUsages(most)
		list := make([]PortUsageInfo, 0, len(pressures))
		for _, p := range pressures {
			list = append(list, PortUsageInfo{
				Policy: p.Policy, Router: p.Router, Proto: ipProto(p.Proto), Egress: p.Egress,
				Outside: p.Outside.Addr(), OutsidePort: p.Outside.Port(), Used: p.Used, Size: p.Size,
			})
		}
		return list, err
	})
}
