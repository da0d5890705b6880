package datapath

import (
	"net/netip"
	"testing"

	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// What the edge itself says of a packet that cannot go on quotes it as its sender knows it, on both sides of the translation.
func TestNATErrorsOfTheEdge(t *testing.T) {
	natWays(t, func(t *testing.T, w *world) {
		for _, c := range []struct {
			from, words string
			kind        uint8
			source      string
		}{
			{"isp", "ttl 1 udp 203.0.113.5:53 > 198.51.100.100:4100 40", 11, uplink4},
			{"isp", "ttl 1 udp [2001:db8:77::5]:53 > [2001:db8:ff::100]:4100 40", 3, uplink6},
			{"bob", "ttl 1 udp 10.0.1.11:4100 > 203.0.113.5:53 40", 11, ""},
			{"bob", "ttl 1 udp [2001:db8:1::b]:4100 > [2001:db8:77::5]:53 40", 3, ""},
			{"dave", "ttl 1 udp 10.0.2.13:4100 > 203.0.113.5:53 40", 11, greenGateway4},
			{"isp", "df udp 203.0.113.5:53 > 198.51.100.100:4100 1440", 3, uplink4},
			{"isp", "udp [2001:db8:77::5]:53 > [2001:db8:ff::100]:4100 1420", 2, uplink6},
		} {
			n := w.talk(t)
			n.follow(natAsk, natSix(natAsk))
			from := natHostOf(c.from)
			for range 2 { // the second may find its flow
				in := natFrame(from.src, from.dst, c.words)
				why, r := w.natOffer(t, from, in)
				at, out := w.natArrived(t, r)
				if why == "" || r.verdict != forwarded || at != c.from {
					t.Errorf("%s: %s; want a message back", c.words, w.natWent(t, why, r))
					continue
				}
				w.isNATError(t, in, out, c.kind, c.source)
			}
		}
	})
}

func (w *world) isNATError(t *testing.T, in, out []byte, kind uint8, source string) {
	t.Helper()
	talk := pkttest.TalkOf(in)
	icmp := check.ICMP
	if talk.Src.Addr().Is6() {
		icmp = check.ICMPv6
	}
	src := pkttest.TalkOf(out).Src.Addr()
	if source != "" {
		src = netip.MustParseAddr(source)
	}
	code := uint8(0)
	if kind == 3 && talk.Src.Addr().Is4() {
		code = 4 // fragmentation needed
	}
	check.Packet(t, in, out, check.Ether(macString(out[6:12]), macString(out[:6])), check.IP(src, talk.Src.Addr()), icmp(kind, code, check.Quotes(ipOf(in))))
}
