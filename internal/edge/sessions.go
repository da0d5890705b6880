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

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath"
)

// SessionQuery chooses sessions. What is zero chooses nothing.
type SessionQuery struct {
	Port  string
	Proto string       // a name or a number
	Addr  netip.Prefix // of either end
	State string
	Rule  string // SECTION/NAME, or a section
	Limit int    // of sessions, or of lines; 0: all
	Top   string // one of TopKinds: sums by that, not sessions
}

// TopKinds are what sessions can be summed up by.
var TopKinds = []string{"ports", "sources", "destinations", "rules"}

// The query's fields in the URL, beside argPort.
const argProto, argAddr, argState, argRule, argLimit, argTop = "proto", "addr", "state", "rule", "limit", "top"

func (q SessionQuery) values() url.Values {
	v := url.Values{}
	addr := ""
	if q.Addr.IsValid() {
		addr = q.Addr.String()
	}
	for name, value := range map[string]string{
		argPort: q.Port, argProto: q.Proto, argAddr: addr, argState: q.State, argRule: q.Rule, argTop: q.Top, argLimit: strconv.Itoa(q.Limit),
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return v
}

// sessionQueryOf reads what values writes.
func sessionQueryOf(v url.Values) (q SessionQuery, err error) {
	q = SessionQuery{Port: v.Get(argPort), Proto: v.Get(argProto), State: v.Get(argState), Rule: v.Get(argRule), Top: v.Get(argTop)}
	if text := v.Get(argAddr); text != "" {
		if q.Addr, err = ParsePrefix(text); err != nil {
			return q, mistake{fmt.Errorf("%s: %w", argAddr, err)}
		}
	}
	if text := v.Get(argLimit); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 0 {
			return q, mistake{fmt.Errorf("%s: %q is not a number from 0 on", argLimit, text)}
		}
	}
	if q.State != "" && !slices.Contains(datapath.StateNames[:], q.State) {
		return q, mistake{fmt.Errorf("%s: there is no state %q; states: %s", argState, q.State, strings.Join(datapath.StateNames[:], ", "))}
	}
	if q.Top != "" && !slices.Contains(TopKinds, q.Top) {
		return q, mistake{fmt.Errorf("%s: %q is none of %s", argTop, q.Top, strings.Join(TopKinds, ", "))}
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
		return 0, fmt.Errorf("%q is no protocol: write tcp, udp, icmp, icmpv6, sctp or a number up to 255", text)
	}
	return int(n), nil
}

// matcher is the query as it is asked about each session.
func (q SessionQuery) matcher() (func(*datapath.Session) bool, error) {
	proto, err := protoNumber(q.Proto)
	if err != nil {
		return nil, mistake{fmt.Errorf("%s: %w", argProto, err)}
	}
	section, name, both := strings.Cut(q.Rule, "/")
	return func(s *datapath.Session) bool {
		return (q.Port == "" || s.Port == q.Port || strings.HasPrefix(s.Port, q.Port+".")) &&
			(proto < 0 || int(s.Proto) == proto) &&
			(!q.Addr.IsValid() || q.Addr.Contains(s.Src) || q.Addr.Contains(s.Dst)) &&
			(q.State == "" || s.State == q.State) &&
			(q.Rule == "" || s.Rule.Section == section && (!both || s.Rule.Name == name))
	}, nil
}

func (e *edge) sessionDocument(v url.Values) (SessionList, error) {
	q, err := sessionQueryOf(v)
	if err != nil {
		return SessionList{}, err
	}
	match, err := q.matcher()
	if err != nil {
		return SessionList{}, err
	}
	return read(e, "sessions", func() (SessionList, error) {
		if e.config.Firewall == nil {
			return SessionList{}, noFirewall()
		}
		if q.Top != "" {
			return e.topSessions(q, match)
		}
		return e.listSessions(q, match)
	})
}

// noFirewall is the answer to a question about one that there is none.
func noFirewall() error {
	return mistake{fmt.Errorf("this edge has no firewall, so it tracks no connections: configure spec.firewall")}
}

func volume(s *datapath.Session) uint64 { return s.Orig.Bytes + s.Reply.Bytes }

// quietest is a heap of sessions, from which the one with the fewest bytes goes first.
type quietest []datapath.Session

func (l quietest) Len() int           { return len(l) }
func (l quietest) Less(i, j int) bool { return volume(&l[i]) < volume(&l[j]) }
func (l quietest) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }

// Push is heap.Interface's.
func (l *quietest) Push(s any) { *l = append(*l, s.(datapath.Session)) }

