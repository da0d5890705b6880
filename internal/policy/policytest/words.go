package policytest

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
)

// must is for words that are wrong in the table itself.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// rule reads "name: verdict direction from > to service … @applied … log", where from, to
// and applied are members with commas between them, or any.
func rule(words string) overlay.Rule {
	name, rest, _ := strings.Cut(words, ": ")
	left, right, _ := strings.Cut(rest, " > ")
	l, r := strings.Fields(left), strings.Fields(right)
	out := overlay.Rule{Section: "s", Name: name, Verdict: overlay.Verdict(l[0]), Direction: overlay.Direction(l[1]),
		From: members(l[2]), To: members(r[0])}
	for _, word := range r[1:] {
		switch {
		case word == "log":
			out.Log = true
		case word[0] == '@':
			out.AppliedTo = members(word[1:])
		default:
			out.Services = append(out.Services, service(word))
		}
	}
	return out
}

func members(words string) []overlay.Member {
	if words == "any" {
		return nil
	}
	var out []overlay.Member
	for word := range strings.SplitSeq(words, ",") {
		out = append(out, member(word))
	}
	return out
}

// member reads a prefix, an address, a range with a "-", mac=…, segment=…, port=…,
// labels=k:v+k:v or group=….
func member(word string) overlay.Member {
	kind, value, named := strings.Cut(word, "=")
	switch {
	case named && kind == "mac":
		mac := must(overlay.ParseMAC(value))
		return overlay.Member{MAC: &mac}
	case named && kind == "segment":
		return overlay.Member{Segment: value}
	case named && kind == "port":
		return overlay.Member{Port: value}
	case named && kind == "group":
		return overlay.Member{Group: value}
	case named:
		labels := map[string]string{}
		for pair := range strings.SplitSeq(value, "+") {
			if k, v, found := strings.Cut(pair, ":"); found {
				labels[k] = v
			}
		}
		return overlay.Member{Labels: labels}
	}
	if first, last, found := strings.Cut(word, "-"); found {
		return overlay.Member{Range: overlay.AddrRange{First: must(netip.ParseAddr(first)), Last: must(netip.ParseAddr(last))}}
	}
	if !strings.Contains(word, "/") {
		return one(must(netip.ParseAddr(word)))
	}
	return overlay.Member{Prefix: must(netip.ParsePrefix(word))}
}

var protocols = map[string]int{"icmp": 1, "tcp": 6, "udp": 17, "icmpv6": 58, "sctp": 132, "any": overlay.AnyProtocol}

// service reads tcp/80,443, tcp/80<1024-65535 with source ports behind the "<", icmp/3/4,
// ip/47 or a protocol alone.
func service(word string) overlay.Service {
	word, sources, _ := strings.Cut(word, "<")
	parts := strings.Split(word, "/")
	out := overlay.Service{ICMPType: -1, ICMPCode: -1, SourcePorts: portRanges(sources)}
	switch parts[0] {
	case "ip":
		out.Protocol = must(strconv.Atoi(parts[1]))
		return out
	case "icmp", "icmpv6":
		out.Protocol = protocols[parts[0]]
		if len(parts) > 1 {
			out.ICMPType = must(strconv.Atoi(parts[1]))
		}
		if len(parts) > 2 {
			out.ICMPCode = must(strconv.Atoi(parts[2]))
		}
		return out
	}
	protocol, known := protocols[parts[0]]
	if !known {
		panic(fmt.Sprintf("service %s", word))
	}
	out.Protocol = protocol
	if len(parts) > 1 {
		out.Ports = portRanges(parts[1])
	}
	return out
}

func portRanges(words string) []overlay.PortRange {
	var out []overlay.PortRange
	for word := range strings.SplitSeq(words, ",") {
		if word == "" {
			continue
		}
		first, last, found := strings.Cut(word, "-")
		if !found {
			last = first
		}
		out = append(out, overlay.PortRange{First: must(parsePort(first)), Last: must(parsePort(last))})
	}
	return out
}

func parsePort(word string) (uint16, error) {
	n, err := strconv.ParseUint(word, 10, 16)
	return uint16(n), err
}

// query reads "direction place protocol source > destination option …": the addresses
// have ports as in 10.0.0.1:80 and [2001:db8::1]:80 with TCP, UDP and SCTP. Options are
// smac=, dmac=, sseg=, dseg=, splace=, dplace=, icmp=type/code and unported.
func query(words string) policy.Query {
	f := strings.Fields(words)
	o := policy.Query{Direction: overlay.Direction(f[0]), Place: f[1], Ported: true,
		SrcMAC: overlay.MAC{2, 0, 0, 0, 0, 1}, DstMAC: overlay.MAC{2, 0, 0, 0, 0, 2}, SrcSegment: "red", DstSegment: "red"}
	if o.Direction == overlay.In {
		o.DstPlace = o.Place
	} else {
		o.SrcPlace = o.Place
	}
	if n, known := protocols[f[2]]; known {
		o.Protocol = uint8(n)
	} else {
		o.Protocol = uint8(must(strconv.Atoi(strings.TrimPrefix(f[2], "ip/"))))
	}
	o.Src, o.SrcPort = side(f[3])
	o.Dst, o.DstPort = side(f[5])
	for _, word := range f[6:] {
		option(&o, word)
	}
	return o
}

func side(word string) (netip.Addr, uint16) {
	if ap, err := netip.ParseAddrPort(word); err == nil {
		return ap.Addr(), ap.Port()
	}
	return must(netip.ParseAddr(word)), 0
}

func option(o *policy.Query, word string) {
	name, value, _ := strings.Cut(word, "=")
	switch name {
	case "smac":
		o.SrcMAC = must(overlay.ParseMAC(value))
	case "dmac":
		o.DstMAC = must(overlay.ParseMAC(value))
	case "sseg":
		o.SrcSegment = value
	case "dseg":
		o.DstSegment = value
	case "splace":
		o.SrcPlace = value
	case "dplace":
		o.DstPlace = value
	case "icmp":
		kind, code, _ := strings.Cut(value, "/")
		o.DstPort = must(parsePort(kind))<<8 | must(parsePort(code))
	case "unported":
		o.Ported = false
		o.SrcPort, o.DstPort = 0, 0
	default:
		panic("option " + word)
	}
}
