package policytest

import "strconv"

func itoa(n int) string { return strconv.Itoa(n) }

func directionsTable() Table {
	return Table{Name: "directions", Rules: []string{
		"in: allow in 10.0.0.0/24 > any", "out: drop out 10.0.0.0/24 > any", "both: reject both 10.0.1.0/24 > any",
		"inlater: allow in 10.0.0.0/16 > any", "trial: log-only out 10.0.2.0/24 > any", "outlast: allow out any > any tcp/80",
	}, Cases: []Case{
		{"into the workload", "in p0 udp 10.0.0.1:1 > 10.9.0.2:2", "in"},
		{"out of it", "out p0 udp 10.0.0.1:1 > 10.9.0.2:2", "out"},
		{"both: in", "in p0 udp 10.0.1.1:1 > 10.9.0.2:2", "both"},
		{"both: out", "out p0 udp 10.0.1.1:1 > 10.9.0.2:2", "both"},
		{"in, by a wider rule", "in p0 udp 10.0.3.1:1 > 10.9.0.2:2", "inlater"},
		{"not out by it", "out p0 udp 10.0.3.1:1 > 10.9.0.2:2", "edge"},
		{"on trial out alone", "out p0 udp 10.0.2.1:1 > 10.9.0.2:2", "edge|trial"},
		{"not on trial in", "in p0 udp 10.0.2.1:1 > 10.9.0.2:2", "inlater"},
		{"out by port", "out p0 tcp 10.0.3.1:1 > 10.9.0.2:80", "outlast"},
		{"not in by it", "in p0 tcp 11.0.3.1:1 > 10.9.0.2:80", "edge"},
		{"between two ports of the host: at the first", "out p0 udp 10.0.0.1:1 > 10.9.0.2:2 dplace=p1", "out"},
		{"between two ports of the host: at the second", "in p1 udp 10.0.0.1:1 > 10.9.0.2:2 splace=p0", "in"},
	}}
}