// Pop is heap.Interface's.
func (l *quietest) Pop() any {
	last := (*l)[len(*l)-1]
	*l = (*l)[:len(*l)-1]
	return last
}

// listSessions keeps the busiest in memory, and no others.
func (e *edge) listSessions(q SessionQuery, match func(*datapath.Session) bool) (SessionList, error) {
	list := SessionList{Sessions: []SessionInfo{}}
	var busiest quietest
	err := e.dp.EachSession(func(s *datapath.Session) bool {
		list.Total++
		if !match(s) {
			return true
		}
		list.Matched++
		switch {
		case q.Limit == 0:
			busiest = append(busiest, *s)
		case len(busiest) < q.Limit:
			heap.Push(&busiest, *s)
		case volume(s) > volume(&busiest[0]):
			busiest[0] = *s
			heap.Fix(&busiest, 0)
		}
		return true
	})
	if err != nil {
		return list, err
	}
	slices.SortFunc(busiest, busierFirst)
	cached, err := e.dp.CachedSessions(busiest)
	for i := range busiest {
		info := sessionInfo(&busiest[i])
		if err == nil {
			info.Path, info.Why = sessionPath(cached[i])
			for _, way := range cached[i] {
				if way.Known {
					info.Idle = min(info.Idle, seconds(way.IdleNS))
				}
			}
		}
		list.Sessions = append(list.Sessions, info)
	}
	return list, err
}

// busierFirst only goes on after the bytes to make the order the same each time.
func busierFirst(a, b datapath.Session) int {
	return cmp.Or(cmp.Compare(volume(&b), volume(&a)), cmp.Compare(a.Port, b.Port), a.Src.Compare(b.Src), a.Dst.Compare(b.Dst),
		cmp.Compare(a.Proto, b.Proto), cmp.Compare(a.SrcPort, b.SrcPort), cmp.Compare(a.DstPort, b.DstPort))
}

func sessionInfo(s *datapath.Session) SessionInfo {
	return SessionInfo{
		Port: s.Port, Segment: s.Segment, Direction: string(s.Direction), Proto: ipProto(s.Proto),
		Src: s.Src, Dst: s.Dst, SrcPort: s.SrcPort, DstPort: s.DstPort, PeerPort: s.PeerPort, PeerSegment: s.PeerSegment,
		State: s.State, Answered: s.Answered, PickedUp: s.PickedUp, Rule: ruleText(s.Rule), Current: s.Current,
		Age: seconds(s.AgeNS), Idle: seconds(s.IdleNS),
		OrigPackets: s.Orig.Packets, OrigBytes: s.Orig.Bytes, ReplyPackets: s.Reply.Packets, ReplyBytes: s.Reply.Bytes,
	}
}

// ruleText is SECTION/NAME, or "" of a rule that is gone.
func ruleText(r datapath.RuleName) string {
	if r == (datapath.RuleName{}) {
		return ""
	}
	return r.Section + "/" + r.Name
}

// Paths of a session.
const pathFast, pathSlow, pathIdle = "fast", "slow", "idle"

// sessionPath sums up both directions: one that is slow is the news.
func sessionPath(ways [2]datapath.Cached) (path, why string) {
	path = pathIdle
	for _, way := range ways {
		switch {
		case way.Known && !way.Fast:
			return pathSlow, way.Why
		case way.Known:
			path = pathFast
		}
	}
	return path, ""
}

func (e *edge) topSessions(q SessionQuery, match func(*datapath.Session) bool) (SessionList, error) {
	list := SessionList{Top: []TopInfo{}}
	sums := make(map[any]*TopInfo)
	err := e.dp.EachSession(func(s *datapath.Session) bool {
		list.Total++
		if !match(s) {
			return true
		}
		list.Matched++
		key := topKey(q.Top, s)
		sum, ok := sums[key]
		if !ok {
			sum = &TopInfo{}
			sums[key] = sum
		}
		sum.Sessions++
		if !s.Answered {
			sum.HalfOpen++
		}
		sum.Packets += s.Orig.Packets + s.Reply.Packets
		sum.Bytes += volume(s)
		return true
	})
	for key, sum := range sums {
		sum.What = fmt.Sprint(key)
		if rule, ok := key.(datapath.RuleName); ok {
			sum.What = ruleText(rule)
		}
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

func topKey(by string, s *datapath.Session) any {
	switch by {
	case "sources":
		return s.Src
	case "destinations":
		return s.Dst
	case "rules":
		return s.Rule
	}
	return s.Port
}
