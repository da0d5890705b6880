package firewall

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
)

// Frames made by hand between guests whose stacks take no part: they speak from and to
// addresses that nobody has.

// sends is a frame that a guest sends to another by hand.
type sends struct {
	from, to harness.Guest
	words    string // addresses as A and B, of the strangers
	change   func(frame []byte) []byte
	reason   string // for which edge1 drops it; none when it arrives
}

// stranger is the address that a guest speaks from by hand: each step of a test has its own, so
// that no connection of one is there in the next.
func (n *policed) stranger(g harness.Guest, family int) netip.Addr {
	return harness.SubnetAddr(g.Subnet, n.strangers+g.Number, family)
}

// words writes A for the sender's and B for the receiver's address, with ports in brackets
// where IPv6 wants them.
func (n *policed) words(s sends, family int) string {
	text := func(a netip.Addr, ported bool) string {
		if ported && family == 6 {
			return "[" + a.String() + "]"
		}
		return a.String()
	}
	out := ""
	for i, r := range s.words {
		ported := i+1 < len(s.words) && s.words[i+1] == ':'
		switch r {
		case 'A':
			out += text(n.stranger(s.from, family), ported)
		case 'B':
			out += text(n.stranger(s.to, family), ported)
		default:
			out += string(r)
		}
	}
	return out
}

// frame is what is sent.
func (n *policed) frame(s sends, family int) []byte {
	frame := pkttest.Frame(s.from.Ether().String(), s.to.Ether().String(), n.words(s, family))
	if s.change != nil {
		frame = s.change(frame)
	}
	return frame
}

// talks is a fact for each frame, in this order and on one family: it arrives, or it is dropped
// for its reason and does not.
func (n *policed) talks(family int, list ...sends) {
	n.T.Helper()
	for i, s := range list {
		what := fmt.Sprintf("frame %d, %q from %s to %s, arrives", i+1, n.words(s, family), s.from.Name, s.to.Name)
		if s.reason != "" {
			what = fmt.Sprintf("frame %d, %q from %s to %s, is dropped as %s", i+1, n.words(s, family), s.from.Name, s.to.Name, s.reason)
		}
		n.Once(what, func() error { return n.delivers(s, n.frame(s, family), s.to) })
	}
}

// delivers sends a frame and wants it, or the drop, at every one of those who may get it.
func (n *policed) delivers(s sends, frame []byte, receivers ...harness.Guest) error {
	out, err := harness.OpenFrames(s.from.Host, "eth0", false)
	if err != nil {
		return err
	}
	defer out.Close()
	before, err := n.Drops("edge1")
	if err != nil {
		return err
	}
	var ins []*harness.Frames
	for _, r := range receivers {
		in, err := harness.OpenFrames(r.Host, "eth0", false)
		if err != nil {
			return err
		}
		defer in.Close()
		ins = append(ins, in)
	}
	if err := out.Send(frame); err != nil {
		return err
	}
	// Frames that are not IP pass, and behind it.
	mark := fmt.Sprintf("behind frame %d.", n.marks.Add(1))
	if err := out.Send(harness.Marked(s.from.Ether(), harness.BroadcastMAC, mark)); err != nil {
		return err
	}
	want := 1
	if s.reason != "" {
		want = 0
	}
	for i, in := range ins {
		got, err := in.Until(func(b []byte) bool { return carries(b, frame) }, harness.Has(mark))
		if err != nil {
			return err
		}
		if len(got) != want {
			return fmt.Errorf("%s has got it %d times", receivers[i].Name, len(got))
		}
	}
	after, err := n.Drops("edge1")
	if err != nil {
		return err
	}
	if s.reason != "" && after[s.reason] <= before[s.reason] {
		err = fmt.Errorf("edge1 drops %v, before it was %v", after, before)
	}
	return err
}

// carries is whether a frame that came is one that was sent, padded or not.
func carries(came, sent []byte) bool {
	return len(came) >= len(sent) && string(came[:len(sent)]) == string(sent)
}

// strictOut allows what guests of edge1 begin on port 7001, and nothing else.
var strictOut = policy{options: "default: drop, strict: true", rules: []string{
	"name: out, action: allow, direction: out, services: [tcp/7001, udp/7001, icmp/8, icmpv6/128]",
}}

