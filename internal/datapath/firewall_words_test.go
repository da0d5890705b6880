package datapath

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

var memberKinds = []struct {
	pattern *regexp.Regexp
	member  func(m []string) overlay.Member
}{
	{regexp.MustCompile(`^([0-9a-f:.]+/\d+)$`), func(m []string) overlay.Member { return overlay.Member{Prefix: netip.MustParsePrefix(m[1])} }},
	{regexp.MustCompile(`^((?:[0-9a-f]{2}:){5}[0-9a-f]{2})$`), func(m []string) overlay.Member {
		mac := macOf(m[1])
		return overlay.Member{MAC: &mac}
	}},
	{regexp.MustCompile(`^([0-9a-f:.]+)-([0-9a-f:.]+)$`), func(m []string) overlay.Member {
		return overlay.Member{Range: overlay.AddrRange{First: netip.MustParseAddr(m[1]), Last: netip.MustParseAddr(m[2])}}
	}},
	{regexp.MustCompile(`^segment:(.+)$`), func(m []string) overlay.Member { return overlay.Member{Segment: m[1]} }},
	{regexp.MustCompile(`^port:(.+)$`), func(m []string) overlay.Member { return overlay.Member{Port: m[1]} }},
	{regexp.MustCompile(`^group:(.+)$`), func(m []string) overlay.Member { return overlay.Member{Group: m[1]} }},
	{regexp.MustCompile(`^label:(.+)$`), func(m []string) overlay.Member {
		labels := map[string]string{}
		for pair := range strings.SplitSeq(m[1], "+") {
			name, value, _ := strings.Cut(pair, "=")
			labels[name] = value
		}
		return overlay.Member{Labels: labels}
	}},
	{regexp.MustCompile(`^([0-9a-f:.]+)$`), func(m []string) overlay.Member {
		a := netip.MustParseAddr(m[1])
		return overlay.Member{Prefix: netip.PrefixFrom(a, a.BitLen())}
	}},
}

func membersOf(words string) (list []overlay.Member) {
next:
	for word := range strings.SplitSeq(words, ",") {
		for _, kind := range memberKinds {
			if m := kind.pattern.FindStringSubmatch(word); m != nil {
				list = append(list, kind.member(m))
				continue next
			}
		}
		panic("no member: " + word)
	}
	return list
}

var protocols = map[string]int{"any": overlay.AnyProtocol, "tcp": 6, "udp": 17, "sctp": 132, "icmp": 1, "icmp6": 58, "gre": 47}

// servicesOf reads "tcp/80-90", "tcp/80/1000-2000" (source ports), "icmp/8", "icmp/3/4".
func servicesOf(words string) (list []overlay.Service) {
	for word := range strings.SplitSeq(words, ",") {
		f := append(strings.Split(word, "/"), "", "")
		proto, known := protocols[f[0]]
		if !known {
			panic("no protocol: " + f[0])
		}
		s := overlay.Service{Protocol: proto, ICMPType: -1, ICMPCode: -1}
		if proto == 1 || proto == 58 {
			s.ICMPType, s.ICMPCode = orAny(f[1]), orAny(f[2])
		} else {
			s.Ports, s.SourcePorts = portsOf(f[1]), portsOf(f[2])
		}
		list = append(list, s)
	}
	return list
}

func orAny(word string) int {
	if word == "" {
		return -1
	}
	return int(portOf(word))
}

func portOf(word string) uint16 {
	n, err := strconv.ParseUint(word, 10, 16)
	if err != nil {
		panic(err)
	}
	return uint16(n)
}

func portsOf(word string) []overlay.PortRange {
	if word == "" {
		return nil
	}
	first, last, isRange := strings.Cut(word, "-")
	if !isRange {
		last = first
	}
	return []overlay.PortRange{{First: portOf(first), Last: portOf(last)}}
}

