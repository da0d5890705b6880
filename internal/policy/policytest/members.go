package policytest

func groupsTable() Table {
	return Table{Name: "groups", Groups: []string{
		"web: 10.0.1.0/24,10.0.2.5", "db: 10.0.3.0/24,2001:db8:3::/64", "empty: ", "apps: group=web,group=db", "deep: group=apps,10.9.0.1",
		"mixed: 10.0.7.1,mac=02:00:00:00:07:00,segment=green,port=p1,labels=tier:back", "twice: group=web,group=web,10.0.1.0/24",
	}, Rules: []string{
		"nobody: drop both group=empty > any", "webdb: allow both group=web > group=db tcp/5432", "nested: reject both group=deep > 192.0.2.1",
		"half: allow both group=empty,10.0.8.1 > any", "twice: allow both group=twice > 192.0.2.2", "mixed: allow both group=mixed > 192.0.2.3",
		"to: drop both 10.0.9.9 > group=apps",
	}, Cases: []Case{
		{"a group to a group", "in p0 tcp 10.0.1.7:1 > 10.0.3.9:5432", "webdb"},
		{"its single host", "in p0 tcp 10.0.2.5:1 > 10.0.3.9:5432", "webdb"},
		{"beside the single host", "in p0 tcp 10.0.2.6:1 > 10.0.3.9:5432", "edge"},
		{"another port", "in p0 tcp 10.0.1.7:1 > 10.0.3.9:5433", "edge"},
		{"the other way round", "in p0 tcp 10.0.3.9:1 > 10.0.1.7:5432", "edge"},
		{"an empty group has nobody", "in p0 tcp 10.8.8.8:1 > 10.0.3.9:5432", "edge"},
		{"an empty group beside an address", "in p0 tcp 10.0.8.1:1 > 10.0.3.9:5432", "half"},
		{"by two groups in between", "in p0 tcp 10.0.1.1:1 > 192.0.2.1:80", "nested"},
		{"by two groups in between, IPv6", "in p0 udp [2001:db8:3::1]:1 > [2001:db8::1]:80", "edge"},
		{"a member of the outermost", "in p0 tcp 10.9.0.1:1 > 192.0.2.1:80", "nested"},
		{"not in the nested groups", "in p0 tcp 10.9.0.2:1 > 192.0.2.1:80", "edge"},
		{"a group twice in another", "in p0 tcp 10.0.1.255:1 > 192.0.2.2:80", "twice"},
		{"mixed: by address", "in p0 tcp 10.0.7.1:1 > 192.0.2.3:80", "mixed"},
		{"mixed: by MAC", "in p0 tcp 10.0.7.2:1 > 192.0.2.3:80 smac=02:00:00:00:07:00", "mixed"},
		{"mixed: by segment", "in p0 tcp 10.0.7.2:1 > 192.0.2.3:80 sseg=green", "mixed"},
		{"mixed: by port", "in p0 tcp 10.0.7.2:1 > 192.0.2.3:80 splace=p1", "mixed"},
		{"mixed: by label", "in p0 tcp 10.0.7.2:1 > 192.0.2.3:80 splace=p2.20", "mixed"},
		{"mixed: by all of them", "in p0 tcp 10.0.7.1:1 > 192.0.2.3:80 splace=p2.20 sseg=green smac=02:00:00:00:07:00", "mixed"},
		{"mixed: by none", "in p0 tcp 10.0.7.2:1 > 192.0.2.3:80", "edge"},
		{"mixed: the destination has it, not the source", "in p0 tcp 10.0.7.2:1 > 192.0.2.3:80 dseg=green dmac=02:00:00:00:07:00", "edge"},
		{"as destination", "in p0 udp 10.0.9.9:1 > 10.0.1.3:80", "to"},
		{"as destination, IPv6", "in p0 udp 10.0.9.9:1 > 10.0.4.3:80", "edge"},
	}}
}

