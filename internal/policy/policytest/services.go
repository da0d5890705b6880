package policytest

func portsOfTCPAndUDPTable() Table {
	return Table{Name: "ports of TCP and UDP", Rules: []string{
		"http: allow both any > any tcp/80", "pair: allow both any > any tcp/443,8443", "dns: allow both any > any udp/53 tcp/53", "range: drop both any > any tcp/8000-8999",
		"low: reject both any > any udp/0", "high: reject both any > any udp/65535", "most: drop both any > any udp/1024-65534", "every: allow both any > any sctp/0-65535",
	}, Cases: []Case{
		{"the port", "in p0 tcp 10.0.0.1:1000 > 10.0.0.2:80", "http"},
		{"the port before", "in p0 tcp 10.0.0.1:1000 > 10.0.0.2:79", "edge"},
		{"the port behind", "in p0 tcp 10.0.0.1:1000 > 10.0.0.2:81", "edge"},
		{"as source port", "in p0 tcp 10.0.0.1:80 > 10.0.0.2:1000", "edge"},
		{"of another protocol", "in p0 udp 10.0.0.1:1000 > 10.0.0.2:80", "edge"},
		{"first of a list", "in p0 tcp 10.0.0.1:1000 > 10.0.0.2:443", "pair"},
		{"last of a list", "in p0 tcp 10.0.0.1:1000 > 10.0.0.2:8443", "pair"},
		{"one protocol of two", "in p0 udp 10.0.0.1:1000 > 10.0.0.2:53", "dns"},
		{"the other of two", "in p0 tcp 10.0.0.1:1000 > 10.0.0.2:53", "dns"},
		{"a third", "in p0 sctp 10.0.0.1:1000 > 10.0.0.2:53", "every"},
		{"first of a range", "in p0 tcp 10.0.0.1:1000 > 10.0.0.2:8000", "range"},
		{"last of a range", "in p0 tcp 10.0.0.1:1000 > 10.0.0.2:8999", "range"},
		{"before a range", "in p0 tcp 10.0.0.1:1000 > 10.0.0.2:7999", "edge"},
		{"behind a range", "in p0 tcp 10.0.0.1:1000 > 10.0.0.2:9000", "edge"},
		{"port 0", "in p0 udp 10.0.0.1:1000 > 10.0.0.2:0", "low"},
		{"port 65535", "in p0 udp 10.0.0.1:1000 > 10.0.0.2:65535", "high"},
		{"port 65534", "in p0 udp 10.0.0.1:1000 > 10.0.0.2:65534", "most"},
		{"port 1", "in p0 udp 10.0.0.1:1000 > 10.0.0.2:1", "edge"},
		{"all ports: 0", "in p0 sctp 10.0.0.1:1000 > 10.0.0.2:0", "every"},
		{"all ports: 65535", "in p0 sctp 10.0.0.1:1000 > 10.0.0.2:65535", "every"},
		{"all ports, but they are not known", "in p0 sctp 10.0.0.1 > 10.0.0.2 unported", "edge"},
		{"with IPv6", "in p0 tcp [2001:db8::1]:1000 > [2001:db8::2]:80", "http"},
	}}
}

