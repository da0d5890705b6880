package policytest

func prefixesOfIPv4Table() Table {
	return Table{Name: "prefixes of IPv4", Rules: []string{
		"host: allow both 10.0.0.5 > any", "small: allow both 10.0.0.0/30 > any", "third: drop both 10.0.0.0/24 > any",
		"odd: allow both 10.1.2.128/25 > any", "half: drop both 128.0.0.0/1 > any", "to: allow both any > 192.0.2.0/24",
	}, Cases: []Case{
		{"a host by itself", "in p0 udp 10.0.0.5:1 > 10.9.0.1:2", "host"},
		{"the address before a host", "in p0 udp 10.0.0.4:1 > 10.9.0.1:2", "third"},
		{"the address behind a host", "in p0 udp 10.0.0.6:1 > 10.9.0.1:2", "third"},
		{"first of a prefix", "in p0 udp 10.0.0.0:1 > 10.9.0.1:2", "small"},
		{"last of a prefix", "in p0 udp 10.0.0.3:1 > 10.9.0.1:2", "small"},
		{"first of the larger prefix alone", "in p0 udp 10.0.0.7:1 > 10.9.0.1:2", "third"},
		{"last of the larger prefix", "in p0 udp 10.0.0.255:1 > 10.9.0.1:2", "third"},
		{"behind the larger prefix", "in p0 udp 10.0.1.0:1 > 10.9.0.1:2", "edge"},
		{"before all prefixes", "in p0 udp 9.255.255.255:1 > 10.9.0.1:2", "edge"},
		{"first of a prefix that does not begin at 0", "in p0 udp 10.1.2.128:1 > 10.9.0.1:2", "odd"},
		{"before it", "in p0 udp 10.1.2.127:1 > 10.9.0.1:2", "edge"},
		{"last of it", "in p0 udp 10.1.2.255:1 > 10.9.0.1:2", "odd"},
		{"first of half of all", "in p0 udp 128.0.0.0:1 > 10.9.0.1:2", "half"},
		{"last of all", "in p0 udp 255.255.255.255:1 > 10.9.0.1:2", "half"},
		{"last before half of all", "in p0 udp 127.255.255.255:1 > 10.9.0.1:2", "edge"},
		{"the lowest address", "in p0 udp 0.0.0.0:1 > 10.9.0.1:2", "edge"},
		{"by destination", "in p0 udp 9.0.0.1:1 > 192.0.2.7:2", "to"},
		{"a destination beside it", "in p0 udp 9.0.0.1:1 > 192.0.3.0:2", "edge"},
		{"the destination of one and the source of an earlier one", "in p0 udp 10.0.0.1:1 > 192.0.2.7:2", "small"},
		{"the source's prefix as destination", "in p0 udp 9.0.0.1:1 > 10.0.0.5:2", "edge"},
		{"from the workload, too", "out p0 udp 10.0.0.5:1 > 10.9.0.1:2", "host"},
		{"an IPv6 address that ends alike", "in p0 udp [::a00:5]:1 > [2001:db8::1]:2", "edge"},
	}}
}

func prefixesOfIPv6Table() Table {
	return Table{Name: "prefixes of IPv6", Rules: []string{
		"host: allow both 2001:db8::5 > any", "net: drop both 2001:db8::/64 > any", "odd: allow both 2001:db8:0:0:8000::/65 > any",
		"site: reject both 2001:db8::/32 > any", "link: allow both fe80::/10 > any", "high: allow both ffff:ffff::/32 > any",
	}, Cases: []Case{
		{"a host by itself", "in p0 tcp [2001:db8::5]:1 > [2001:db8:9::1]:2", "host"},
		{"beside a host", "in p0 tcp [2001:db8::6]:1 > [2001:db8:9::1]:2", "net"},
		{"first of the net", "in p0 tcp [2001:db8::]:1 > [2001:db8:9::1]:2", "net"},
		{"last of the net", "in p0 tcp [2001:db8::ffff:ffff:ffff:ffff]:1 > [2001:db8:9::1]:2", "net"},
		{"upper half of the net, which an earlier rule has", "in p0 tcp [2001:db8::8000:0:0:0]:1 > [2001:db8:9::1]:2", "net"},
		{"behind the net", "in p0 tcp [2001:db8:0:1::]:1 > [2001:db8:9::1]:2", "site"},
		{"last of the site", "in p0 tcp [2001:db8:ffff:ffff:ffff:ffff:ffff:ffff]:1 > [2001:db8:9::1]:2", "site"},
		{"behind the site", "in p0 tcp [2001:db9::]:1 > [2001:db8:9::1]:2", "edge"},
		{"before the site", "in p0 tcp [2001:db7:ffff:ffff:ffff:ffff:ffff:ffff]:1 > [2001:db8:9::1]:2", "edge"},
		{"a prefix that ends within 16 bits", "in p0 tcp [febf:ffff::1]:1 > [2001:db8:9::1]:2", "link"},
		{"behind it", "in p0 tcp [fec0::]:1 > [2001:db8:9::1]:2", "edge"},
		{"the lowest address", "in p0 tcp [::]:1 > [2001:db8:9::1]:2", "edge"},
		{"the highest address", "in p0 tcp [ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:1 > [2001:db8:9::1]:2", "high"},
		{"an IPv4 address is in none", "in p0 tcp 32.1.13.184:1 > 10.0.0.1:2", "edge"},
	}}
}

