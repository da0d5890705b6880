package datapath

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// natHost is where somebody is that talks through a natWorld: the MACs of frames from
// there and to there, and the port, or the segment and the remote behind which.
type natHost struct {
	name          string
	port, segment string
	remote        int
	src, dst      string // from there
	smac, dmac    string // to there
}

var (
	egressMAC = overlay.EgressMAC.String()
	// The sources of bob, ben and tom are sent here by other edges.
	natHosts = []natHost{
		{name: "isp", port: "s0", src: ispMAC, dst: uplinkMAC, smac: uplinkMAC, dmac: ispMAC},
		{name: "bob", segment: "egress-web", src: egressMAC, dst: egressMAC, smac: egressMAC, dmac: egressMAC},
		{name: "ben", segment: "egress-web", remote: 1, src: egressMAC, dst: egressMAC, smac: egressMAC, dmac: egressMAC},
		{name: "tom", segment: "egress-two", src: egressMAC, dst: egressMAC, smac: egressMAC, dmac: egressMAC},
		{name: "alice", port: "p0", src: alice, dst: gatewayMAC, smac: gatewayMAC, dmac: alice},
		{name: "carol", port: "p1", src: carol, dst: gatewayMAC, smac: gatewayMAC, dmac: carol},
		{name: "dave", port: "p2", src: dave, dst: gatewayMAC, smac: gatewayMAC, dmac: dave},
		{name: "erin", segment: "green", src: erin, dst: gatewayMAC, smac: gatewayMAC, dmac: erin},
		{name: "far", segment: "main-l3", src: farMAC, dst: l3MAC, smac: l3MAC, dmac: farMAC},
	}
)

func natHostOf(name string) natHost {
	for _, s := range natHosts {
		if s.name == name {
			return s
		}
	}
	panic("no station " + name)
}

// natFrame is the frame that words describe: those of pkttest.Frame, and before them
//
//	error 3/1 203.0.113.5 > 198.51.100.1 quoting 28 udp …     an ICMP error with so much of a packet
//	piece 1 of 64 id 7 udp …     that fragment of a packet cut into pieces of 64 bytes
//	behind 0,60 udp …     IPv6 extension headers
//	unsummed udp …     without a checksum
func natFrame(src, dst, words string) []byte {
	f := strings.Fields(words)
	rest := func(n int) []byte { return natFrame(src, dst, strings.Join(f[n:], " ")) }
	number := func(i int) int {
		n, err := strconv.Atoi(f[i])
		if err != nil {
			panic(fmt.Sprintf("%q: %v", words, err))
		}
		return n
	}
	switch f[0] {
	case "error":
		kind, code, _ := strings.Cut(f[1], "/")
		k, _ := strconv.Atoi(kind)
		c, _ := strconv.Atoi(code)
		return pkttest.ErrorAbout(src, dst, addr(f[2]), addr(f[4]), uint8(k), uint8(c), rest(7), number(6))
	case "piece":
		return pkttest.Fragments(rest(6), uint32(number(5)), number(3))[number(1)]
	case "behind":
		var kinds []uint8
		for kind := range strings.SplitSeq(f[1], ",") {
			k, _ := strconv.Atoi(kind)
			kinds = append(kinds, uint8(k))
		}
		return pkttest.WithExtensions(rest(2), kinds...)
	case "unsummed":
		b := rest(1)
		copy(b[etherLen+ipv4Len+6:], []byte{0, 0})
		return b
	}
	return pkttest.Frame(src, dst, words)
}

// natSix are the same words in IPv6.
func natSix(words string) string {
	f := strings.Fields(words)
	types := map[string]string{"3/0": "1/0", "3/1": "1/3", "3/3": "1/4", "3/4": "2/0", "11/0": "3/0", "8/0": "128/0", "0/0": "129/0", "13/0": "144/1"}
	for i, word := range f {
		host, port, hasPort := strings.Cut(word, ":")
		a, err := netip.ParseAddr(host)
		switch {
		case types[word] != "":
			f[i] = types[word]
		case strings.HasPrefix(host, "%") && hasPort:
			f[i] = "[" + host + "]:" + port
		case err != nil || !a.Is4():
		case hasPort:
			f[i] = "[" + natSixOf(a) + "]:" + port
		default:
			f[i] = natSixOf(a)
		}
	}
	return strings.Join(f, " ")
}