// TestFirewallFrames sends frames by hand: what passes a firewall, and what does not.
func TestFirewallFrames(t *testing.T) {
	t.Parallel()
	inSteps(t,
		step{"Conversations", strictOut, none, converse},
		step{"ICMPErrors", strictOut, none, icmpErrors},
		step{"Fragments", strictOut, none, fragments},
		step{"Floods", not7002, none, floods},
		step{"Headers", not7002, none, headers},
		step{"Tags", not7002, none, tags},
		step{"NonIP", not7002, none, nonIP},
		step{"Rejections", rejecting, none, rejections},
	)
}

// converse: what an edge thinks of segments, without the help of anybody's TCP.
func converse(n *policed) {
	n.T.Helper()
	for _, family := range []int{4, 6} {
		n.conversations(family)
	}
}

func (n *policed) conversations(family int) {
	n.T.Helper()
	there := func(words, reason string) sends {
		return sends{from: n.red1, to: n.red3, words: "tcp A:5000 > B:7001 " + words, reason: reason}
	}
	back := func(words, reason string) sends {
		return sends{from: n.red3, to: n.red1, words: "tcp A:7001 > B:5000 " + words, reason: reason}
	}
	n.talks(family,
		there("ack seq 1 acks 1", "out-of-state"), // nobody knows it
		back("syn+ack seq 500 acks 1", "out-of-state"),
		there("syn seq 100", ""),
		there("syn seq 100", ""), // again
		back("syn+ack seq 500 acks 101", ""),
		there("ack seq 101 acks 501", ""),
		there("ack seq 101 acks 501 40", ""),
		back("ack seq 501 acks 141 60", ""),
		there("syn+fin seq 141", "tcp-flags"),
		back("fin seq 561", "tcp-flags"),
		back("rst seq 200000", "out-of-window"),
		back("rst seq 600", ""), // in the window and not exact: whoever gets it asks (RFC 5961)
		there("ack seq 141 acks 561 10", ""),
		back("rst seq 561", ""),
		there("ack seq 151 acks 561 10", ""), // still there for a while
		there("syn seq 90000", ""),           // anew
		back("syn+ack seq 800 acks 90001", ""),
		there("ack seq 90001 acks 801", ""),
		there("fin+ack seq 90001 acks 801", ""),
		back("ack seq 801 acks 90002 30", ""), // half closed
		back("fin+ack seq 831 acks 90002", ""),
		there("ack seq 90002 acks 832", ""),
		back("syn seq 1", "denied"), // from outside
	)
	n.talks(family,
		sends{n.red3, n.red1, "udp A:7001 > B:6000 20", nil, "denied"},
		sends{n.red1, n.red3, "udp A:6000 > B:7001 20", nil, ""},
		sends{n.red3, n.red1, "udp A:7001 > B:6000 20", nil, ""},
		sends{n.red3, n.red1, "udp A:7001 > B:6001 20", nil, "denied"},
		sends{n.red1, n.red2, "udp A:6000 > B:7001 20", nil, "denied"}, // at p2
		sends{n.red3, n.red1, "icmp A > B 20", nil, "denied"},
		sends{n.red1, n.red3, "icmp A > B id 9 20", nil, ""},
	)
	reply := map[int]string{4: "0/0", 6: "129/0"}[family]
	n.talks(family,
		sends{n.red3, n.red1, "icmp A > B " + reply + " id 9 20", nil, ""},
		sends{n.red3, n.red1, "icmp A > B " + reply + " id 8 20", nil, "out-of-state"},
		sends{n.red3, n.red1, "icmp A > B id 9 20", nil, "denied"}, // its own question with the same number
	)
}

// about is the ICMP error that a router at the receiver would send about a frame.
func (n *policed) about(s sends, family int, words string) sends {
	kind, code := uint8(3), uint8(1) // host unreachable
	if family == 6 {
		kind, code = 1, 3
	}
	quoted := n.frame(sends{from: s.from, to: s.to, words: words}, family)
	frame := pkttest.ErrorAbout(s.to.Ether().String(), s.from.Ether().String(), harness.SubnetAddr(0, 200, family), n.stranger(s.from, family), kind, code, quoted, 1000)
	return sends{from: s.to, to: s.from, words: "icmp A > B 3/1", change: func([]byte) []byte { return frame }}
}