func familiesTable() Table {
	return Table{Name: "families", Rules: []string{
		"four: allow both 0.0.0.0/0 > any udp", "six: allow both ::/0 > any udp", "to4: drop both any > 0.0.0.0/0 tcp", "to6: reject both any > ::/0 tcp",
		"any: allow both any > any sctp", "both: drop both 0.0.0.0/0,::/0 > any ip/47",
	}, Cases: []Case{
		{"all of IPv4", "in p0 udp 1.2.3.4:1 > 10.0.0.1:2", "four"},
		{"all of IPv4: lowest", "in p0 udp 0.0.0.0:1 > 10.0.0.1:2", "four"},
		{"all of IPv4: highest", "in p0 udp 255.255.255.255:1 > 10.0.0.1:2", "four"},
		{"all of IPv6", "in p0 udp [2001:db8::1]:1 > [2001:db8::2]:2", "six"},
		{"all of IPv6: lowest", "in p0 udp [::]:1 > [2001:db8::2]:2", "six"},
		{"all of IPv6: just below the mapped addresses", "in p0 udp [::fffe:ffff:ffff]:1 > [2001:db8::2]:2", "six"},
		{"all of IPv6: just above the mapped addresses", "in p0 udp [::1:0:0:0]:1 > [2001:db8::2]:2", "six"},
		{"all of IPv6: highest", "in p0 udp [ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:1 > [2001:db8::2]:2", "six"},
		{"destination of IPv4", "in p0 tcp 10.0.0.1:1 > 10.0.0.2:2", "to4"},
		{"destination of IPv6", "in p0 tcp [2001:db8::1]:1 > [2001:db8::2]:2", "to6"},
		{"no address asked for, IPv4", "in p0 sctp 10.0.0.1:1 > 10.0.0.2:2", "any"},
		{"no address asked for, IPv6", "in p0 sctp [2001:db8::1]:1 > [2001:db8::2]:2", "any"},
		{"both families named, IPv4", "in p0 ip/47 10.0.0.1 > 10.0.0.2", "both"},
		{"both families named, IPv6", "in p0 ip/47 2001:db8::1 > 2001:db8::2", "both"},
	}}
}

