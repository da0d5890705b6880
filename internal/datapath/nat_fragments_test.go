package datapath

import "testing"

// Fragments follow the first one of their datagram, both ways (RFC 4787 section 11, RFC
// 6146 section 3.4).
var natFragments = []natCase{
	{name: "in order", steps: []string{
		"bob: piece 0 of 64 id 7 udp 10.0.1.11:4100 > 203.0.113.5:53 150 => isp: piece 0 of 64 id 7 udp 198.51.100.100:4100 > 203.0.113.5:53 150",
		"bob: piece 1 of 64 id 7 udp 10.0.1.11:4100 > 203.0.113.5:53 150 => isp: piece 1 of 64 id 7 udp 198.51.100.100:4100 > 203.0.113.5:53 150",
		"bob: piece 2 of 64 id 7 udp 10.0.1.11:4100 > 203.0.113.5:53 150 => isp: piece 2 of 64 id 7 udp 198.51.100.100:4100 > 203.0.113.5:53 150",
		"isp: piece 0 of 64 id 9 udp 203.0.113.5:53 > 198.51.100.100:4100 150 => bob: piece 0 of 64 id 9 udp 203.0.113.5:53 > 10.0.1.11:4100 150",
		"isp: piece 2 of 64 id 9 udp 203.0.113.5:53 > 198.51.100.100:4100 150 => bob: piece 2 of 64 id 9 udp 203.0.113.5:53 > 10.0.1.11:4100 150",
		"isp: piece 1 of 64 id 9 udp 203.0.113.5:53 > 198.51.100.100:4100 150 => bob: piece 1 of 64 id 9 udp 203.0.113.5:53 > 10.0.1.11:4100 150",
		natAnswer,
	}},
	{name: "behind other packets of the flow", steps: []string{
		natAsk, natAnswer, natAsk,
		"bob: piece 0 of 96 id 7 udp 10.0.1.11:4100 > 203.0.113.5:53 150 => isp: piece 0 of 96 id 7 udp 198.51.100.100:4100 > 203.0.113.5:53 150",
		"bob: piece 1 of 96 id 7 udp 10.0.1.11:4100 > 203.0.113.5:53 150 => isp: piece 1 of 96 id 7 udp 198.51.100.100:4100 > 203.0.113.5:53 150",
		natAsk, natAnswer,
	}},
	{name: "later ones before the first", steps: []string{
		"bob: piece 1 of 64 id 7 udp 10.0.1.11:4100 > 203.0.113.5:53 150 => drop nat-fragment",
		"bob: piece 2 of 64 id 7 udp 10.0.1.11:4100 > 203.0.113.5:53 150 => drop nat-fragment",
		"bob: piece 0 of 64 id 7 udp 10.0.1.11:4100 > 203.0.113.5:53 150 => isp: piece 0 of 64 id 7 udp 198.51.100.100:4100 > 203.0.113.5:53 150",
		"bob: piece 1 of 64 id 7 udp 10.0.1.11:4100 > 203.0.113.5:53 150 => isp: piece 1 of 64 id 7 udp 198.51.100.100:4100 > 203.0.113.5:53 150",
		"bob: piece 1 of 64 id 8 udp 10.0.1.11:4100 > 203.0.113.5:53 150 => drop nat-fragment",
		"bob: piece 1 of 64 id 7 udp 10.0.1.12:4100 > 203.0.113.5:53 150 => drop nat-fragment",
		"isp: piece 1 of 64 id 7 udp 203.0.113.5:53 > 198.51.100.100:4100 150 => drop nat-fragment,no-nat-session",
		"alice: piece 1 of 64 id 7 udp 10.0.1.10:4100 > 203.0.113.5:53 150 => drop nat-fragment",
		"dave: piece 1 of 64 id 7 udp 10.0.2.13:4100 > 203.0.113.5:53 150 => drop nat-fragment",
	}},
	{name: "too late", steps: []string{
		"bob: piece 0 of 64 id 7 udp 10.0.1.11:4100 > 203.0.113.5:53 150 => isp: piece 0 of 64 id 7 udp 198.51.100.100:4100 > 203.0.113.5:53 150",
		"wait 100s",
		"bob: piece 1 of 64 id 7 udp 10.0.1.11:4100 > 203.0.113.5:53 150 => drop nat-fragment",
	}},
	{name: "of a ping with another identifier", steps: []string{
		natPing,
		"bob: piece 0 of 64 id 7 icmp 10.0.1.21 > 203.0.113.5 8/0 id 4107 150 => isp: piece 0 of 64 id 7 icmp 198.51.100.100 > 203.0.113.5 8/0 id $p 150",
		"bob: piece 1 of 64 id 7 icmp 10.0.1.21 > 203.0.113.5 8/0 id 4107 150 => isp: piece 1 of 64 id 7 icmp 198.51.100.100 > 203.0.113.5 8/0 id $p 150",
		"isp: piece 0 of 64 id 7 icmp 203.0.113.5 > 198.51.100.100 0/0 id $p 150 => bob: piece 0 of 64 id 7 icmp 203.0.113.5 > 10.0.1.21 0/0 id 4107 150",
		"isp: piece 1 of 64 id 7 icmp 203.0.113.5 > 198.51.100.100 0/0 id $p 150 => bob: piece 1 of 64 id 7 icmp 203.0.113.5 > 10.0.1.21 0/0 id 4107 150",
	}},
	{name: "of TCP", steps: []string{
		"dave: piece 0 of 64 id 7 tcp 10.0.2.13:4100 > 203.0.113.5:80 syn seq 5 150 => isp: piece 0 of 64 id 7 tcp 198.51.100.100:4100 > 203.0.113.5:80 syn seq 5 150",
		"dave: piece 1 of 64 id 7 tcp 10.0.2.13:4100 > 203.0.113.5:80 syn seq 5 150 => isp: piece 1 of 64 id 7 tcp 198.51.100.100:4100 > 203.0.113.5:80 syn seq 5 150",
		"isp: piece 0 of 64 id 3 tcp 203.0.113.5:80 > 198.51.100.100:4100 syn+ack seq 70 acks 6 150 => " +
			"dave: piece 0 of 64 id 3 tcp 203.0.113.5:80 > 10.0.2.13:4100 syn+ack seq 70 acks 6 150",
		"isp: piece 1 of 64 id 3 tcp 203.0.113.5:80 > 198.51.100.100:4100 syn+ack seq 70 acks 6 150 => " +
			"dave: piece 1 of 64 id 3 tcp 203.0.113.5:80 > 10.0.2.13:4100 syn+ack seq 70 acks 6 150",
	}},
	{name: "that cut the transport header", steps: []string{
		"bob: piece 0 of 8 id 7 tcp 10.0.1.11:4100 > 203.0.113.5:80 syn seq 5 50 => drop fragment-tiny",
		"bob: piece 1 of 8 id 7 tcp 10.0.1.11:4100 > 203.0.113.5:80 syn seq 5 50 => drop fragment-tiny",
		"bob: piece 2 of 16 id 7 tcp 10.0.1.11:4100 > 203.0.113.5:80 syn seq 5 50 => drop nat-fragment",
		"isp: piece 0 of 8 id 7 tcp 203.0.113.5:80 > 198.51.100.100:4100 syn seq 5 50 => drop fragment-tiny",
	}},
	{name: "of what has no ports", steps: []string{
		"bob: piece 0 of 64 id 7 ip 10.0.1.11 > 203.0.113.5 50 150 => isp: piece 0 of 64 id 7 ip 198.51.100.100 > 203.0.113.5 50 150",
		"bob: piece 1 of 64 id 7 ip 10.0.1.11 > 203.0.113.5 50 150 => isp: piece 1 of 64 id 7 ip 198.51.100.100 > 203.0.113.5 50 150",
	}},
	{name: "of what cannot be translated", steps: []string{
		"bob: piece 0 of 64 id 7 icmp 10.0.1.11 > 203.0.113.5 13/0 150 => drop nat-unsupported",
		"bob: piece 1 of 64 id 7 icmp 10.0.1.11 > 203.0.113.5 13/0 150 => drop nat-fragment,nat-unsupported",
		"isp: piece 0 of 64 id 7 udp 203.0.113.5:53 > 198.51.100.100:4100 150 => drop no-nat-session",
		"isp: piece 1 of 64 id 7 udp 203.0.113.5:53 > 198.51.100.100:4100 150 => drop nat-fragment,no-nat-session",
	}},
	{name: "the same identification both ways and of two sources", steps: []string{
		"bob: piece 0 of 64 id 7 udp 10.0.1.11:4100 > 203.0.113.5:53 150 => isp: piece 0 of 64 id 7 udp 198.51.100.100:4100 > 203.0.113.5:53 150",
		"isp: piece 0 of 64 id 7 udp 203.0.113.5:53 > 198.51.100.100:4100 150 => bob: piece 0 of 64 id 7 udp 203.0.113.5:53 > 10.0.1.11:4100 150",
		"bob: piece 0 of 64 id 7 udp 10.0.1.21:4101 > 203.0.113.5:53 150 => isp: piece 0 of 64 id 7 udp 198.51.100.100:4101 > 203.0.113.5:53 150",
		"bob: piece 1 of 64 id 7 udp 10.0.1.11:4100 > 203.0.113.5:53 150 => isp: piece 1 of 64 id 7 udp 198.51.100.100:4100 > 203.0.113.5:53 150",
		"bob: piece 1 of 64 id 7 udp 10.0.1.21:4101 > 203.0.113.5:53 150 => isp: piece 1 of 64 id 7 udp 198.51.100.100:4101 > 203.0.113.5:53 150",
		"isp: piece 1 of 64 id 7 udp 203.0.113.5:53 > 198.51.100.100:4100 150 => bob: piece 1 of 64 id 7 udp 203.0.113.5:53 > 10.0.1.11:4100 150",
	}},
}

