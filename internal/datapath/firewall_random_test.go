package datapath

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// stand is where a station of the routed world talks from.
type stand struct {
	name, mac, segment string
	addrs              [2]netip.Addr // IPv4 and IPv6
	port               string        // "": beyond the first remote, or beyond the uplink
}

var stands = []stand{
	{"alice", alice, "blue", pair("10.0.1.10", "2001:db8:1::a"), "p0"},
	{"carol", carol, "blue", pair("10.0.1.12", "2001:db8:1::c"), "p1"},
	{"bob", bob, "blue", pair("10.0.1.11", "2001:db8:1::b"), ""},
	{"dave", dave, "green", pair("10.0.2.13", "2001:db8:2::d"), "p2"},
	{"erin", erin, "green", pair("10.0.2.14", "2001:db8:2::e"), ""},
	{"isp", ispMAC, "up", pair("198.51.100.254", "2001:db8:ff::fe"), ""},
}

func pair(v4, v6 string) [2]netip.Addr {
	return [2]netip.Addr{netip.MustParseAddr(v4), netip.MustParseAddr(v6)}
}

// between is a packet's way from one station to another: through the gateway if they are
// in different segments.
func between(from, to stand) (dmac string, by itinerary) {
	by = itinerary{from: from.port, to: to.port, fromSegment: from.segment, toSegment: to.segment}
	switch from.segment {
	case to.segment:
		return to.mac, by
	case "up":
		return uplinkMAC, by
	}
	return gatewayMAC, by
}

// act is a step of a random sequence: a packet, or a change.
type act struct {
	what  string
	from  stand
	frame []byte
	by    itinerary
	pass  time.Duration     // time goes by
	rules *overlay.Firewall // another policy
}

// dialogue is an exchange between two stations that goes on through a sequence.
type dialogue struct {
	vports   [2]stand
	family   int
	proto    string
	ports    [2]uint16
	next     [2]uint32 // TCP: what each end would send
	scaled   bool
	stage    int
	finished [2]bool
	// dress puts on extension headers, the same for all packets: one direction is in one
	// flow, whose sequence numbers the flow cache knows.
	dress func(frame []byte) []byte
}

func (r random) dialogue() *dialogue {
	a := stands[r.IntN(len(stands))]
	b := stands[r.IntN(len(stands))]
	for b.name == a.name || a.port == "" && b.port == "" {
		b = stands[r.IntN(len(stands))]
	}
	k := &dialogue{vports: [2]stand{a, b}, family: r.IntN(2), scaled: r.IntN(2) == 0}
	k.proto = []string{"tcp", "tcp", "tcp", "tcp", "udp", "udp", "icmp", "sctp", "gre"}[r.IntN(9)]
	k.ports = [2]uint16{uint16(1000 + r.IntN(3)), []uint16{53, 80, 443}[r.IntN(3)]}
	k.next = [2]uint32{r.Uint32(), r.Uint32()}
	if r.IntN(4) == 0 { // where numbers wrap
		k.next = [2]uint32{^uint32(r.IntN(40)), ^uint32(r.IntN(40))}
	}
	k.dress = func(frame []byte) []byte { return frame }
	if k.family == 1 && r.IntN(4) == 0 {
		k.dress = r.extended()
	}
	return k
}

// frame is a packet of an end, words without addresses.
func (k *dialogue) frame(from int, proto, rest string) []byte {
	a, b := k.vports[from], k.vports[1-from]
	dmac, _ := between(a, b)
	src, dst := a.addrs[k.family], b.addrs[k.family]
	if proto == "tcp" || proto == "udp" {
		return pkttest.Frame(a.mac, dmac, fmt.Sprintf("%s %s > %s %s", proto,
			netip.AddrPortFrom(src, k.ports[from]), netip.AddrPortFrom(dst, k.ports[1-from]), rest))
	}
	return pkttest.Frame(a.mac, dmac, fmt.Sprintf("%s %s > %s %s", proto, src, dst, rest))
}

// packet is the next one of the dialogue.
func (r random) packet(k *dialogue) (from int, frame []byte) {
	switch k.proto {
	case "tcp":
		return r.tcp(k)
	case "udp":
		from = r.IntN(2)
		return from, k.frame(from, "udp", fmt.Sprint(r.IntN(40)))
	case "icmp":
		from = r.IntN(2)
		return from, k.frame(from, "icmp", r.icmp(k.family == 1))
	case "sctp":
		from = r.IntN(2)
		body := []byte{byte(k.ports[from] >> 8), byte(k.ports[from]), byte(k.ports[1-from] >> 8), byte(k.ports[1-from]), 0, 0, 0, 1, 0, 0, 0, 0}
		return from, k.raw(from, 132, body)
	}
	from = r.IntN(2)
	return from, k.raw(from, []uint8{pkttest.ProtoGRE, 50, pkttest.ProtoICMP, pkttest.ProtoICMPv6}[r.IntN(2+2*r.IntN(2))], make([]byte, 16))
}