func rangesTable() Table {
	return Table{Name: "ranges", Rules: []string{
		"short: allow both 10.0.0.5-10.0.0.9 > any", "single: allow both 10.0.1.1-10.0.1.1 > any", "long: drop both 10.0.0.0-10.2.255.254 > any",
		"six: allow both 2001:db8::ff-2001:db8::1:0 > any", "wide: drop both ::1-::2:0:0:0 > any", "end: allow both 255.255.255.254-255.255.255.255 > any",
		"to: reject both any > 192.0.2.9-192.0.3.1",
	}, Cases: []Case{
		{"first", "in p0 udp 10.0.0.5:1 > 10.9.0.1:2", "short"},
		{"within", "in p0 udp 10.0.0.7:1 > 10.9.0.1:2", "short"},
		{"last", "in p0 udp 10.0.0.9:1 > 10.9.0.1:2", "short"},
		{"before", "in p0 udp 10.0.0.4:1 > 10.9.0.1:2", "long"},
		{"behind", "in p0 udp 10.0.0.10:1 > 10.9.0.1:2", "long"},
		{"one address", "in p0 udp 10.0.1.1:1 > 10.9.0.1:2", "single"},
		{"beside one address", "in p0 udp 10.0.1.2:1 > 10.9.0.1:2", "long"},
		{"last of one that is no prefix", "in p0 udp 10.2.255.254:1 > 10.9.0.1:2", "long"},
		{"behind that", "in p0 udp 10.2.255.255:1 > 10.9.0.1:2", "edge"},
		{"IPv6, first", "in p0 udp [2001:db8::ff]:1 > [2001:db8:9::1]:2", "six"},
		{"IPv6, over a word's end", "in p0 udp [2001:db8::1:0]:1 > [2001:db8:9::1]:2", "six"},
		{"IPv6, behind", "in p0 udp [2001:db8::1:1]:1 > [2001:db8:9::1]:2", "edge"},
		{"IPv6, before", "in p0 udp [2001:db8::fe]:1 > [2001:db8:9::1]:2", "edge"},
		{"IPv6, below the mapped addresses", "in p0 udp [::5]:1 > [2001:db8:9::1]:2", "wide"},
		{"IPv6, above the mapped addresses", "in p0 udp [::1:0:0:5]:1 > [2001:db8:9::1]:2", "wide"},
		{"IPv6, last", "in p0 udp [::2:0:0:0]:1 > [2001:db8:9::1]:2", "wide"},
		{"IPv4 is not in a range of IPv6 around the mapped addresses", "in p0 udp 11.0.0.1:1 > 10.9.0.1:2", "edge"},
		{"up to the highest address", "in p0 udp 255.255.255.255:1 > 10.9.0.1:2", "end"},
		{"just before that range", "in p0 udp 255.255.255.253:1 > 10.9.0.1:2", "edge"},
		{"destination first", "in p0 udp 11.0.0.1:1 > 192.0.2.9:2", "to"},
		{"destination over a byte's end", "in p0 udp 11.0.0.1:1 > 192.0.3.0:2", "to"},
		{"destination last", "in p0 udp 11.0.0.1:1 > 192.0.3.1:2", "to"},
		{"destination behind", "in p0 udp 11.0.0.1:1 > 192.0.3.2:2", "edge"},
	}}
}

func severalAddressesTable() Table {
	return Table{Name: "several addresses", Rules: []string{
		"list: allow both 10.0.0.1,10.0.0.3,10.0.0.16/28,2001:db8::1 > 10.1.0.1,10.1.0.2",
		"touching: drop both 10.0.2.0/25,10.0.2.128/25 > any", "over: allow both 10.0.3.0/24,10.0.3.7,10.0.3.0-10.0.4.5 > any",
		"twenty: reject both 10.5.0.1,10.5.0.3,10.5.0.5,10.5.0.7,10.5.0.9,10.5.0.11,10.5.0.13,10.5.0.15,10.5.0.17,10.5.0.19,10.5.0.21,10.5.0.23," +
			"10.5.0.25,10.5.0.27,10.5.0.29,10.5.0.31,10.5.0.33,10.5.0.35,10.5.0.37,10.5.0.39 > any",
	}, Cases: []Case{
		{"first member", "in p0 udp 10.0.0.1:1 > 10.1.0.1:2", "list"},
		{"second member", "in p0 udp 10.0.0.3:1 > 10.1.0.2:2", "list"},
		{"between members", "in p0 udp 10.0.0.2:1 > 10.1.0.1:2", "edge"},
		{"within a member", "in p0 udp 10.0.0.31:1 > 10.1.0.1:2", "list"},
		{"of the other family", "in p0 udp [2001:db8::1]:1 > [2001:db8::2]:2", "edge"},
		{"no member of the other side", "in p0 udp 10.0.0.1:1 > 10.1.0.3:2", "edge"},
		{"end of the first of two that touch", "in p0 udp 10.0.2.127:1 > 10.1.0.3:2", "touching"},
		{"beginning of the second", "in p0 udp 10.0.2.128:1 > 10.1.0.3:2", "touching"},
		{"in three members", "in p0 udp 10.0.3.7:1 > 10.1.0.3:2", "over"},
		{"in the longest of them alone", "in p0 udp 10.0.4.5:1 > 10.1.0.3:2", "over"},
		{"behind all", "in p0 udp 10.0.4.6:1 > 10.1.0.3:2", "edge"},
		{"first of twenty", "in p0 udp 10.5.0.1:1 > 10.1.0.3:2", "twenty"},
		{"last of twenty", "in p0 udp 10.5.0.39:1 > 10.1.0.3:2", "twenty"},
		{"between two of twenty", "in p0 udp 10.5.0.20:1 > 10.1.0.3:2", "edge"},
	}}
}