func macAddressesTable() Table {
	return Table{Name: "MAC addresses", Rules: []string{
		"from: allow both mac=02:aa:00:00:00:01 > any", "to: drop both any > mac=02:bb:00:00:00:01", "two: reject both mac=02:aa:00:00:00:02,mac=02:cc:00:00:00:02 > any",
		"either: allow both mac=02:dd:00:00:00:01,10.4.0.0/16 > any", "low: allow both mac=00:00:00:00:00:00 > any", "high: allow both any > mac=ff:ff:ff:ff:ff:ff",
	}, Cases: []Case{
		{"of the source", "in p0 udp 10.0.0.1:1 > 10.0.0.2:2 smac=02:aa:00:00:00:01", "from"},
		{"with IPv6 too", "in p0 udp [2001:db8::1]:1 > [2001:db8::2]:2 smac=02:aa:00:00:00:01", "from"},
		{"one bit beside it", "in p0 udp 10.0.0.1:1 > 10.0.0.2:2 smac=02:aa:00:00:00:00", "edge"},
		{"another first half", "in p0 udp 10.0.0.1:1 > 10.0.0.2:2 smac=02:ab:00:00:00:01", "edge"},
		{"the source's as destination", "in p0 udp 10.0.0.1:1 > 10.0.0.2:2 dmac=02:aa:00:00:00:01", "edge"},
		{"of the destination", "in p0 udp 10.0.0.1:1 > 10.0.0.2:2 dmac=02:bb:00:00:00:01", "to"},
		{"of both, the first rule decides", "in p0 udp 10.0.0.1:1 > 10.0.0.2:2 smac=02:aa:00:00:00:01 dmac=02:bb:00:00:00:01", "from"},
		{"one of two", "in p0 udp 10.0.0.1:1 > 10.0.0.2:2 smac=02:cc:00:00:00:02", "two"},
		{"MAC or address: by MAC", "in p0 udp 10.0.0.1:1 > 10.0.0.2:2 smac=02:dd:00:00:00:01", "either"},
		{"MAC or address: by address", "in p0 udp 10.4.0.1:1 > 10.0.0.2:2", "either"},
		{"MAC or address: by neither", "in p0 udp 10.5.0.1:1 > 10.0.0.2:2", "edge"},
		{"the lowest", "in p0 udp 10.0.0.1:1 > 10.0.0.2:2 smac=00:00:00:00:00:00", "low"},
		{"the highest", "in p0 udp 10.0.0.1:1 > 10.0.0.2:2 dmac=ff:ff:ff:ff:ff:ff", "high"},
		{"just below the highest", "in p0 udp 10.0.0.1:1 > 10.0.0.2:2 dmac=ff:ff:ff:ff:ff:fe", "edge"},
		{"from the workload", "out p0 udp 10.0.0.1:1 > 10.0.0.2:2 smac=02:aa:00:00:00:01", "from"},
	}}
}

func segmentsTable() Table {
	return Table{Name: "segments", Rules: []string{
		"from: allow both segment=blue > any", "to: drop both any > segment=green", "pair: reject both segment=transit > segment=red", "here: allow both any > segment=nowhere",
	}, Cases: []Case{
		{"it came in by", "in p0 udp 10.0.0.1:1 > 10.0.0.2:2 sseg=blue", "from"},
		{"it goes to", "out p0 udp 10.0.0.1:1 > 10.0.0.2:2 dseg=green", "to"},
		{"it goes to the one it should come from", "out p0 udp 10.0.0.1:1 > 10.0.0.2:2 dseg=blue", "edge"},
		{"it comes from the one it should go to", "out p0 udp 10.0.0.1:1 > 10.0.0.2:2 sseg=green", "edge"},
		{"from one to the other", "in p0 udp 10.0.0.1:1 > 10.0.0.2:2 sseg=transit dseg=red", "pair"},
		{"to it alone", "in p0 udp 10.0.0.1:1 > 10.0.0.2:2 dseg=red", "edge"},
		{"the first rule decides", "in p0 udp 10.0.0.1:1 > 10.0.0.2:2 sseg=blue dseg=green", "from"},
		{"a port's own segment does not count, the packet's does", "in p2.10 udp 10.0.0.1:1 > 10.0.0.2:2", "edge"},
		{"with IPv6", "in p0 udp [2001:db8::1]:1 > [2001:db8::2]:2 sseg=blue", "from"},
	}}
}

