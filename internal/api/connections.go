package api

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"

	"golang.org/x/sys/unix"
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

	ProtocolNumber int // number of Proto, -1 for any; connectionQueryOf sets it
}

func (q ConnectionQuery) values() url.Values {
	v := url.Values{ArgLimit: {strconv.Itoa(q.Limit)}}
	setIf(v, ArgAddr, q.Addr.String(), q.Addr.IsValid())
	for name, value := range map[string]string{
		ArgPort: q.Port, ArgRule: q.Rule, ArgPolicy: q.Policy, ArgRouter: q.Router, argProto: q.Proto, argState: q.State, argTop: q.Top,
	} {
		setIf(v, name, value, value != "")
	}
	return v
}

// ConnectionQueryOf reads what values writes, of a table that has some parameters of its own
// and sums up by kinds.
func ConnectionQueryOf(v url.Values, states, kinds []string, own ...string) (q ConnectionQuery, err error) {
	a := Arguments{Values: v}
	q = ConnectionQuery{
		Proto: a.Text(argProto), Addr: a.prefix(ArgAddr), State: a.OneOf(argState, states),
		Limit: a.Number(ArgLimit, 0, MaxLimit), Top: a.OneOf(argTop, kinds),
	}
	fields := map[string]*string{ArgPort: &q.Port, ArgRule: &q.Rule, ArgPolicy: &q.Policy, ArgRouter: &q.Router}
	for _, name := range own {
		*fields[name] = a.Text(name)
	}
	if err := a.End(); err != nil {
		return q, err
	}
	if q.ProtocolNumber, err = protoNumber(q.Proto); err != nil {
		return q, BadRequest{Err: fmt.Errorf("%s: %w", argProto, err)}
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

// ProtoNames are the IP protocols that have names, by number.
var ProtoNames = map[uint8]string{
	unix.IPPROTO_TCP: "tcp", unix.IPPROTO_UDP: "udp", unix.IPPROTO_ICMP: "icmp", unix.IPPROTO_ICMPV6: "icmpv6", unix.IPPROTO_SCTP: "sctp",
}

// ProtoName is the protocol's name, or its number.
func ProtoName(proto uint8) string {
	if name, ok := ProtoNames[proto]; ok {
		return name
	}
	return strconv.Itoa(int(proto))
}

// protoNumber reads what ProtoName writes; "" is -1.
func protoNumber(text string) (int, error) {
	if text == "" {
		return -1, nil
	}
	for number, name := range ProtoNames {
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