func appliedToPortsTable() Table {
	return Table{Name: "applied to ports", Groups: []string{"fronts: labels=tier:front,port=p1", "nobody: "}, Rules: []string{
		"p0: allow both any > any tcp/80 @port=p0", "trunk: drop both any > any tcp/80 @port=p2", "vlan: reject both any > any tcp/81 @port=p2.20",
		"label: allow both any > any tcp/82 @labels=app:web", "segment: drop both any > any tcp/83 @segment=red", "group: allow both any > any tcp/84 @group=fronts",
		"nowhere: allow both any > any @group=nobody", "absent: allow both any > any @port=p9", "two: allow both any > any tcp/85 @port=p1,segment=blue",
		"in: allow in 10.0.0.1 > any tcp/86 @port=p0", "trial: log-only both any > any tcp/87 @port=p0", "twice: allow both port=p0 > any tcp/88 @port=p1",
	}, Cases: []Case{
		{"at the port", "in p0 tcp 10.0.0.1:1 > 10.0.0.2:80", "p0"},
		{"at the port, out", "out p0 tcp 10.0.0.1:1 > 10.0.0.2:80", "p0"},
		{"at another port", "in p1 tcp 10.0.0.1:1 > 10.0.0.2:80", "edge"},
		{"the packet comes from the port, but another one is asked", "in p1 tcp 10.0.0.1:1 > 10.0.0.2:80 splace=p0", "edge"},
		{"at a trunk's first VLAN", "in p2.10 tcp 10.0.0.1:1 > 10.0.0.2:80", "trunk"},
		{"at a trunk's second VLAN", "in p2.20 tcp 10.0.0.1:1 > 10.0.0.2:80", "trunk"},
		{"at one VLAN", "in p2.20 tcp 10.0.0.1:1 > 10.0.0.2:81", "vlan"},
		{"not at the trunk's other one", "in p2.10 tcp 10.0.0.1:1 > 10.0.0.2:81", "edge"},
		{"by label", "in p2.10 tcp 10.0.0.1:1 > 10.0.0.2:82", "label"},
		{"by label, another port", "in p0 tcp 10.0.0.1:1 > 10.0.0.2:82", "label"},
		{"by label, one without", "in p1 tcp 10.0.0.1:1 > 10.0.0.2:82", "edge"},
		{"by segment", "in p1 tcp 10.0.0.1:1 > 10.0.0.2:83", "segment"},
		{"by segment, one of another", "in p2.10 tcp 10.0.0.1:1 > 10.0.0.2:83", "edge"},
		{"by segment, which is the port's and not the packet's", "in p2.10 tcp 10.0.0.1:1 > 10.0.0.2:83 sseg=red dseg=red", "edge"},
		{"by group: its label", "in p0 tcp 10.0.0.1:1 > 10.0.0.2:84", "group"},
		{"by group: its port", "in p1 tcp 10.0.0.1:1 > 10.0.0.2:84", "group"},
		{"by group: neither", "in p2.10 tcp 10.0.0.1:1 > 10.0.0.2:84", "edge"},
		{"to an empty group or an absent port: nowhere", "in p0 udp 10.0.0.1:1 > 10.0.0.2:84", "edge"},
		{"to one of two: the port", "in p1 tcp 10.0.0.1:1 > 10.0.0.2:85", "two"},
		{"to one of two: the segment", "in p2.10 tcp 10.0.0.1:1 > 10.0.0.2:85", "two"},
		{"to one of two: neither", "in p2.20 tcp 10.0.0.1:1 > 10.0.0.2:85", "edge"},
		{"with a direction", "in p0 tcp 10.0.0.1:1 > 10.0.0.2:86", "in"},
		{"with another direction", "out p0 tcp 10.0.0.1:1 > 10.0.0.2:86", "edge"},
		{"with a direction at another port", "in p1 tcp 10.0.0.1:1 > 10.0.0.2:86", "edge"},
		{"on trial there", "out p0 tcp 10.0.0.1:1 > 10.0.0.2:87", "edge|trial"},
		{"not on trial elsewhere", "out p1 tcp 10.0.0.1:1 > 10.0.0.2:87", "edge"},
		{"from one port, asked at another", "in p1 tcp 10.0.0.1:1 > 10.0.0.2:88 splace=p0", "twice"},
		{"from one port, asked there", "out p0 tcp 10.0.0.1:1 > 10.0.0.2:88 dplace=p1", "edge"},
	}}
}

func allThatARuleCanAskForTable() Table {
	return Table{Name: "all that a rule can ask for", Groups: []string{"clients: 10.0.0.0/24,mac=02:00:00:00:0c:00"}, Rules: []string{
		"all: reject in group=clients > port=p0,10.1.0.0/16 tcp/443<1024-65535 @labels=app:web log", "rest: allow in any > any @segment=red",
	}, Cases: []Case{
		{"as asked for", "in p0 tcp 10.0.0.7:2000 > 10.5.0.1:443", "all"},
		{"by the other member of each", "in p0 tcp 10.9.0.7:2000 > 10.1.0.1:443 smac=02:00:00:00:0c:00", "all"},
		{"out", "out p0 tcp 10.0.0.7:2000 > 10.1.0.1:443", "edge"},
		{"another source", "in p0 tcp 10.9.0.7:2000 > 10.1.0.1:443", "rest"},
		{"another destination", "in p2.10 tcp 10.0.0.7:2000 > 10.5.0.1:443", "edge"},
		{"the destination by address, at a port with the label", "in p2.10 tcp 10.0.0.7:2000 > 10.1.0.1:443", "all"},
		{"another protocol", "in p0 udp 10.0.0.7:2000 > 10.1.0.1:443", "rest"},
		{"another port", "in p0 tcp 10.0.0.7:2000 > 10.1.0.1:444", "rest"},
		{"another source port", "in p0 tcp 10.0.0.7:1023 > 10.1.0.1:443", "rest"},
		{"a port without the label", "in p1 tcp 10.0.0.7:2000 > 10.1.0.1:443", "rest"},
		{"ports not known", "in p0 tcp 10.0.0.7 > 10.1.0.1 unported", "rest"},
	}}
}