func portsOfTheEdgeTable() Table {
	return Table{Name: "ports of the edge", Rules: []string{
		"from: allow both port=p0 > any tcp", "to: drop both any > port=p0 tcp", "trunk: reject both port=p2 > any udp", "vlan: allow both any > port=p2.10 udp",
		"gone: allow both port=p9 > any", "or: allow both port=p1,10.7.0.0/16 > any sctp",
	}, Cases: []Case{
		{"from it", "out p0 tcp 10.0.0.1:1 > 10.0.0.2:2", "from"},
		{"to it", "in p0 tcp 10.0.0.1:1 > 10.0.0.2:2", "to"},
		{"from it to another one, asked there", "in p1 tcp 10.0.0.1:1 > 10.0.0.2:2 splace=p0", "from"},
		{"from another one to it, asked there", "out p1 tcp 10.0.0.1:1 > 10.0.0.2:2 dplace=p0", "to"},
		{"from another one", "out p1 tcp 10.0.0.1:1 > 10.0.0.2:2", "edge"},
		{"from beyond a tunnel", "in p1 tcp 10.0.0.1:1 > 10.0.0.2:2", "edge"},
		{"a trunk's first VLAN", "out p2.10 udp 10.0.0.1:1 > 10.0.0.2:2", "trunk"},
		{"a trunk's second VLAN", "out p2.20 udp 10.0.0.1:1 > 10.0.0.2:2", "trunk"},
		{"to a VLAN by its own name", "in p2.10 udp 10.0.0.1:1 > 10.0.0.2:2", "vlan"},
		{"to the trunk's other VLAN", "in p2.20 udp 10.0.0.1:1 > 10.0.0.2:2", "edge"},
		{"a port that is not there", "out p1 ip/47 10.0.0.1 > 10.0.0.2", "edge"},
		{"port or address: by port", "out p1 sctp 10.0.0.1:1 > 10.0.0.2:2", "or"},
		{"port or address: by address", "in p1 sctp 10.7.0.1:1 > 10.0.0.2:2", "or"},
		{"port or address: by neither", "in p1 sctp 10.8.0.1:1 > 10.0.0.2:2", "edge"},
	}}
}

func labelsTable() Table {
	return Table{Name: "labels", Rules: []string{
		"front: allow both labels=app:web+tier:front > any tcp", "webs: drop both labels=app:web > any tcp", "db: allow both any > labels=app:db udp",
		"none: reject both labels=app:mail > any", "every: allow both labels= > any sctp", "value: allow both labels=tier: > any",
	}, Cases: []Case{
		{"both labels", "out p0 tcp 10.0.0.1:1 > 10.0.0.2:2", "front"},
		{"one of them", "out p2.10 tcp 10.0.0.1:1 > 10.0.0.2:2", "webs"},
		{"another value", "out p1 tcp 10.0.0.1:1 > 10.0.0.2:2", "edge"},
		{"of the destination", "in p1 udp 10.0.0.1:1 > 10.0.0.2:2", "db"},
		{"of another destination", "in p0 udp 10.0.0.1:1 > 10.0.0.2:2", "edge"},
		{"of a destination on this host", "out p0 udp 10.0.0.1:1 > 10.0.0.2:2 dplace=p1", "db"},
		{"beyond a tunnel there are no labels", "in p0 tcp 10.0.0.1:1 > 10.0.0.2:2", "edge"},
		{"no labels asked for: any port of the edge", "out p1 sctp 10.0.0.1:1 > 10.0.0.2:2", "every"},
		{"no labels asked for, but not from beyond a tunnel", "in p1 sctp 10.0.0.1:1 > 10.0.0.2:2", "edge"},
		{"a label that a port lacks is not the empty one", "out p1 udp 10.0.0.1:1 > 10.0.0.2:2", "edge"},
	}}
}