func (k *dialogue) raw(from int, proto uint8, body []byte) []byte {
	a, b := k.vports[from], k.vports[1-from]
	dmac, _ := between(a, b)
	src, dst := a.addrs[k.family], b.addrs[k.family]
	var ip pkttest.Layer = pkttest.IPv4(src.String(), dst.String())
	if k.family == 1 {
		ip = pkttest.IPv6(src.String(), dst.String())
	}
	return pkttest.Packet(pkttest.Ether(a.mac, dmac), pkttest.WithProto(ip, proto), pkttest.Bytes(body))
}

// icmp are words of an echo, or of a message that is no error.
func (r random) icmp(v6 bool) string {
	request, reply, other := "8/0", "0/0", "13/0"
	if v6 {
		request, reply, other = "128/0", "129/0", "144/1"
	}
	kind := []string{request, request, reply, reply, other}[r.IntN(5)]
	return fmt.Sprintf("%s id %d 8", kind, 1+r.IntN(2))
}

// tcp is mostly what TCP would do next, and sometimes what it never would.
func (r random) tcp(k *dialogue) (from int, frame []byte) {
	if r.IntN(4) == 0 {
		from = r.IntN(2)
		return from, k.frame(from, "tcp", r.odd(k, from))
	}
	switch k.stage {
	case 0, 1, 2:
		from = k.stage % 2
		flags := []string{"syn", "syn+ack", "ack"}[k.stage]
		frame = k.frame(from, "tcp", flags+k.options(flags)+numbersOf(k.next[from], k.next[1-from]))
		if k.stage < 2 {
			k.next[from]++
		}
		k.stage++
		return from, frame
	}
	from = r.IntN(2)
	n := r.IntN(30)
	if r.IntN(4) > 0 && !k.finished[from] {
		frame = k.frame(from, "tcp", "ack"+numbersOf(k.next[from], k.next[1-from])+fmt.Sprintf(" %d", n))
		k.next[from] += uint32(n)
		return from, frame
	}
	if k.finished[from] { // again
		k.next[from]--
	}
	frame = k.frame(from, "tcp", "fin+ack"+numbersOf(k.next[from], k.next[1-from]))
	k.finished[from] = true
	k.next[from]++
	if k.finished[0] && k.finished[1] && r.IntN(2) == 0 { // the ports are used again
		k.stage, k.finished = 0, [2]bool{}
		k.next[0] += 100_000
	}
	return from, frame
}

func (k *dialogue) options(flags string) string {
	if k.scaled && flags != "ack" {
		return " scale 7"
	}
	return ""
}

// odd is a segment with flags and numbers that are right, nearly right, or wrong.
func (r random) odd(k *dialogue, from int) string {
	flags := []string{
		"syn", "syn+ack", "ack", "ack", "fin+ack", "rst", "rst", "rst+ack", "rst+ack", "none", "psh", "fin", "syn+fin", "syn+rst",
		"fin+rst+ack", "syn+fin+ack", "urg", "ece+cwr+syn",
	}[r.IntN(18)]
	distances := []uint32{0, 0, 0, 1, 10, 60_000, 70_000, 5_000_000, 10_000_000, 1 << 30, 1 << 31}
	distance := distances[r.IntN(len(distances))]
	if flags == "ack" { // data of an open flow is not looked at: its numbers are taken as they are
		distance = distances[r.IntN(6)]
	}
	ahead := r.IntN(2) == 0
	reset := strings.Contains(flags, "rst")
	if reset && distance <= 10 { // a number that was right some seconds ago may do for a reset
		ahead = true
	}
	if !ahead {
		distance = -distance
	}
	if flags == "ack" && ahead { // its end goes on from there
		k.next[from] += distance
		distance = 0
	}
	ack := k.next[1-from] + []uint32{0, 0, 0, 1, 70_000, ^uint32(0)}[r.IntN(6)]
	words := flags
	if slices.Contains([]string{"syn", "syn+ack"}, flags) {
		words += k.options(flags)
	}
	words += numbersOf(k.next[from]+distance, ack)
	if n := r.IntN(60); n < 20 {
		words += fmt.Sprintf(" %d", n)
		if flags == "ack" && ahead {
			k.next[from] += uint32(n)
		}
	}
	return words
}

