package apiserver

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sort"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
)

// connectionTable is a table of connections that questions are asked about: a C is one of
// them in the data path, an Info what users see of it.
type connectionTable[C, Info any] struct {
	each  func(do func(*C) bool) error
	base  func(*C) *datapath.Connection
	ends  func(*C) [3]netip.Addr
	match func(*C) bool     // the fields of the query that this table alone has
	order func(a, b *C) int // of those with the same bytes
	infos func([]C) ([]Info, error)
	topBy func(*C) any // what to sum up by
}

// answer lists the busiest connections that q chooses, or sums them up.
func (t *connectionTable[C, Info]) answer(q api.ConnectionQuery) (list api.ConnectionList[Info], err error) {
	busiest := busiestConnections[C]{limit: q.Limit, base: t.base, order: t.order}
	sums := make(map[any]*api.TopInfo)
	take := busiest.add
	if q.Top != "" {
		take = func(c *C) { addTo(sums, t.topBy(c), t.base(c)) }
	}
	err = t.each(func(c *C) bool {
		list.Total++
		if choosesConnection(&q, t.base(c), t.ends(c)) && t.match(c) {
			list.Matched++
			take(c)
		}
		return true
	})
	if err != nil {
		return list, err
	}
	if q.Top != "" {
		list.Top = topOf(sums, q.Limit)
		return list, nil
	}
	list.Sessions, err = t.infos(busiest.sorted())
	return list, err
}

// choosesConnection asks for the fields that all tables have.
func choosesConnection(q *api.ConnectionQuery, c *datapath.Connection, ends [3]netip.Addr) bool {
	return (q.ProtocolNumber < 0 || int(c.Proto) == q.ProtocolNumber) && (q.State == "" || c.State == q.State) &&
		(!q.Addr.IsValid() || slices.ContainsFunc(ends[:], q.Addr.Contains))
}

// busiestConnections keeps those with the most bytes in memory, and not many others.
type busiestConnections[C any] struct {
	limit int // 0: all
	base  func(*C) *datapath.Connection
	order func(a, b *C) int
	list  []C
	cut   bool // there were more: at limit-1 is the last one that is still among them
}

func (b *busiestConnections[C]) add(c *C) {
	if b.cut && !b.before(c, &b.list[b.limit-1]) {
		return
	}
	b.list = append(b.list, *c)
	if b.limit > 0 && len(b.list)/2 >= b.limit {
		b.list, b.cut = b.sorted(), true
	}
}

func (b *busiestConnections[C]) before(x, y *C) bool {
	if m, n := b.base(x).Bytes(), b.base(y).Bytes(); m != n {
		return m > n
	}
	return b.order(x, y) < 0
}

// sorted are the busiest, first the one with the most bytes.
func (b *busiestConnections[C]) sorted() []C {
	sort.Slice(b.list, func(i, j int) bool { return b.before(&b.list[i], &b.list[j]) })
	if b.limit > 0 {
		return b.list[:min(b.limit, len(b.list))]
	}
	return b.list
}

func addTo(sums map[any]*api.TopInfo, key any, c *datapath.Connection) {
	sum, ok := sums[key]
	if !ok {
		sum = &api.TopInfo{}
		sums[key] = sum
	}
	sum.Sessions++
	if !c.Answered {
		sum.HalfOpen++
	}
	sum.Packets += c.Packets()
	sum.Bytes += c.Bytes()
}

// topOf are the sums with the most connections.
func topOf(sums map[any]*api.TopInfo, limit int) []api.TopInfo {
	list := make([]api.TopInfo, 0, len(sums))
	for key, sum := range sums {
		sum.What = fmt.Sprint(key)
		list = append(list, *sum)
	}
	slices.SortFunc(list, func(a, b api.TopInfo) int {
		return cmp.Or(cmp.Compare(b.Sessions, a.Sessions), cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.What, b.What))
	})
	if limit > 0 {
		return list[:min(limit, len(list))]
	}
	return list
}

// stateInfos are connections by state, in the order of states.
func stateInfos(counts map[string]int) []api.StateInfo {
	list := []api.StateInfo{}
	for _, name := range datapath.StateNames {
		list = append(list, api.StateInfo{Name: name, Sessions: counts[name]})
	}
	return list
}

// eventInfos are events as they are counted.
func eventInfos(events []api.EventInfo, counts map[string]uint64) []api.EventInfo {
	list := []api.EventInfo{}
	for _, event := range events {
		event.Count = counts[event.Name]
		list = append(list, event)
	}
	return list
}

func tableInfos(tables []datapath.Table) []api.TableInfo {
	list := []api.TableInfo{}
	for _, t := range tables {
		table := api.TableInfo{Name: t.Name, Size: t.Size, Bytes: t.Bytes}
		if t.Used >= 0 {
			table.Used = &t.Used
		}
		list = append(list, table)
	}
	return list
}
