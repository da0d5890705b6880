package datapath

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/test/pkttest/check"
)

// unfinished is a TCP or UDP frame whose checksum is left to the device, as stacks send it:
// it holds the sum of the pseudo header. gso cuts it into packets of so much, 0: it is one.
func unfinished(frame []byte, gso int) (virtioHeader, []byte) {
	at, seed := pseudoSum(frame)
	b := append([]byte(nil), frame...)
	binary.BigEndian.PutUint16(b[at:], seed)
	start := etherLen + ipv4Len
	if frame[12] == 0x86 {
		start = etherLen + ipv6Len
	}
	h := virtioHeader{Flags: virtioNeedsCsum, CsumStart: uint16(start), CsumOffset: uint16(at - start)}
	if gso > 0 {
		h.GSOType = map[bool]uint8{false: virtioTCPv4, true: virtioTCPv6}[frame[12] == 0x86]
		h.GSOSize, h.HdrLen = uint16(gso), uint16(start+20)
	}
	return h, b
}

// natUnfinished are conversations of dave at a port and of bob beyond a tunnel: what each
// says and how it arrives. Others have their ports, so that those change too.
var natUnfinished = []struct{ from, reported, to, received string }{
	{"p2", "dave: udp 10.0.2.13:4100 > 203.0.113.5:53 31", "s0", "isp: udp 198.51.100.100:$p > 203.0.113.5:53 31"},
	{"s0", "isp: udp 203.0.113.5:53 > 198.51.100.100:$p 32", "p2", "dave: udp 203.0.113.5:53 > 10.0.2.13:4100 32"},
	{"p2", "dave: udp 10.0.2.13:4100 > 203.0.113.5:53 1301", "s0", "isp: udp 198.51.100.100:$p > 203.0.113.5:53 1301"},
	{"p2", "dave: tcp 10.0.2.13:4100 > 203.0.113.5:80 syn seq 9", "s0", "isp: tcp 198.51.100.100:$q > 203.0.113.5:80 syn seq 9"},
	{"s0", "isp: tcp 203.0.113.5:80 > 198.51.100.100:$q syn+ack seq 20 acks 10", "p2", "dave: tcp 203.0.113.5:80 > 10.0.2.13:4100 syn+ack seq 20 acks 10"},
	{"p2", "dave: tcp 10.0.2.13:4100 > 203.0.113.5:80 ack seq 10 acks 21", "s0", "isp: tcp 198.51.100.100:$q > 203.0.113.5:80 ack seq 10 acks 21"},
	{"p2", "dave: tcp 10.0.2.13:4100 > 203.0.113.5:80 ack seq 10 acks 21 700", "s0", "isp: tcp 198.51.100.100:$q > 203.0.113.5:80 ack seq 10 acks 21 700"},
	{"s0", "isp: tcp 203.0.113.5:80 > 198.51.100.100:$q ack seq 21 acks 710 555", "p2", "dave: tcp 203.0.113.5:80 > 10.0.2.13:4100 ack seq 21 acks 710 555"},
	{"s0", "isp: udp 203.0.113.5:53 > 198.51.100.100:4100 45", "u0", "bob: udp 203.0.113.5:53 > 10.0.1.11:4100 45"},
	{"s0", "isp: tcp 203.0.113.5:80 > 198.51.100.100:4100 syn+ack seq 20 acks 10", "u0", "bob: tcp 203.0.113.5:80 > 10.0.1.11:4100 syn+ack seq 20 acks 10"},
}

// Checksums that a stack left to the device are right when it has filled them in: on the uplink, at ports, in tunnels; of new and of cached flows.
func TestNATUnfinishedChecksums(t *testing.T) {
	t.Parallel()
	all := ways()
	for _, to := range []way{all[0], all[5]} {
		for _, cached := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, flow cache %t", to.name, cached), func(t *testing.T) {
				w := natWorld(t, to, func(c *Config, _ *fib.Tables) { c.FlowCache.Enabled = cached })
				taps := w.natTaps(t)
				for _, v6 := range []bool{false, true} {
					n := w.talk(t)
					n.follow(natFamily(v6, natAsk, natSYN)...)
					for _, c := range natUnfinished {
						words := natFamily(v6, c.reported, c.received)
						for range 2 {
							n.unfinished(taps, c.from, words[0], c.to, words[1])
						}
					}
				}
			})
		}
	}
}

func natFamily(v6 bool, steps ...string) []string {
	if v6 {
		return natSixSteps(steps)
	}
	return steps
}

func (w *world) natTaps(t *testing.T) map[string]*tap {
	t.Helper()
	taps := w.taps(t)
	taps["s0"] = w.tap(t, "s0x", "s0")
	return taps
}

// unfinished sends a packet at one tap, and checks what comes at another.
func (n *natTalk) unfinished(taps map[string]*tap, at, reported, to, received string) {
	n.t.Helper()
	from, words := natBegin(reported)
	h, b := unfinished(natFrame(from.src, from.dst, n.named(words)), 0)
	taps[at].sendWith(n.t, taps[at].self, h, b)
	out := taps[to].receive(n.t, 1)[0].bytes
	arrived, frame := n.w.natArrived(n.t, result{forwarded, out})
	dst, words := natBegin(received)
	n.learn(words, frame)
	if arrived != dst.name {
		n.t.Errorf("%s: it arrived at %q", n.named(reported), arrived)
	}
	check.Equal(n.t, n.named(reported), natLowered(natFrame(dst.smac, dst.dmac, n.named(words))), frame)
}

// natBegin is the host that words begin with, and the rest.
func natBegin(reported string) (natHost, string) {
	for i := range reported {
		if reported[i] == ':' {
			return natHostOf(reported[:i]), reported[i+2:]
		}
	}
	panic("no station: " + reported)
}
