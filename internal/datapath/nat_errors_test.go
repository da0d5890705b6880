package datapath

import (
	"net/netip"
	"testing"

	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// ICMP errors (RFC 5508 section 4): translated with what they quote, and only about what
// has a session.
var natErrors = []natCase{
	{name: "from outside about UDP", steps: []string{
		natAsk,
		"isp: error 3/3 203.0.113.5 > 198.51.100.100 quoting 500 udp 198.51.100.100:4100 > 203.0.113.5:53 30 => " +
			"bob: error 3/3 203.0.113.5 > 10.0.1.11 quoting 500 udp 10.0.1.11:4100 > 203.0.113.5:53 30",
		natAnswer,
	}},
	{name: "from a router on the way, with a cut quote", steps: []string{
		natAsk,
		"isp: error 11/0 203.0.113.99 > 198.51.100.100 quoting 28 ttl 1 udp 198.51.100.100:4100 > 203.0.113.5:53 30 => " +
			"bob: error 11/0 203.0.113.99 > 10.0.1.11 quoting 28 ttl 1 udp 10.0.1.11:4100 > 203.0.113.5:53 30",
		"isp: error 3/4 203.0.113.99 > 198.51.100.100 quoting 41 df udp 198.51.100.100:4100 > 203.0.113.5:53 30 => " +
			"bob: error 3/4 203.0.113.99 > 10.0.1.11 quoting 41 df udp 10.0.1.11:4100 > 203.0.113.5:53 30",
	}, only4: true},
	{name: "from a router on the way, with a cut quote of IPv6", steps: []string{
		"bob: udp [2001:db8:1::b]:4100 > [2001:db8:77::5]:53 30 => isp: udp [2001:db8:ff::100]:4100 > [2001:db8:77::5]:53 30",
		"isp: error 3/0 2001:db8:77::63 > 2001:db8:ff::100 quoting 48 ttl 1 udp [2001:db8:ff::100]:4100 > [2001:db8:77::5]:53 30 => " +
			"bob: error 3/0 2001:db8:77::63 > 2001:db8:1::b quoting 48 ttl 1 udp [2001:db8:1::b]:4100 > [2001:db8:77::5]:53 30",
		"isp: error 2/0 2001:db8:77::63 > 2001:db8:ff::100 quoting 61 udp [2001:db8:ff::100]:4100 > [2001:db8:77::5]:53 30 => " +
			"bob: error 2/0 2001:db8:77::63 > 2001:db8:1::b quoting 61 udp [2001:db8:1::b]:4100 > [2001:db8:77::5]:53 30",
	}, only4: true},
	{name: "from outside about TCP", steps: []string{
		natSYN,
		"isp: error 3/1 203.0.113.99 > 198.51.100.100 quoting 500 tcp 198.51.100.100:4100 > 203.0.113.5:80 syn seq 9 => " +
			"bob: error 3/1 203.0.113.99 > 10.0.1.11 quoting 500 tcp 10.0.1.11:4100 > 203.0.113.5:80 syn seq 9",
		"isp: error 3/1 203.0.113.99 > 198.51.100.100 quoting 52 tcp 198.51.100.100:4100 > 203.0.113.5:80 syn seq 9 => " +
			"bob: error 3/1 203.0.113.99 > 10.0.1.11 quoting 52 tcp 10.0.1.11:4100 > 203.0.113.5:80 syn seq 9",
	}},
	{name: "from outside about a ping", steps: []string{
		"bob: icmp 10.0.1.21 > 203.0.113.5 8/0 id 4107 30 => isp: icmp 198.51.100.100 > 203.0.113.5 8/0 id 4107 30",
		"bob: icmp 10.0.1.11 > 203.0.113.5 8/0 id 4107 30 => isp: icmp 198.51.100.100 > 203.0.113.5 8/0 id $p 30",
		"isp: error 11/0 203.0.113.99 > 198.51.100.100 quoting 500 icmp 198.51.100.100 > 203.0.113.5 8/0 id $p 30 => " +
			"bob: error 11/0 203.0.113.99 > 10.0.1.11 quoting 500 icmp 10.0.1.11 > 203.0.113.5 8/0 id 4107 30",
		"isp: error 11/0 203.0.113.99 > 198.51.100.100 quoting 500 icmp 198.51.100.100 > 203.0.113.5 8/0 id 4107 30 => " +
			"bob: error 11/0 203.0.113.99 > 10.0.1.21 quoting 500 icmp 10.0.1.21 > 203.0.113.5 8/0 id 4107 30",
	}},
	{name: "about a translated port", steps: []string{
		natAsk,
		"bob: udp 10.0.1.21:4100 > 203.0.113.5:53 31 => isp: udp 198.51.100.100:$p > 203.0.113.5:53 31",
		"isp: error 3/3 203.0.113.5 > 198.51.100.100 quoting 500 udp 198.51.100.100:$p > 203.0.113.5:53 31 => " +
			"bob: error 3/3 203.0.113.5 > 10.0.1.21 quoting 500 udp 10.0.1.21:4100 > 203.0.113.5:53 31",
	}},
	{name: "from the source about an answer", steps: []string{
		natAsk, natAnswer,
		"bob: error 3/3 10.0.1.11 > 203.0.113.5 quoting 500 udp 203.0.113.5:53 > 10.0.1.11:4100 40 => " +
			"isp: error 3/3 198.51.100.100 > 203.0.113.5 quoting 500 udp 203.0.113.5:53 > 198.51.100.100:4100 40",
	}},
	{name: "from a router inside about an answer", steps: []string{
		natAsk, natAnswer,
		"bob: error 3/1 10.0.1.99 > 203.0.113.5 quoting 500 udp 203.0.113.5:53 > 10.0.1.11:4100 40 => " +
			"isp: error 3/1 198.51.100.100 > 203.0.113.5 quoting 500 udp 203.0.113.5:53 > 198.51.100.100:4100 40",
	}},
	{name: "from a port here about an answer", steps: []string{
		"dave: tcp 10.0.2.13:4100 > 203.0.113.5:53 syn seq 9 => isp: tcp 198.51.100.100:4100 > 203.0.113.5:53 syn seq 9",
		"isp: tcp 203.0.113.5:53 > 198.51.100.100:4100 syn+ack seq 77 acks 10 => dave: tcp 203.0.113.5:53 > 10.0.2.13:4100 syn+ack seq 77 acks 10",
		"dave: error 3/3 10.0.2.13 > 203.0.113.5 quoting 500 tcp 203.0.113.5:53 > 10.0.2.13:4100 syn+ack seq 77 acks 10 => " +
			"isp: error 3/3 198.51.100.100 > 203.0.113.5 quoting 500 tcp 203.0.113.5:53 > 198.51.100.100:4100 syn+ack seq 77 acks 10",
		"alice: udp 10.0.1.10:4100 > 203.0.113.5:53 30 => isp: udp 198.51.100.1:4100 > 203.0.113.5:53 30",
		"isp: error 3/3 203.0.113.5 > 198.51.100.1 quoting 500 udp 198.51.100.1:4100 > 203.0.113.5:53 30 => " +
			"alice: error 3/3 203.0.113.5 > 10.0.1.10 quoting 500 udp 10.0.1.10:4100 > 203.0.113.5:53 30",
	}},
	{name: "about nothing that was", steps: []string{
		natAsk,
		"isp: error 3/3 203.0.113.5 > 198.51.100.100 quoting 500 udp 198.51.100.100:4101 > 203.0.113.5:53 30 => drop no-nat-session,unrelated",
		"isp: error 3/3 203.0.113.5 > 198.51.100.100 quoting 500 udp 198.51.100.101:4100 > 203.0.113.5:53 30 => drop no-nat-session,unrelated",
		"isp: error 3/3 203.0.113.5 > 198.51.100.100 quoting 500 tcp 198.51.100.100:4100 > 203.0.113.5:53 syn => drop no-nat-session,unrelated",
		"bob: error 3/3 10.0.1.11 > 203.0.113.5 quoting 500 udp 203.0.113.5:53 > 10.0.1.11:4101 40 => drop no-nat-session,unrelated,nat-unsupported",
		"bob: error 3/3 10.0.1.11 > 203.0.113.5 quoting 500 udp 203.0.113.5:54 > 10.0.1.11:4100 40 => drop no-nat-session,unrelated,nat-unsupported",
		"alice: error 3/3 10.0.1.10 > 203.0.113.5 quoting 500 udp 203.0.113.5:54 > 10.0.1.10:4100 40 => drop no-nat-session,unrelated,nat-unsupported",
		"dave: error 11/0 10.0.2.13 > 203.0.113.5 quoting 500 ip 203.0.113.5 > 10.0.2.13 50 40 => drop no-nat-session,unrelated,nat-unsupported",
		natAnswer,
	}},
	{name: "quoting too little", only4: true, steps: []string{
		natAsk,
		"isp: error 3/3 203.0.113.5 > 198.51.100.100 quoting 27 udp 198.51.100.100:4100 > 203.0.113.5:53 30 => drop no-nat-session,unrelated,nat-unsupported",
		"isp: error 3/3 203.0.113.5 > 198.51.100.100 quoting 19 udp 198.51.100.100:4100 > 203.0.113.5:53 30 => drop no-nat-session,unrelated,nat-unsupported",
		"isp: error 3/3 203.0.113.5 > 198.51.100.100 quoting 0 udp 198.51.100.100:4100 > 203.0.113.5:53 30 => drop no-nat-session,unrelated,nat-unsupported",
		"bob: error 3/3 10.0.1.11 > 203.0.113.5 quoting 27 udp 203.0.113.5:53 > 10.0.1.11:4100 40 => drop no-nat-session,unrelated,nat-unsupported",
		"bob: error 3/3 10.0.1.11 > 203.0.113.5 quoting 0 udp 203.0.113.5:53 > 10.0.1.11:4100 40 => drop no-nat-session,unrelated,nat-unsupported",
	}},
	{name: "keeps nothing alive and opens nothing", steps: []string{
		natAsk, "wait 119s",
		"isp: error 3/3 203.0.113.5 > 198.51.100.100 quoting 500 udp 198.51.100.100:4100 > 203.0.113.5:53 30 => " +
			"bob: error 3/3 203.0.113.5 > 10.0.1.11 quoting 500 udp 10.0.1.11:4100 > 203.0.113.5:53 30",
		"wait 10s",
		"isp: udp 203.0.113.5:53 > 198.51.100.100:4100 40 => drop no-nat-session",
	}},
}

func TestNATErrors(t *testing.T) {
	natWays(t, func(t *testing.T, w *world) {
		for _, c := range natErrors {
			t.Run(c.name, func(t *testing.T) { w.natCase(t, c) })
		}
	})
}

// What the edge itself says of a packet that cannot go on quotes it as its sender knows it,
// on both sides of the translation.
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
