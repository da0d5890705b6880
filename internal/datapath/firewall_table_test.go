package datapath

// The stations are those of stands: alice (p0, role web and tier front) and carol (p1,
// role db) are in blue, dave (p2, role web) in green, bob (blue) and erin (green) beyond
// the tunnel, isp beyond the uplink. Packets between segments go by the gateway, whose MAC
// is then the destination's.
var policyCases = []policyCase{
	{name: "defaults alone: allow", defaults: "allow", want: []string{
		"alice > bob tcp 80: +edge", "bob > alice tcp 80: +edge", "alice > carol udp 53: +edge,edge", "dave > erin icmp 8: +edge",
		"alice > dave tcp6 80: +edge,edge", "isp > alice udp6 53: +edge", "carol > isp gre: +edge", "erin > dave sctp 5000: +edge",
	}},
	{name: "defaults alone: drop", defaults: "drop", want: []string{
		"alice > bob tcp 80: -edge", "bob > alice tcp 80: -edge", "alice > carol udp 53: -edge", "isp > dave icmp6 128: -edge",
	}},
	{name: "defaults alone: reject", defaults: "reject", want: []string{
		"alice > bob tcp 80: !edge", "alice > bob udp 53: !edge", "alice > bob icmp 8: !edge", "alice > bob gre: !edge", "alice > bob sctp 1: !edge",
		"alice > bob tcp6 80: !edge", "alice > bob udp6 53: !edge", "alice > bob icmp6 128: !edge", "alice > bob gre6: !edge",
		"bob > alice tcp 80: !edge", "bob > alice udp6 53: !edge", "erin > alice tcp6 22: !edge", "erin > alice udp 22: !edge",
		"alice > dave tcp 80: !edge", "alice > dave udp6 80: !edge", "isp > dave tcp 80: !edge", "isp > dave udp6 80: !edge", "dave > isp tcp6 80: !edge",
	}},
	{name: "a segment's own default", defaults: "drop blue:allow", want: []string{
		"alice > bob tcp 80: +blue", "bob > carol udp6 53: +blue", "dave > erin tcp 80: -edge", "alice > dave tcp 80: -blue,edge",
		"dave > alice tcp 80: -edge", "isp > alice tcp 80: +blue", "isp > dave tcp 80: -edge",
	}},
	{name: "both segments' defaults", defaults: "allow blue:drop green:reject", want: []string{
		"alice > bob tcp 80: -blue", "dave > erin tcp 80: !green", "erin > dave udp 53: !green", "isp > carol icmp 8: -blue",
	}},
	{name: "direction out", defaults: "drop", rules: []string{"allow out"}, want: []string{
		"alice > bob tcp 80: +1", "bob > alice tcp 80: -edge", "alice > carol tcp 80: -1,edge", "dave > isp udp6 53: +1", "isp > dave udp6 53: -edge",
	}},
	{name: "direction in", defaults: "drop", rules: []string{"allow in"}, want: []string{
		"alice > bob tcp 80: -edge", "bob > alice tcp 80: +1", "alice > carol tcp 80: -edge", "erin > alice icmp 8: +1", "isp > dave udp6 53: +1",
	}},
	{name: "either direction", defaults: "drop", rules: []string{"allow both"}, want: []string{
		"alice > bob tcp 80: +1", "bob > alice tcp 80: +1", "alice > carol tcp 80: +1,1", "dave > carol udp6 1: +1,1",
	}},
	{name: "the first that matches decides", defaults: "drop", rules: []string{
		"allow both svc tcp/80", "drop both svc tcp", "reject both svc tcp/443", "allow both svc udp/53", "reject both svc udp",
	}, want: []string{
		"alice > bob tcp 80: +1", "alice > bob tcp 443: -2", "alice > bob tcp 81: -2", "alice > bob udp 53: +4", "alice > bob udp 54: !5",
		"alice > bob icmp 8: -edge", "bob > alice tcp 80: +1", "bob > alice udp6 54: !5", "alice > carol tcp 80: +1,1", "alice > carol udp 53: +4,4",
	}},
	{name: "the same rule twice", defaults: "drop", rules: []string{"allow both svc tcp/80", "reject both svc tcp/80"}, want: []string{
		"alice > bob tcp 80: +1", "alice > bob tcp6 80: +1", "alice > bob tcp 81: -edge",
	}},
	{name: "source prefixes of IPv4", defaults: "drop", rules: []string{
		"allow both from 10.0.1.10", "reject both from 10.0.1.8/30", "allow both from 10.0.2.0/24", "drop both from 10.0.0.0/8", "allow both from 0.0.0.0/0",
	}, want: []string{
		"alice > bob tcp 80: +1", "bob > alice tcp 80: !2", "carol > bob tcp 80: -4", "dave > erin tcp 80: +3", "erin > dave tcp 80: +3", "isp > dave tcp 80: +5",
		"alice > bob tcp6 80: -edge", "isp > dave tcp6 80: -edge", "erin > carol udp 53: +3", "alice > carol icmp 8: +1,1",
	}},
	{name: "source prefixes of IPv6", defaults: "drop", rules: []string{
		"allow both from 2001:db8:1::a", "reject both from 2001:db8:1::a/127", "allow both from 2001:db8:2::/64", "drop both from 2001:db8::/32", "allow both from ::/0",
	}, want: []string{
		"alice > bob tcp6 80: +1", "bob > alice tcp6 80: !2", "carol > bob tcp6 80: -4", "dave > erin udp6 80: +3", "isp > dave tcp6 80: -4", "alice > bob tcp 80: -edge",
		"isp > dave tcp 80: -edge", "erin > alice icmp6 128: +3",
	}},
	{name: "everything of IPv4 is nothing of IPv6", defaults: "reject", rules: []string{"allow both from 0.0.0.0/0", "drop both from ::/0"}, want: []string{
		"alice > bob tcp 80: +1", "alice > bob tcp6 80: -2", "isp > dave gre: +1", "isp > dave gre6: -2", "bob > carol udp 5: +1", "bob > carol udp6 5: -2",
	}},
	{name: "destination prefixes", defaults: "drop", rules: []string{
		"allow both to 10.0.1.11,2001:db8:2::e", "reject both to 10.0.2.0/28", "allow both to 198.51.100.0/24,2001:db8:ff::/48",
	}, want: []string{
		"alice > bob tcp 80: +1", "carol > bob udp 53: +1", "alice > erin tcp6 80: +1", "alice > erin tcp 80: !2", "alice > dave udp 80: !2", "dave > isp tcp 80: +3",
		"dave > isp icmp6 128: +3", "isp > dave tcp 80: !2", "bob > alice tcp 80: -edge", "alice > bob tcp6 80: -edge",
	}},
	{name: "source and destination together", defaults: "drop", rules: []string{
		"allow both from 10.0.1.10 to 10.0.1.12", "allow both from 10.0.1.12 to 10.0.1.10,10.0.2.13", "allow both from 2001:db8:1::/64 to 2001:db8:2::/64",
	}, want: []string{
		"alice > carol tcp 80: +1,1", "carol > alice tcp 80: +2,2", "carol > dave tcp 80: +2,2", "dave > carol tcp 80: -edge", "alice > dave tcp 80: -edge",
		"alice > dave tcp6 80: +3,3", "dave > alice tcp6 80: -edge", "alice > carol tcp6 80: -edge", "bob > dave udp6 1: +3", "carol > erin udp6 1: +3",
	}},
	{name: "ranges", defaults: "drop", rules: []string{
		"allow both from 10.0.1.10-10.0.1.11", "reject both from 10.0.1.11-10.0.1.12", "allow both from 2001:db8:1::b-2001:db8:2::d", "allow both to 198.51.100.254-198.51.100.255",
	}, want: []string{
		"alice > bob tcp 80: +1", "bob > alice tcp 80: +1", "carol > bob tcp 80: !2", "dave > erin tcp 80: -edge", "alice > bob tcp6 80: -edge", "bob > alice tcp6 80: +3",
		"carol > bob tcp6 80: +3", "dave > erin tcp6 80: +3", "erin > dave tcp6 80: -edge", "dave > isp tcp 80: +4", "dave > isp tcp6 80: +3",
	}},
	{name: "a range of one address, and nested ones", defaults: "allow", rules: []string{
		"drop both from 10.0.1.11-10.0.1.11", "reject both from 10.0.1.11-10.0.1.13", "drop both from 10.0.1.10-10.0.1.14",
	}, want: []string{
		"bob > alice tcp 80: -1", "carol > bob tcp 80: !2", "alice > bob tcp 80: -3", "dave > erin tcp 80: +edge", "bob > alice tcp6 80: +edge",
	}},
	{name: "overlapping prefixes and ranges", defaults: "drop", rules: []string{
		"allow both from 10.0.1.8/29 to 10.0.1.10-10.0.1.11 svc tcp/1-100", "reject both from 10.0.0.0/22 to 10.0.1.11-10.0.1.12 svc tcp/50-200",
		"allow both from 10.0.1.12-10.0.2.13 to 10.0.0.0/16",
	}, want: []string{
		"alice > bob tcp 80: +1", "alice > bob tcp 150: !2", "alice > carol tcp 80: !2", "alice > bob tcp 201: -edge", "carol > bob tcp 80: +1", "carol > bob tcp 200: !2",
		"carol > bob tcp 201: +3", "dave > alice tcp 1: +3,3", "erin > alice tcp 1: -edge", "dave > bob tcp 60: !2",
	}},
	{name: "MACs are those at arrival", defaults: "drop", rules: []string{
		"allow both from 02:00:00:00:00:0a", "allow both to 02:00:00:00:00:0c", "reject both to 02:00:5e:00:01:01",
	}, want: []string{
		"alice > bob tcp 80: +1", "bob > alice tcp 80: -edge", "bob > carol tcp6 80: +2", "dave > alice tcp 80: !3", "dave > carol udp 5: !3", "alice > dave tcp6 80: +1,1",
		"erin > carol tcp 80: !3", "alice > carol tcp 80: +1,1", "isp > carol tcp 80: -edge",
	}},
	{name: "segments are where a packet comes in and goes to", defaults: "drop", rules: []string{
		"allow both from segment:blue to segment:blue", "reject both from segment:blue to segment:green", "allow both from segment:green to segment:blue",
		"allow both from segment:up", "drop both to segment:up",
	}, want: []string{
		"alice > bob tcp 80: +1", "bob > carol tcp6 80: +1", "alice > carol udp 53: +1,1", "alice > dave tcp 80: !2", "bob > dave udp6 80: !2", "dave > carol tcp 80: +3,3",
		"erin > alice tcp 80: +3", "dave > erin tcp 80: -edge", "isp > alice tcp 80: +4", "isp > dave icmp 8: +4", "alice > isp tcp 80: -5", "dave > isp tcp6 80: -5",
	}},
	{name: "ports are local ends", defaults: "drop", rules: []string{
		"allow both from port:p0 to port:p1", "reject both to port:p0", "allow both from port:p2", "drop both to port:p2",
	}, want: []string{
		"alice > carol tcp 80: +1,1", "carol > alice tcp 80: !2", "bob > alice tcp 80: !2", "isp > alice udp6 80: !2", "dave > erin tcp 80: +3", "dave > alice tcp 80: !2",
		"dave > carol tcp 80: +3,3", "bob > dave tcp 80: -4", "alice > dave tcp 80: -4", "bob > carol tcp 80: -edge", "alice > bob tcp 80: -edge",
	}},
	{name: "labels select ports that have all of them", defaults: "drop", rules: []string{
		"allow both from label:role=web to label:role=db", "reject both from label:role=web+tier=front", "allow both from label:role=web", "drop both to label:tier=front+role=db",
		"allow both to label:role=db",
	}, want: []string{
		"alice > carol tcp 80: +1,1", "dave > carol tcp6 80: +1,1", "alice > bob tcp 80: !2", "alice > dave udp 53: !2", "dave > erin tcp 80: +3", "dave > alice tcp 80: +3,3",
		"carol > alice tcp 80: -edge", "bob > carol tcp 80: +5", "isp > carol icmp 8: +5", "bob > alice tcp 80: -edge", "bob > dave tcp 80: -edge",
	}},
	{name: "groups of everything", defaults: "drop", groups: []string{
		"hosts = 10.0.1.11,2001:db8:1::b,198.51.100.0/24", "local = port:p2,02:00:00:00:00:0c", "all = group:hosts,group:local",
	}, rules: []string{"reject both from group:hosts to group:local", "allow both from group:all", "allow both to group:local"}, want: []string{
		"bob > carol tcp 80: !1", "bob > carol tcp6 80: !1", "isp > dave tcp 80: !1", "isp > dave tcp6 80: +3", "bob > alice tcp 80: +2", "carol > bob tcp 80: +2",
		"dave > erin tcp 80: +2", "alice > carol tcp 80: +3,3", "alice > dave tcp6 80: +3,3", "alice > bob tcp 80: -edge", "erin > dave udp 53: +3",
	}},
	{name: "nested groups", defaults: "drop", groups: []string{
		"one = 10.0.1.10", "two = group:one,10.0.1.12", "three = group:two,10.0.2.0/24", "four = group:three,group:one,2001:db8::/32",
	}, rules: []string{
		"allow both from group:one to group:three", "reject both from group:two to group:four", "allow both from group:three to group:four svc udp", "allow both from group:four to group:four svc tcp/22",
	}, want: []string{
		"alice > carol tcp 80: +1,1", "alice > dave udp 80: +1,1", "carol > alice tcp 80: !2", "carol > erin udp 53: !2", "dave > alice udp 53: +3,3", "dave > alice tcp 22: +4,4",
		"dave > alice tcp 23: -edge", "alice > carol tcp6 22: +4,4", "alice > carol udp6 22: -edge", "bob > alice tcp 22: -edge", "bob > alice tcp6 22: +4",
	}},
	{name: "applied to a port", defaults: "drop", rules: []string{"allow both at port:p0", "reject both at port:p1"}, want: []string{
		"alice > bob tcp 80: +1", "bob > alice tcp 80: +1", "carol > bob tcp 80: !2", "bob > carol tcp 80: !2", "alice > carol tcp 80: !1,2", "carol > alice tcp 80: !2",
		"dave > erin tcp 80: -edge", "alice > dave tcp 80: -1,edge",
	}},
	{name: "applied to a segment, to labels, to a group", defaults: "drop", groups: []string{"webs = label:role=web"}, rules: []string{
		"allow out svc tcp at segment:blue", "allow in svc udp at label:role=db", "allow both svc icmp,icmp6 at group:webs",
	}, want: []string{
		"alice > bob tcp 80: +1", "carol > bob tcp 80: +1", "dave > erin tcp 80: -edge", "bob > carol udp 53: +2", "bob > alice udp 53: -edge", "alice > bob icmp 8: +3",
		"bob > dave icmp6 128: +3", "carol > bob icmp 8: -edge", "alice > dave icmp 8: +3,3", "alice > carol icmp 8: -3,edge", "alice > carol tcp 80: -1,edge",
	}},
	{name: "applied in one direction", defaults: "allow", rules: []string{"drop in at port:p1", "reject out at port:p1"}, want: []string{
		"alice > carol tcp 80: -1,edge", "carol > alice tcp 80: !2", "bob > carol tcp 80: -1", "carol > bob udp 5: !2", "bob > alice tcp 80: +edge", "dave > alice tcp 80: +edge,edge",
	}},
	{name: "ports of TCP", defaults: "drop", rules: []string{
		"allow both svc tcp/80", "allow both svc tcp/100-200", "reject both svc tcp/0-99", "allow both svc tcp/65535",
	}, want: []string{
		"alice > bob tcp 80: +1", "alice > bob tcp 79: !3", "alice > bob tcp 81: !3", "alice > bob tcp 99: !3", "alice > bob tcp 100: +2", "alice > bob tcp 150: +2",
		"alice > bob tcp 200: +2", "alice > bob tcp 201: -edge", "alice > bob tcp 65534: -edge", "alice > bob tcp 65535: +4", "alice > bob udp 80: -edge", "alice > bob tcp 0: !3",
		"alice > bob sctp 80: -edge", "alice > bob tcp6 80: +1", "bob > alice tcp6 201: -edge",
	}},
	{name: "several services of one rule", defaults: "drop", rules: []string{"allow both svc tcp/22,tcp/80-90,udp/53,icmp/8,icmp6/128,sctp/5000", "reject both svc tcp/85,udp"}, want: []string{
		"alice > bob tcp 22: +1", "alice > bob tcp 80: +1", "alice > bob tcp 85: +1", "alice > bob tcp 90: +1", "alice > bob tcp 91: -edge", "alice > bob udp 53: +1",
		"alice > bob udp 54: !2", "alice > bob icmp 8: +1", "alice > bob icmp 13: -edge", "alice > bob icmp6 128: +1", "alice > bob icmp6 144: -edge", "alice > bob sctp 5000: +1",
		"alice > bob sctp 5001: -edge", "alice > bob gre: -edge",
	}},
	{name: "source ports", defaults: "drop", rules: []string{
		"allow both svc tcp/80/1000-2000", "reject both svc tcp/80/500-1500", "allow both svc udp//53", "drop both svc udp/53/53", "allow both svc udp/53",
	}, want: []string{
		"alice > bob tcp 80: +1", "alice > bob tcp 80 from 1500: +1", "alice > bob tcp 80 from 999: !2", "alice > bob tcp 80 from 2001: -edge", "alice > bob tcp 81 from 1000: -edge",
		"alice > bob udp 9 from 53: +3", "alice > bob udp 53 from 53: +3", "alice > bob udp 53 from 54: +5", "alice > bob udp 9 from 54: -edge",
	}},
	{name: "a protocol as a whole", defaults: "drop", rules: []string{"allow both svc udp", "reject both svc gre", "allow both svc icmp", "allow both svc sctp"}, want: []string{
		"alice > bob udp 1: +1", "alice > bob udp6 65535: +1", "alice > bob gre: !2", "alice > bob gre6: !2", "alice > bob icmp 8: +3", "alice > bob icmp 13: +3",
		"alice > bob icmp6 128: -edge", "alice > bob sctp 9: +4", "alice > bob tcp 1: -edge",
	}},
	{name: "any protocol", defaults: "drop", rules: []string{"reject both svc any from 10.0.1.10", "allow both svc tcp/80,any"}, want: []string{
		"alice > bob tcp 80: !1", "alice > bob gre: !1", "bob > alice gre: +2", "bob > alice tcp 80: +2", "bob > alice udp6 5: +2", "carol > bob icmp6 128: +2", "carol > bob sctp 9: +2",
	}},
	{name: "types and codes of ICMP", defaults: "drop", rules: []string{
		"allow both svc icmp/8/0", "reject both svc icmp/8", "allow both svc icmp/13", "allow both svc icmp6/128", "reject both svc icmp6",
	}, want: []string{
		"alice > bob icmp 8: +1", "alice > bob icmp 8/1: !2", "alice > bob icmp 13: +3", "alice > bob icmp 13/5: +3", "alice > bob icmp 15: -edge", "alice > bob icmp6 128: +4",
		"alice > bob icmp6 128/3: +4", "alice > bob icmp6 144: !5", "bob > alice icmp 8: +1", "alice > carol icmp 8: +1,1",
	}},
	{name: "on trial", defaults: "drop", rules: []string{"log-only both svc tcp", "allow both svc tcp/80", "log-only both", "reject both svc udp"}, want: []string{
		"alice > bob tcp 80: +1,2", "alice > bob tcp 81: -1,edge", "alice > bob udp 53: !3,4", "alice > bob icmp 8: -3,edge", "alice > carol tcp 80: +1,1,2,2",
	}},
	{name: "on trial behind the one that decides", defaults: "drop", rules: []string{"allow both svc tcp/80", "log-only both svc tcp"}, want: []string{
		"alice > bob tcp 80: +1", "alice > bob tcp 81: -2,edge", "alice > bob udp 81: -edge",
	}},
	{name: "only the first on trial is counted", defaults: "allow", rules: []string{"log-only both svc tcp/80", "log-only both svc tcp", "log-only both"}, want: []string{
		"alice > bob tcp 80: +1,edge", "alice > bob tcp 81: +2,edge", "alice > bob udp 81: +3,edge",
	}},
	{name: "nothing but denials", defaults: "allow", rules: []string{"drop both from 10.0.1.10 to 10.0.1.11 svc tcp/22", "reject both to 2001:db8:1::c svc udp/53", "drop in from segment:up"}, want: []string{
		"alice > bob tcp 22: -1", "alice > bob tcp 23: +edge", "alice > carol tcp 22: +edge,edge", "bob > alice tcp 22: +edge", "alice > carol udp6 53: !2", "erin > carol udp6 53: !2",
		"erin > carol udp 53: +edge", "isp > carol tcp 80: -3", "carol > isp tcp 80: +edge", "isp > dave gre6: -3",
	}},
	{name: "three tiers", defaults: "drop", groups: []string{"web = label:role=web", "db = label:role=db", "office = 10.0.2.14,2001:db8:2::e"}, rules: []string{
		"allow in from group:office to group:web svc tcp/443", "allow both from group:web to group:db svc tcp/5432", "allow out from group:db svc udp/53", "reject out from group:db",
	}, want: []string{
		"erin > alice tcp 443: +1", "erin > dave tcp6 443: +1", "erin > alice tcp 80: -edge", "erin > carol tcp 443: -edge", "alice > carol tcp 5432: +2,2", "dave > carol tcp6 5432: +2,2",
		"alice > carol tcp 5433: -edge", "carol > isp udp 53: +3", "carol > isp tcp 443: !4", "carol > alice udp 53: -3,edge", "bob > carol tcp 5432: -edge", "alice > dave tcp 443: -edge",
	}},
	{name: "the same addresses, different MACs", defaults: "reject", rules: []string{
		"allow both from 10.0.1.10,02:00:00:00:00:0b to 10.0.1.11,02:00:00:00:00:0a", "drop both from 02:00:00:00:00:0c to 10.0.1.0/24",
	}, want: []string{
		"alice > bob tcp 80: +1", "bob > alice tcp 80: +1", "bob > alice tcp6 80: +1", "alice > bob tcp6 80: !edge", "carol > alice tcp 80: -2", "carol > alice tcp6 80: !edge", "dave > alice tcp 80: !edge",
	}},
	{name: "empty matches anything", defaults: "drop", rules: []string{"reject both to port:p1", "allow both from segment:up", "allow both"}, want: []string{
		"alice > carol gre: !1", "isp > dave tcp 80: +2", "alice > bob tcp 80: +3", "bob > dave sctp 9: +3", "bob > carol icmp6 128: !1", "isp > carol tcp 1: !1",
	}},
}