// natSixOf is the IPv6 twin of an address: of the uplink's network by its last number.
func natSixOf(a netip.Addr) string {
	if b := a.As4(); b[0] == 198 && b[3] != 254 {
		return fmt.Sprintf("2001:db8:ff::%d", b[3])
	}
	return six(a).String()
}

// natTalk is a sequence of steps in a world, one a line:
//
//	bob: udp 10.0.1.11:1000 > 203.0.113.5:53 30 => isp: udp %a:$p > 203.0.113.5:53 30
//	isp: udp 203.0.113.5:53 > %a:$p 40 => bob: udp 203.0.113.5:53 > 10.0.1.11:1000 40
//	isp: udp 203.0.113.6:53 > %a:$p 40 => drop no-nat-session
//	wait 2m
//
// What leaves has a hop less than the words say, for the edge is a router. An address or
// port that begins with % or $ is what it is when it is met first.
type natTalk struct {
	t     *testing.T
	w     *world
	names map[string]string
}

func (w *world) talk(t *testing.T) *natTalk {
	t.Helper()
	w.forgetNATSessions(t)
	return &natTalk{t, w, map[string]string{}}
}

// natBoth runs steps in IPv4 and in IPv6.
func (w *world) natBoth(t *testing.T, steps ...string) {
	t.Helper()
	for _, family := range []string{"IPv4", "IPv6"} {
		t.Run(family, func(t *testing.T) {
			if family == "IPv6" {
				steps = natSixSteps(steps)
			}
			w.talk(t).follow(steps...)
		})
	}
}

func natSixSteps(steps []string) (list []string) {
	for _, s := range steps {
		if !strings.HasPrefix(s, "wait ") {
			s = natSix(s)
		}
		list = append(list, s)
	}
	return list
}

func (n *natTalk) follow(steps ...string) {
	n.t.Helper()
	for i, s := range steps {
		if wait, ok := strings.CutPrefix(s, "wait "); ok {
			d, err := time.ParseDuration(wait)
			must(n.t, err)
			n.w.ageNATSessions(n.t, d)
			continue
		}
		if wrong := n.step(s); wrong != "" {
			n.t.Fatalf("step %d, %q: %s", i+1, n.named(s), wrong)
		}
		n.w.checkNATSessions(n.t)
		if n.t.Failed() {
			n.t.Fatalf("after step %d, %q", i+1, n.named(s))
		}
	}
}

// named puts values in the place of the names that are known.
func (n *natTalk) named(words string) string {
	f := strings.Fields(words)
	for i, word := range f {
		for name, value := range n.names {
			if at := strings.Index(word, name); at >= 0 && (at+len(name) == len(word) || strings.Contains(":]", word[at+len(name):at+len(name)+1])) {
				word = word[:at] + value + word[at+len(name):]
			}
		}
		f[i] = word
	}
	return strings.Join(f, " ")
}