func ruleOf(number int, words string) overlay.Rule {
	f := strings.Fields(words)
	rule := overlay.Rule{Section: "case", Name: strconv.Itoa(number), Verdict: overlay.Verdict(f[0]), Direction: overlay.Direction(f[1])}
	for f = f[2:]; len(f) > 0; f = f[2:] {
		switch f[0] {
		case "from":
			rule.From = membersOf(f[1])
		case "to":
			rule.To = membersOf(f[1])
		case "svc":
			rule.Services = servicesOf(f[1])
		case "at":
			rule.AppliedTo = membersOf(f[1])
		default:
			panic("no part of a rule: " + f[0])
		}
	}
	return rule
}

// queryOf makes the packet of "alice > carol tcp 80", "… udp6 53", "… icmp 8", "… gre",
// "… tcp 80 from 999".
func queryOf(t testing.TB, words string) (from stand, frame []byte) {
	t.Helper()
	f := strings.Fields(words)
	find := func(name string) stand {
		i := slices.IndexFunc(stands, func(s stand) bool { return s.name == name })
		if i < 0 {
			t.Fatalf("%q: nobody is called %q", words, name)
		}
		return stands[i]
	}
	k := dialogue{vports: [2]stand{find(f[0]), find(f[2])}, ports: [2]uint16{1000, 0}}
	proto, six := strings.CutSuffix(f[3], "6")
	if six {
		k.family = 1
	}
	number := ""
	if len(f) > 4 {
		number = f[4]
	}
	if len(f) > 6 {
		k.ports[0] = portOf(f[6])
	}
	switch proto {
	case "tcp", "udp":
		k.ports[1] = portOf(number)
		return k.vports[0], k.frame(0, proto, map[string]string{"tcp": "syn seq 7", "udp": "20"}[proto])
	case "icmp":
		if !strings.Contains(number, "/") {
			number += "/0"
		}
		return k.vports[0], k.frame(0, "icmp", number+" id 5 8")
	case "sctp":
		port := portOf(number)
		return k.vports[0], k.raw(0, 132, []byte{byte(k.ports[0] >> 8), byte(k.ports[0]), byte(port >> 8), byte(port), 0, 0, 0, 0, 0, 0, 0, 0})
	case "gre":
		return k.vports[0], k.raw(0, 47, make([]byte, 8))
	}
	t.Fatalf("%q: no protocol %q", words, f[3])
	return stand{}, nil
}

// wantNotice checks what the sender of a rejected packet is told: TCP by a reset as its
// destination would send it, all else by ICMP "administratively prohibited".
func (w *world) wantNotice(t *testing.T, from stand, frame []byte, r result) {
	t.Helper()
	out := r.out
	if from.port == "" && from.segment != "up" {
		out = out[min(len(out), w.outerIn(from.segment, w.family.remotes[0]).Len()):]
	}
	fail := func(format string, args ...any) {
		t.Helper()
		pkttest.Errorf(t, []pkttest.Named{{Name: "rejected", Bytes: frame}, {Name: "answer", Bytes: out}}, format, args...)
	}
	if r.verdict != forwarded {
		fail("%v: the sender is told nothing", r.verdict)
		return
	}
	if faults := pkttest.Dissect(out).Faults; len(faults) > 0 {
		fail("the answer has %v", faults)
		return
	}
	p, q := readPacket(frame), readPacket(out)
	if q.dst != p.src || q.dmac != p.smac {
		fail("the answer goes to %s at %s", q.dst, q.dmac)
	}
	if p.proto == 6 {
		want, _ := pkttest.TCPOf(pkttest.ResetFor(frame))
		want.Window = q.tcp.Window // says nothing in a reset
		if q.tcp != want || q.src != p.dst {
			fail("a reset %+v, want %+v", q.tcp, want)
		}
		return
	}
	prohibited := uint16(3<<8 | 13)
	if p.src.Is6() {
		prohibited = 1<<8 | 1
	}
	if q.icmpType != prohibited || q.about == nil || q.about.src != p.src || q.about.dst != p.dst {
		fail("not the ICMP message %d/%d about it", prohibited>>8, prohibited&0xff)
	}
}
