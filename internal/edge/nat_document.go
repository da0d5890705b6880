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
)

// BindingQuery chooses bindings. What is zero chooses nothing.
type BindingQuery struct {
	Policy string
	Router string
	Proto  string       // a name or a number
	Addr   netip.Prefix // of any of the three ends
	State  string
	Limit  int    // of bindings, or of lines; 0: all
	Top    string // one of BindingKinds: sums by that, not bindings
}

// BindingKinds are what bindings can be summed up by.
var BindingKinds = []string{"sources", "destinations", "addresses", "policies"}

// The query's fields in the URL, beside those of sessions.
const argPolicy, argRouter = "policy", "router"

func (q BindingQuery) values() url.Values {
	v := SessionQuery{Proto: q.Proto, Addr: q.Addr, State: q.State, Limit: q.Limit}.values()
	for name, value := range map[string]string{argPolicy: q.Policy, argRouter: q.Router, argTop: q.Top} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return v
}

// bindingQueryOf reads what values writes.
func bindingQueryOf(v url.Values) (q BindingQuery, err error) {
	q = BindingQuery{Policy: v.Get(argPolicy), Router: v.Get(argRouter), Top: v.Get(argTop)}
	if q.Top != "" && !slices.Contains(BindingKinds, q.Top) {
		return q, mistake{fmt.Errorf("%s: %q is none of %s", argTop, q.Top, strings.Join(BindingKinds, ", "))}
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

// matcher is the query as it is asked about each binding.
func (q BindingQuery) matcher() (func(*datapath.Binding) bool, error) {
	proto, err := protoNumber(q.Proto)
	if err != nil {
		return nil, mistake{fmt.Errorf("%s: %w", argProto, err)}
	}
	return func(b *datapath.Binding) bool {
		return (q.Policy == "" || b.Policy == q.Policy) && (q.Router == "" || b.Router == q.Router) &&
			(proto < 0 || int(b.Proto) == proto) && (q.State == "" || b.State == q.State) && q.hasAddr(b)
	}, nil
}

func (q BindingQuery) hasAddr(b *datapath.Binding) bool {
	return !q.Addr.IsValid() || q.Addr.Contains(b.Inside.Addr()) || q.Addr.Contains(b.Egress.Addr()) || q.Addr.Contains(b.Outside.Addr())
}

func (e *edge) bindingDocument(v url.Values) (BindingList, error) {
	q, err := bindingQueryOf(v)
	if err != nil {
		return BindingList{}, err
	}
	match, err := q.matcher()
	if err != nil {
		return BindingList{}, err
	}
	return read(e, "bindings", func() (BindingList, error) {
		if e.config.Egress == nil {
			return BindingList{}, noEgress()
		}
		if q.Top != "" {
			return e.topBindings(q, match)
		}
		return e.listBindings(q, match)
	})
}

func bindingVolume(b *datapath.Binding) uint64 { return b.Forth.Bytes + b.Back.Bytes }

// quietestBindings is a heap, from which the binding with the fewest bytes goes first.
type quietestBindings []datapath.Binding

func (l quietestBindings) Len() int           { return len(l) }
func (l quietestBindings) Less(i, j int) bool { return bindingVolume(&l[i]) < bindingVolume(&l[j]) }
func (l quietestBindings) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }

// Push is heap.Interface's.
func (l *quietestBindings) Push(b any) { *l = append(*l, b.(datapath.Binding)) }

// Pop is heap.Interface's.
func (l *quietestBindings) Pop() any {
	last := (*l)[len(*l)-1]
	*l = (*l)[:len(*l)-1]
	return last
}

// listBindings keeps the busiest in memory, and no others. mu is held.
func (e *edge) listBindings(q BindingQuery, match func(*datapath.Binding) bool) (BindingList, error) {
	list := BindingList{Bindings: []BindingInfo{}}
	var busiest quietestBindings
	err := e.dp.EachBinding(func(b *datapath.Binding) bool {
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
		case bindingVolume(b) > bindingVolume(&busiest[0]):
			busiest[0] = *b
			heap.Fix(&busiest, 0)
		}
		return true
	})
	slices.SortFunc(busiest, func(a, b datapath.Binding) int {
		return cmp.Or(cmp.Compare(bindingVolume(&b), bindingVolume(&a)), a.Inside.Compare(b.Inside), a.Outside.Compare(b.Outside),
			cmp.Compare(a.Proto, b.Proto), cmp.Compare(a.Router, b.Router))
	})
	for i := range busiest {
		list.Bindings = append(list.Bindings, bindingInfo(&busiest[i]))
	}
	return list, err
}