// step offers a packet and says what is wrong with what comes of it, or "".
func (n *natTalk) step(s string) string {
	n.t.Helper()
	reported, want, ok := strings.Cut(s, " => ")
	name, words, ok2 := strings.Cut(reported, ": ")
	if !ok || !ok2 {
		panic(fmt.Sprintf("no step: %q", s))
	}
	from := natHostOf(name)
	in := natFrame(from.src, from.dst, n.named(words))
	why, r := n.w.natOffer(n.t, from, in)
	if reasons, drop := strings.CutPrefix(want, "drop "); drop {
		if why == "" || !slices.Contains(strings.Split(reasons, ","), why) {
			return fmt.Sprintf("%s, want it dropped: %s", n.w.natWent(n.t, why, r), reasons)
		}
		return ""
	}
	name, words, _ = strings.Cut(want, ": ")
	if why != "" {
		return fmt.Sprintf("dropped, %s, want it at %s", why, name)
	}
	at, out := n.w.natArrived(n.t, r)
	if at != name {
		return fmt.Sprintf("at %s, want it at %s\n%s", at, name, pkttest.Decoded(out))
	}
	n.learn(words, out)
	to := natHostOf(name)
	expected := natLowered(natFrame(to.smac, to.dmac, n.named(words)))
	if !bytes.Equal(expected, out) {
		pkttest.Errorf(n.t, []pkttest.Named{{Name: "in", Bytes: in}, {Name: "want", Bytes: expected}, {Name: "out", Bytes: out}}, "the frame at %s", name)
		return "differs"
	}
	return ""
}

// learn gives values to the names that are met first, from the packet that they describe.
func (n *natTalk) learn(words string, out []byte) {
	talk := pkttest.TalkOf(out)
	f := strings.Fields(n.named(words))
	for i, word := range f {
		a := talk.Src
		if i > 0 && f[i-1] == ">" {
			a = talk.Dst
		}
		if at := strings.Index(word, "%"); at >= 0 {
			end := strings.IndexAny(word+":", ":]")
			n.names[word[at:end]] = a.Addr().String()
		}
		if at := strings.Index(word, "$"); at >= 0 {
			n.names[word[at:]] = strconv.Itoa(int(a.Port()))
		}
	}
}

// natLowered is a frame that a router has passed on.
func natLowered(frame []byte) []byte {
	return slices.Concat(frame[:etherLen], lowered(frame[etherLen:]))
}

// natOffer is a station's frame through the program where it comes in.
func (w *world) natOffer(t testing.TB, from natHost, frame []byte) (why string, r result) {
	t.Helper()
	if from.port != "" {
		return w.verdictOf(t, from.port, frame)
	}
	return w.verdictOf(t, "u0", w.outerIn(from.segment, w.family.remotes[from.remote]).Wrap(padded(frame)))
}

// natWent says what became of a packet.
func (w *world) natWent(t testing.TB, why string, r result) string {
	t.Helper()
	if why != "" {
		return "dropped, " + why
	}
	at, out := w.natArrived(t, r)
	return fmt.Sprintf("at %s\n%s", at, pkttest.Decoded(out))
}

// natArrived is the station to which a packet was sent, "" when to none of them, and the
// frame as it comes there.
func (w *world) natArrived(t testing.TB, r result) (at string, frame []byte) {
	t.Helper()
	for _, s := range natHosts {
		frame = r.out
		if s.port == "" {
			o := w.sent(s.segment, w.family.remotes[s.remote], r.out)
			if len(r.out) < o.Len()+etherLen {
				continue
			}
			frame = r.out[o.Len():]
			o.TOS = tosOf(frame) & 3
			if !bytes.Equal(o.Wrap(frame), r.out) {
				continue
			}
		}
		if bytes.HasPrefix(frame, slices.Concat(hardware(s.dmac), hardware(s.smac))) {
			return s.name, natTrimmed(frame)
		}
	}
	return "", r.out
}

// natTrimmed is a frame less Ethernet's padding.
func natTrimmed(frame []byte) []byte {
	if kind := uint16(frame[12])<<8 | uint16(frame[13]); kind != etherTypeIPv4 && kind != etherTypeIPv6 {
		return frame
	}
	return frame[:min(len(frame), etherLen+len(ipOf(frame)))]
}

// natStepBy is the station of a step and its words; false where there are none, or not
// before others are known.
func natStepBy(step string) (name, words string, ok bool) {
	reported, _, ok := strings.Cut(step, " => ")
	if !ok || strings.ContainsAny(reported, "%$") {
		return "", "", false
	}
	return strings.Cut(reported, ": ")
}