// acts is a random sequence. Packets before the first policy change meet base.
func (r random) acts(n int) (list []act) {
	dialogues := make([]*dialogue, 1+r.IntN(4))
	for i := range dialogues {
		dialogues[i] = r.dialogue()
	}
	var sent []act
	for len(list) < n {
		switch k := dialogues[r.IntN(len(dialogues))]; r.IntN(30) {
		case 0:
			d := time.Duration(1+r.IntN(4)) * 10 * time.Second
			list = append(list, act{what: "time passes: " + d.String(), pass: d})
		case 1:
			rules := r.firewall()
			list = append(list, act{what: "another policy", rules: &rules})
		case 2, 3:
			if len(sent) > 0 {
				list = append(list, r.errorAbout(sent[r.IntN(len(sent))]))
			}
		case 4:
			list = append(list, r.fragments(k)...)
		default:
			from, frame := r.packet(k)
			a := k.act(from, k.dress(frame))
			list, sent = append(list, a), append(sent, a)
			if r.IntN(10) == 0 { // sent again
				list = append(list, a)
			}
		}
	}
	return list
}

func (k *dialogue) act(from int, frame []byte) act {
	_, by := between(k.vports[from], k.vports[1-from])
	return act{what: k.vports[from].name + " > " + k.vports[1-from].name + ": " + inWords(frame), from: k.vports[from], frame: frame, by: by}
}

// extended puts on extension headers: as many as are looked behind, or one more.
func (r random) extended() func([]byte) []byte {
	kinds := make([]uint8, 1+r.IntN(7))
	for i := range kinds {
		kinds[i] = []uint8{pkttest.ProtoDestination, pkttest.ProtoRouting}[r.IntN(2)]
	}
	if r.IntN(2) == 0 {
		kinds[0] = pkttest.ProtoHopByHop
	}
	if r.IntN(3) == 0 {
		return func(frame []byte) []byte { return pkttest.Atomic(frame, r.Uint32()) }
	}
	return func(frame []byte) []byte { return pkttest.WithExtensions(frame, kinds...) }
}

// fragments are of one datagram, in any order, perhaps not all.
func (r random) fragments(k *dialogue) (list []act) {
	from := r.IntN(2)
	proto := []string{"tcp", "udp"}[r.IntN(2)]
	other := *k // connection, see dress
	other.ports[from] += 7
	frame := other.frame(from, proto, map[string]string{"tcp": "syn seq 5 100", "udp": "100"}[proto])
	pieces := pkttest.Fragments(frame, r.Uint32()%4, []int{8, 16, 24, 48, 96}[r.IntN(5)])
	r.Shuffle(len(pieces)*r.IntN(2), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
	for _, piece := range pieces[:min(len(pieces), 1+r.IntN(4))] {
		list = append(list, k.act(from, piece))
	}
	return list
}

// errorAbout is an ICMP error about a packet: mostly to its sender, from its receiver.
func (r random) errorAbout(a act) act {
	p := readPacket(a.frame)
	to, from := a.from, a.from
	for _, s := range stands {
		if slices.Contains(s.addrs[:], p.dst) {
			from = s
		}
	}
	if r.IntN(6) == 0 { // to somebody else
		to = stands[r.IntN(len(stands))]
	}
	if from.name == to.name || from.port == "" && to.port == "" {
		to = a.from
	}
	family, kind, code, most := 0, uint8(3), uint8(1), []int{28, 60, 500, 27}[r.IntN(4)]
	if p.src.Is6() {
		family, kind, code, most = 1, 1, 4, []int{48, 60, 500, 47}[r.IntN(4)]
	}
	about := slices.Clone(a.frame)
	if r.IntN(6) == 0 { // about another packet than there was
		about[etherLen+20+20*family+r.IntN(4)] ^= 1
	}
	dmac, by := between(from, to)
	frame := pkttest.ErrorAbout(from.mac, dmac, from.addrs[family], to.addrs[family], kind, code, about, most)
	return act{what: from.name + " > " + to.name + ": error about " + inWords(about), from: from, frame: frame, by: by}
}

// inWords names a packet on a line.
func inWords(frame []byte) string {
	p := readPacket(frame)
	at := fmt.Sprintf("%s > %s", netip.AddrPortFrom(p.src, p.sport), netip.AddrPortFrom(p.dst, p.dport))
	switch p.kind {
	case fragmentLater:
		return fmt.Sprintf("protocol %d %s > %s later fragment %d", p.proto, p.src, p.dst, p.id)
	case fragmentFirst:
		at += fmt.Sprintf(" first fragment %d", p.id)
	}
	if p.proto == pkttest.ProtoTCP {
		s := p.tcp
		return fmt.Sprintf("tcp %s %s seq %d acks %d", at, s, s.Seq, s.Ack)
	}
	if p.icmp {
		return fmt.Sprintf("icmp %s > %s %d/%d id %d", p.src, p.dst, p.icmpType>>8, p.icmpType&0xff, p.sport)
	}
	return fmt.Sprintf("protocol %d %s", p.proto, at)
}

// numbersOf are sequence and acknowledgement number in words.
func numbersOf(seq, ack uint32) string { return fmt.Sprintf(" seq %d acks %d", seq, ack) }