// Extension headers of IPv6: what they lead to is translated, as far as they are looked behind.
var natExtensions = []natCase{
	{name: "one and several", only4: true, steps: []string{
		"bob: behind 60 udp [2001:db8:1::b]:4100 > [2001:db8:77::5]:53 30 => isp: behind 60 udp [2001:db8:ff::100]:4100 > [2001:db8:77::5]:53 30",
		"isp: behind 0 udp [2001:db8:77::5]:53 > [2001:db8:ff::100]:4100 30 => bob: behind 0 udp [2001:db8:77::5]:53 > [2001:db8:1::b]:4100 30",
		"bob: behind 0,60,60,60 udp [2001:db8:1::b]:4100 > [2001:db8:77::5]:53 30 => isp: behind 0,60,60,60 udp [2001:db8:ff::100]:4100 > [2001:db8:77::5]:53 30",
		"isp: behind 60,60,60,60 udp [2001:db8:77::5]:53 > [2001:db8:ff::100]:4100 30 => bob: behind 60,60,60,60 udp [2001:db8:77::5]:53 > [2001:db8:1::b]:4100 30",
		"dave: behind 60,60 tcp [2001:db8:2::d]:4100 > [2001:db8:77::5]:80 syn => isp: behind 60,60 tcp [2001:db8:ff::100]:4100 > [2001:db8:77::5]:80 syn",
	}},
	{name: "too many", only4: true, steps: []string{
		"bob: behind 60,60,60,60,60,60,60 udp [2001:db8:1::b]:4100 > [2001:db8:77::5]:53 30 => drop ipv6-ext-headers,nat-unsupported",
		"alice: behind 60,60,60,60,60,60,60 udp [2001:db8:1::a]:4100 > [2001:db8:77::5]:53 30 => drop ipv6-ext-headers,nat-unsupported",
		"isp: behind 60,60,60,60,60,60,60 udp [2001:db8:77::5]:53 > [2001:db8:ff::100]:4100 30 => drop ipv6-ext-headers,nat-unsupported,no-nat-session",
	}},
	{name: "fragments behind headers", only4: true, steps: []string{
		"bob: behind 60 piece 0 of 64 id 7 udp [2001:db8:1::b]:4100 > [2001:db8:77::5]:53 150 => " +
			"isp: behind 60 piece 0 of 64 id 7 udp [2001:db8:ff::100]:4100 > [2001:db8:77::5]:53 150",
		"bob: behind 60 piece 1 of 64 id 7 udp [2001:db8:1::b]:4100 > [2001:db8:77::5]:53 150 => " +
			"isp: behind 60 piece 1 of 64 id 7 udp [2001:db8:ff::100]:4100 > [2001:db8:77::5]:53 150",
		"bob: behind 60 piece 1 of 64 id 8 udp [2001:db8:1::b]:4100 > [2001:db8:77::5]:53 150 => drop nat-fragment",
	}},
	{name: "an error that quotes headers", only4: true, steps: []string{
		"bob: behind 60,60 udp [2001:db8:1::b]:4100 > [2001:db8:77::5]:53 30 => isp: behind 60,60 udp [2001:db8:ff::100]:4100 > [2001:db8:77::5]:53 30",
		"isp: error 1/4 2001:db8:77::5 > 2001:db8:ff::100 quoting 900 behind 60,60 udp [2001:db8:ff::100]:4100 > [2001:db8:77::5]:53 30 => " +
			"bob: error 1/4 2001:db8:77::5 > 2001:db8:1::b quoting 900 behind 60,60 udp [2001:db8:1::b]:4100 > [2001:db8:77::5]:53 30",
	}},
}

func TestNATFragments(t *testing.T) {
	natWays(t, func(t *testing.T, w *world) {
		for _, c := range append(natFragments, natExtensions...) {
			t.Run(c.name, func(t *testing.T) { w.natCase(t, c) })
		}
	})
}