func sourcePortsTable() Table {
	return Table{Name: "source ports", Rules: []string{
		"both: allow both any > any tcp/80<1024-2047", "source: drop both any > any tcp/80<2000-3000", "only: reject both any > any udp<53", "trial: log-only both any > any tcp/81<500-600",
		"wide: allow both any > any tcp/70-90", "ntp: allow both any > any udp/123<123",
	}, Cases: []Case{
		{"both as asked for", "in p0 tcp 10.0.0.1:1024 > 10.0.0.2:80", "both"},
		{"last source port", "in p0 tcp 10.0.0.1:2047 > 10.0.0.2:80", "both"},
		{"source port of the second alone", "in p0 tcp 10.0.0.1:2048 > 10.0.0.2:80", "source"},
		{"source port of both rules: the first decides", "in p0 tcp 10.0.0.1:2000 > 10.0.0.2:80", "both"},
		{"source port of none of them", "in p0 tcp 10.0.0.1:3001 > 10.0.0.2:80", "wide"},
		{"below all source ports", "in p0 tcp 10.0.0.1:1023 > 10.0.0.2:80", "wide"},
		{"another destination port", "in p0 tcp 10.0.0.1:1024 > 10.0.0.2:79", "wide"},
		{"source port alone", "in p0 udp 10.0.0.1:53 > 10.0.0.2:4000", "only"},
		{"source port alone, destination 0", "in p0 udp 10.0.0.1:53 > 10.0.0.2:0", "only"},
		{"source port alone, destination 65535", "in p0 udp 10.0.0.1:53 > 10.0.0.2:65535", "only"},
		{"the same one of both", "in p0 udp 10.0.0.1:123 > 10.0.0.2:123", "ntp"},
		{"of the destination alone", "in p0 udp 10.0.0.1:124 > 10.0.0.2:123", "edge"},
		{"on trial with its source port", "in p0 tcp 10.0.0.1:500 > 10.0.0.2:81", "wide|trial"},
		{"not on trial with another", "in p0 tcp 10.0.0.1:499 > 10.0.0.2:81", "wide"},
		{"not known", "in p0 udp 10.0.0.1 > 10.0.0.2 unported", "edge"},
	}}
}

func icmpTable() Table {
	return Table{Name: "ICMP", Rules: []string{
		"echo: allow both any > any icmp/8", "frag: allow both any > any icmp/3/4", "unreachable: drop both any > any icmp/3", "six: allow both any > any icmpv6/128",
		"nd: reject both any > any icmpv6/135/0", "reply: allow both 10.0.0.9 > any icmp/0", "rest: drop both 10.0.0.0/24 > any icmp", "last: allow both any > any icmp/255/255",
	}, Cases: []Case{
		{"the type", "in p0 icmp 10.1.0.1 > 10.0.0.2 icmp=8/0", "echo"},
		{"the type with another code", "in p0 icmp 10.1.0.1 > 10.0.0.2 icmp=8/200", "echo"},
		{"another type", "in p0 icmp 10.1.0.1 > 10.0.0.2 icmp=9/0", "edge"},
		{"type and code", "in p0 icmp 10.1.0.1 > 10.0.0.2 icmp=3/4", "frag"},
		{"the type, another code", "in p0 icmp 10.1.0.1 > 10.0.0.2 icmp=3/3", "unreachable"},
		{"the type, the code behind", "in p0 icmp 10.1.0.1 > 10.0.0.2 icmp=3/5", "unreachable"},
		{"type 0", "in p0 icmp 10.0.0.9 > 10.0.0.2 icmp=0/0", "reply"},
		{"any type", "in p0 icmp 10.0.0.8 > 10.0.0.2 icmp=0/0", "rest"},
		{"any type: 255", "in p0 icmp 10.0.0.8 > 10.0.0.2 icmp=255/254", "rest"},
		{"highest type and code", "in p0 icmp 10.1.0.8 > 10.0.0.2 icmp=255/255", "last"},
		{"any type, which is not known", "in p0 icmp 10.0.0.8 > 10.0.0.2 unported", "rest"},
		{"a type that is not known", "in p0 icmp 10.1.0.8 > 10.0.0.2 unported", "edge"},
		{"ICMPv6 is not ICMP", "in p0 icmpv6 2001:db8::1 > 2001:db8::2 icmp=8/0", "edge"},
		{"a type of ICMPv6", "in p0 icmpv6 2001:db8::1 > 2001:db8::2 icmp=128/0", "six"},
		{"type and code of ICMPv6", "in p0 icmpv6 2001:db8::1 > 2001:db8::2 icmp=135/0", "nd"},
		{"another code of ICMPv6", "in p0 icmpv6 2001:db8::1 > 2001:db8::2 icmp=135/1", "edge"},
		{"the type as a TCP port", "in p0 tcp 10.1.0.1:1 > 10.0.0.2:2048", "edge"},
	}}
}

