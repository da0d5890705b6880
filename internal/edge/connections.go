package edge

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"sort"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/problem"
)

// ConnectionQuery chooses connections of the firewall's conntrack, or sessions of NAT. What
// is zero chooses nothing.
type ConnectionQuery struct {
	Port, Rule     string       // of conntrack alone; a rule is SECTION/NAME, or a section
	Policy, Router string       // of NAT alone
	Proto          string       // a name or a number
	Addr           netip.Prefix // of any end
	State          string
	Limit          int    // of connections, or of lines; 0: all
	Top            string // one of TopKinds or NATTopKinds: sums by that, not connections

	proto int // number of Proto, -1 for any; connectionQueryOf sets it
}

// The query's fields in the URL, beside argPort.
const (
	argRule, argPolicy, argRouter                 = "rule", "policy", "router"
	argProto, argAddr, argState, argLimit, argTop = "proto", "addr", "state", "limit", "top"
)

func (q ConnectionQuery) values() url.Values {
	v := url.Values{argLimit: {strconv.Itoa(q.Limit)}}
	setIf(v, argAddr, q.Addr.String(), q.Addr.IsValid())
	for name, value := range map[string]string{
		argPort: q.Port, argRule: q.Rule, argPolicy: q.Policy, argRouter: q.Router, argProto: q.Proto, argState: q.State, argTop: q.Top,
	} {
		setIf(v, name, value, value != "")
	}
	return v
}

// connectionQueryOf reads what values writes, of a table that has some parameters of its own
// and sums up by kinds.
func connectionQueryOf(v url.Values, kinds []string, own ...string) (q ConnectionQuery, err error) {
	a := arguments{values: v}
	q = ConnectionQuery{
		Proto: a.text(argProto), Addr: a.prefix(argAddr), State: a.oneOf(argState, datapath.StateNames[:]),
		Limit: a.number(argLimit, 0, maxLimit), Top: a.oneOf(argTop, kinds),
	}
	fields := map[string]*string{argPort: &q.Port, argRule: &q.Rule, argPolicy: &q.Policy, argRouter: &q.Router}
	for _, name := range own {
		*fields[name] = a.text(name)
	}
	if err := a.end(); err != nil {
		return q, err
	}
	if q.proto, err = protoNumber(q.Proto); err != nil {
		return q, mistake{fmt.Errorf("%s: %w", argProto, err)}
	}
	return q, nil
}

// ParsePrefix reads a prefix; it takes an address for the prefix that has it alone.
func ParsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr.Prefix(addr.BitLen())
	}
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err
}

var protoNames = map[uint8]string{
	unix.IPPROTO_TCP: "tcp", unix.IPPROTO_UDP: "udp", unix.IPPROTO_ICMP: "icmp", unix.IPPROTO_ICMPV6: "icmpv6", unix.IPPROTO_SCTP: "sctp",
}

// ipProto is the protocol's name, or its number.
func ipProto(proto uint8) string {
	if name, ok := protoNames[proto]; ok {
		return name
	}
	return strconv.Itoa(int(proto))
}

func isICMP(proto uint8) bool { return proto == unix.IPPROTO_ICMP || proto == unix.IPPROTO_ICMPV6 }

// protoNumber reads what ipProto writes; "" is -1.
func protoNumber(text string) (int, error) {
	if text == "" {
		return -1, nil
	}
	for number, name := range protoNames {
		if name == text {
			return int(number), nil
		}
	}
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return 0, fmt.Errorf("%q is not a protocol: write tcp, udp, icmp, icmpv6, sctp or a number up to 255", text)
	}
	return int(n), nil
}

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
func (t *connectionTable[C, Info]) answer(q ConnectionQuery) (list ConnectionList[Info], err error) {
	busiest := busiestConnections[C]{limit: q.Limit, base: t.base, order: t.order}
	sums := make(map[any]*TopInfo)
	take := busiest.add
	if q.Top != "" {
		take = func(c *C) { addTo(sums, t.topBy(c), t.base(c)) }
	}
	err = t.each(func(c *C) bool {
		list.Total++
		if q.chooses(t.base(c), t.ends(c)) && t.match(c) {
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

// chooses asks for the fields that all tables have.
func (q *ConnectionQuery) chooses(c *datapath.Connection, ends [3]netip.Addr) bool {
	return (q.proto < 0 || int(c.Proto) == q.proto) && (q.State == "" || c.State == q.State) &&
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

func addTo(sums map[any]*TopInfo, key any, c *datapath.Connection) {
	sum, ok := sums[key]
	if !ok {
		sum = &TopInfo{}
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
func topOf(sums map[any]*TopInfo, limit int) []TopInfo {
	list := make([]TopInfo, 0, len(sums))
	for key, sum := range sums {
		sum.What = fmt.Sprint(key)
		list = append(list, *sum)
	}
	slices.SortFunc(list, func(a, b TopInfo) int {
		return cmp.Or(cmp.Compare(b.Sessions, a.Sessions), cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.What, b.What))
	})
	if limit > 0 {
		return list[:min(limit, len(list))]
	}
	return list
}

// tableAlarms are what is wrong with the tables of the firewall or NAT.
type tableAlarms struct {
	pressed  map[string]bool // what is too full
	problems []problem.Problem
}

// fills reports whether something is too full: from a share of its size on, and until it is
// below another one when it was before.
func (a *tableAlarms) fills(was tableAlarms, what string, used, size int, limit, end float64) bool {
	if was.pressed[what] {
		limit = end
	}
	if a.pressed == nil {
		a.pressed = make(map[string]bool)
	}
	a.pressed[what] = size > 0 && float64(used) >= limit*float64(size)
	return a.pressed[what]
}

func (a *tableAlarms) warn(format string, args ...any) {
	a.problems = append(a.problems, problem.Warning(format, args...))
}

func (a *tableAlarms) fail(format string, args ...any) {
	a.problems = append(a.problems, problem.Error(format, args...))
}

// stateInfos are connections by state, in the order of states.
func stateInfos(counts map[string]int) []StateInfo {
	list := []StateInfo{}
	for _, name := range datapath.StateNames {
		list = append(list, StateInfo{Name: name, Sessions: counts[name]})
	}
	return list
}

// eventInfos are events as they are counted.
func eventInfos(events []EventInfo, counts map[string]uint64) []EventInfo {
	list := []EventInfo{}
	for _, event := range events {
		event.Count = counts[event.Name]
		list = append(list, event)
	}
	return list
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