func bindingInfo(b *datapath.Binding) BindingInfo {
	info := BindingInfo{
		Policy: b.Policy, Router: b.Router, Proto: ipProto(b.Proto), Inside: b.Inside.Addr(), InsidePort: b.Inside.Port(),
		Egress: b.Egress.Addr(), EgressPort: b.Egress.Port(), Via: b.Via, State: b.State, Answered: b.Answered,
		Forwarded: b.Forwarded, Independent: b.Independent, Mapping: b.Mapping, Replica: b.Replica,
		Age: seconds(b.AgeNS), Idle: seconds(b.IdleNS), Left: seconds(b.LeftNS),
		ForthPackets: b.Forth.Packets, ForthBytes: b.Forth.Bytes, BackPackets: b.Back.Packets, BackBytes: b.Back.Bytes,
	}
	if !b.Mapping {
		info.Outside, info.OutsidePort = b.Outside.Addr(), b.Outside.Port()
	}
	return info
}

// topBindings sums up. mu is held.
func (e *edge) topBindings(q BindingQuery, match func(*datapath.Binding) bool) (BindingList, error) {
	list := BindingList{Top: []TopInfo{}}
	sums := make(map[any]*TopInfo)
	err := e.dp.EachBinding(func(b *datapath.Binding) bool {
		list.Total++
		if !match(b) || b.Mapping {
			return true
		}
		list.Matched++
		key := bindingKey(q.Top, b)
		sum, ok := sums[key]
		if !ok {
			sum = &TopInfo{}
			sums[key] = sum
		}
		sum.Sessions++
		if !b.Answered {
			sum.HalfOpen++
		}
		sum.Packets += b.Forth.Packets + b.Back.Packets
		sum.Bytes += bindingVolume(b)
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

func bindingKey(by string, b *datapath.Binding) any {
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
		c := e.natGuard.census
		info := NATInfo{
			SweptAt: e.natGuard.sweptAt, Bindings: c.Bindings, Mappings: c.Mappings, Replicas: c.Replicas,
			States: []StateInfo{}, Tables: tableInfos(e.dp.NATTables(c)), Events: []EventInfo{}, LogLost: e.logLost.Load(),
			Problems: append([]string{}, e.natGuard.problems...),
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
	{Name: "nat-opened", Description: "NAT bindings that began"},
	{Name: "nat-spilled", Description: "NAT bindings on another address of the pool than their first"},
	{Name: "nat-retried", Description: "ports that NAT tried and found taken"},
	{Name: "nat-ended", Description: "NAT bindings that ended"},
	{Name: eventNewsLost, Description: "NAT bindings that log and other gateways were not told of"},
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

// pressureMost bounds the lines of a question without a limit.
const pressureMost = 1000

func (e *edge) pressureDocument(v url.Values) ([]PressureInfo, error) {
	most := pressureMost
	if text := v.Get(argLimit); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, mistake{fmt.Errorf("%s: %q is not a number from 0 on", argLimit, text)}
		}
		if n > 0 {
			most = n
		}
	}
	return read(e, "pressure", func() ([]PressureInfo, error) {
		if e.config.Egress == nil {
			return nil, noEgress()
		}
		pressures, err := e.dp.Pressures(most)
		list := make([]PressureInfo, 0, len(pressures))
		for _, p := range pressures {
			list = append(list, PressureInfo{
				Policy: p.Policy, Router: p.Router, Proto: ipProto(p.Proto), Egress: p.Egress,
				Outside: p.Outside.Addr(), OutsidePort: p.Outside.Port(), Used: p.Used, Size: p.Size,
			})
		}
		return list, err
	})
}