func protocolsTable() Table {
	return Table{Name: "protocols", Rules: []string{
		"gre: allow both any > any ip/47", "tcp: drop both 10.0.0.0/24 > any tcp", "any: reject both 10.0.1.0/24 > any any", "zero: allow both any > any ip/0", "last: allow both any > any ip/255",
		"two: allow both 10.0.2.0/24 > any ip/50 ip/51", "near: drop both 10.0.3.0/24 > any ip/5 ip/7",
	}, Cases: []Case{
		{"by number", "in p0 ip/47 10.1.0.1 > 10.0.0.2", "gre"},
		{"by number, ports not known", "in p0 ip/47 10.1.0.1 > 10.0.0.2 unported", "gre"},
		{"the number before", "in p0 ip/46 10.1.0.1 > 10.0.0.2", "edge"},
		{"the number behind", "in p0 ip/48 10.1.0.1 > 10.0.0.2", "edge"},
		{"a whole protocol with ports", "in p0 tcp 10.0.0.1:1 > 10.0.0.2:2", "tcp"},
		{"a whole protocol, port 0", "in p0 tcp 10.0.0.1:0 > 10.0.0.2:0", "tcp"},
		{"a whole protocol, port 65535", "in p0 tcp 10.0.0.1:65535 > 10.0.0.2:65535", "tcp"},
		{"a whole protocol, ports not known", "in p0 tcp 10.0.0.1 > 10.0.0.2 unported", "tcp"},
		{"of another protocol", "in p0 udp 10.0.0.1:1 > 10.0.0.2:2", "edge"},
		{"any protocol: TCP", "in p0 tcp 10.0.1.1:1 > 10.0.0.2:2", "any"},
		{"any protocol: ICMP", "in p0 icmp 10.0.1.1 > 10.0.0.2 icmp=3/3", "any"},
		{"any protocol: 200", "in p0 ip/200 10.0.1.1 > 10.0.0.2", "any"},
		{"any protocol, ports not known", "in p0 udp 10.0.1.1 > 10.0.0.2 unported", "any"},
		{"protocol 0", "in p0 ip/0 10.1.0.1 > 10.0.0.2", "zero"},
		{"protocol 1 is not 0", "in p0 icmp 10.1.0.1 > 10.0.0.2 icmp=0/0", "edge"},
		{"protocol 255", "in p0 ip/255 10.1.0.1 > 10.0.0.2", "last"},
		{"protocol 254", "in p0 ip/254 10.1.0.1 > 10.0.0.2", "edge"},
		{"first of two next to each other", "in p0 ip/50 10.0.2.1 > 10.0.0.2", "two"},
		{"second of two next to each other", "in p0 ip/51 10.0.2.1 > 10.0.0.2", "two"},
		{"between two", "in p0 tcp 10.0.3.1:1 > 10.0.0.2:2", "edge"},
		{"behind the first of them, with a port", "in p0 ip/5 10.0.3.1 > 10.0.0.2", "near"},
	}}
}

func fragmentsTable() Table {
	return Table{Name: "fragments", Rules: []string{
		"port: allow both any > any tcp/80", "trial: log-only both any > any udp", "porttrial: log-only both any > any tcp/1-65535", "source: drop both any > any udp<53",
		"proto: allow both any > any udp", "type: allow both any > any icmp/8",
	}, Cases: []Case{
		{"a port that is not known is none", "in p0 tcp 10.0.0.1 > 10.0.0.2 unported", "edge"},
		{"the same with its port", "in p0 tcp 10.0.0.1:5 > 10.0.0.2:80", "port"},
		{"on trial by port", "in p0 tcp 10.0.0.1:5 > 10.0.0.2:81", "edge|porttrial"},
		{"a protocol alone", "in p0 udp 10.0.0.1 > 10.0.0.2 unported", "proto|trial"},
		{"the same with its ports", "in p0 udp 10.0.0.1:53 > 10.0.0.2:9", "source|trial"},
		{"an ICMP type that is not known", "in p0 icmp 10.0.0.1 > 10.0.0.2 unported", "edge"},
		{"IPv6 too", "in p0 udp 2001:db8::1 > 2001:db8::2 unported", "proto|trial"},
	}}
}