// icmpErrors about a connection of the port pass, whoever they are from, and no others do.
func icmpErrors(n *policed) {
	n.T.Helper()
	for _, family := range []int{4, 6} {
		first := sends{from: n.red1, to: n.red3, words: "udp A:6000 > B:7001 20"}
		tcp := sends{from: n.red1, to: n.red3, words: "tcp A:5000 > B:7001 syn seq 100"}
		forged := func(s sends) sends { s.reason = "unrelated"; return s }
		n.talks(family,
			forged(n.about(first, family, first.words)), // not yet
			first, tcp,
			n.about(first, family, first.words),
			n.about(tcp, family, tcp.words),
			forged(n.about(first, family, "udp A:6001 > B:7001 20")),
			forged(n.about(first, family, "tcp A:6000 > B:7001 syn")),
			forged(n.about(first, family, "udp B:6000 > A:7001 20")), // about what came to red1
			forged(n.about(first, family, "icmp A > B 20")),
			first,
		)
		n.Once("a closed port of red3 says so to red1", func() error {
			return harness.Meets(n.red1, "udp", n.red3.Addr(family), harness.PortAllowed, harness.Refused)
		})
	}
}

// fragmentOf makes a frame one of its fragments, of at most size bytes of payload.
func fragmentOf(number, size int) func([]byte) []byte {
	return func(frame []byte) []byte { return pkttest.Fragments(frame, 77, size)[number] }
}

// fragments: the first decides, and later ones follow it.
func fragments(n *policed) {
	n.T.Helper()
	n.Serve(n.red3, harness.PortAllowed, harness.PortDropped)
	for _, family := range []int{4, 6} {
		for _, size := range []int{2000, 5000} {
			n.Once(fmt.Sprintf("%d bytes to red3 and back in fragments, IPv%d", size, family), func() error {
				return n.red1.Do(func() error {
					return echoFragments(netip.AddrPortFrom(n.red3.Addr(family), harness.PortAllowed), size, harness.Patience)
				})
			})
			n.Once(fmt.Sprintf("%d bytes to another port are not answered, IPv%d", size, family), func() error {
				err := n.red1.Do(func() error {
					return echoFragments(netip.AddrPortFrom(n.red3.Addr(family), harness.PortDropped), size, harness.QuietTime)
				})
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					return fmt.Errorf("it is answered, or %w", err)
				}
				return nil
			})
		}
		const words, denied = "udp A:6000 > B:7001 1000", "udp A:6000 > B:7002 1000"
		small := func(words string, number, size int, reason string) sends {
			return sends{n.red1, n.red3, words, fragmentOf(number, size), reason}
		}
		n.talks(family,
			small(words, 1, 400, "fragment-no-first"), // alone
			small(words, 0, 400, ""),
			small(words, 1, 400, ""),
			small(words, 2, 400, ""),
			small(words, 1, 400, ""), // once more, as a retransmitting link does
			sends{n.red1, n.red3, denied, func(f []byte) []byte { return pkttest.Fragments(f, 78, 400)[0] }, "denied"},
			sends{n.red1, n.red3, denied, func(f []byte) []byte { return pkttest.Fragments(f, 78, 400)[1] }, "fragment-no-first"},
			// The same number between others is another datagram's.
			sends{n.red2, n.red3, words, fragmentOf(1, 400), "fragment-no-first"},
			sends{n.red1, n.red3, "tcp A:5000 > B:7001 syn seq 1 40", fragmentOf(0, 8), "fragment-tiny"},
			sends{n.red1, n.red3, "tcp A:5000 > B:7001 syn seq 1 40", fragmentOf(1, 8), "fragment-tiny"},
		)
	}
}

// echoFragments sends a datagram that does not fit, and wants it back.
func echoFragments(to netip.AddrPort, size int, wait time.Duration) error {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return err
	}
	defer conn.Close()
	return harness.EchoOne(conn, harness.Content[:size], wait)
}
