package policytest

import "github.com/selvage/selvage/internal/overlay"

func orderTable() Table {
	return Table{Name: "order", Rules: []string{
		"narrow: allow both 10.0.0.1 > 10.1.0.1 tcp/80", "wide: drop both 10.0.0.0/8 > 10.1.0.0/16 tcp", "late: allow both 10.0.0.2 > 10.1.0.1 tcp/80",
		"port: reject both any > any tcp/80", "source: allow both 10.2.0.0/16 > any", "target: drop both any > 10.3.0.0/16", "rest: allow both any > any udp",
	}, Cases: []Case{
		{"the narrow one comes first", "in p0 tcp 10.0.0.1:1 > 10.1.0.1:80", "narrow"},
		{"the wide one comes before a narrow one", "in p0 tcp 10.0.0.2:1 > 10.1.0.1:80", "wide"},
		{"any to any before the ones by address", "in p0 tcp 10.2.0.1:1 > 10.3.0.1:80", "port"},
		{"by source before by destination", "in p0 tcp 10.2.0.1:1 > 10.3.0.1:81", "source"},
		{"by destination", "in p0 tcp 11.2.0.1:1 > 10.3.0.1:81", "target"},
		{"by source before any to any", "in p0 udp 10.2.0.1:1 > 11.3.0.1:81", "source"},
		{"any to any at last", "in p0 udp 11.2.0.1:1 > 11.3.0.1:81", "rest"},
		{"none", "in p0 sctp 11.2.0.1:1 > 11.3.0.1:81", "edge"},
	}}
}

func equalRulesTable() Table {
	return Table{Name: "equal rules", Rules: []string{
		"first: allow both 10.0.0.0/8 > any", "second: drop both 10.0.0.0/8 > any", "third: drop both 10.0.0.0/8,11.0.0.0/8 > any",
	}, Cases: []Case{
		{"the first of equals", "in p0 udp 10.0.0.1:1 > 10.0.0.2:2", "first"},
		{"what only the last one has", "in p0 udp 11.0.0.1:1 > 10.0.0.2:2", "third"},
	}}
}

func rulesOnTrialTable() Table {
	return Table{Name: "rules on trial", Rules: []string{
		"before: log-only both 10.0.0.0/8 > any", "again: log-only both 10.0.0.0/16 > any tcp", "web: allow both 10.0.0.0/16 > any tcp/80", "behind: log-only both any > any tcp/80",
		"net: drop both 10.1.0.0/16 > any", "alone: log-only both 11.0.0.0/8 > any",
	}, Cases: []Case{
		{"the first of two is named", "in p0 tcp 10.0.0.1:1 > 10.9.0.2:80", "web|before"},
		{"before the default", "in p0 tcp 10.0.0.1:1 > 10.9.0.2:81", "edge|before"},
		{"before a rule", "in p0 udp 10.1.0.1:1 > 10.9.0.2:81", "net|before"},
		{"one behind the rule that decides is not named", "in p0 tcp 10.0.0.1:1 > 10.9.0.2:80", "web|before"},
		{"by its port alone", "in p0 tcp 12.0.0.1:1 > 10.9.0.2:80", "edge|behind"},
		{"alone", "in p0 udp 11.0.0.1:1 > 10.9.0.2:80", "edge|alone"},
		{"two alone", "in p0 tcp 11.0.0.1:1 > 10.9.0.2:80", "edge|behind"},
		{"none", "in p0 udp 12.0.0.1:1 > 10.9.0.2:81", "edge"},
	}}
}

func rulesOnTrialBehindTable() Table {
	return Table{Name: "rules on trial behind", Rules: []string{
		"all: allow both any > any tcp", "never: log-only both any > any", "neither: log-only both 10.0.0.1 > any tcp",
	}, Cases: []Case{
		{"what is decided is not on trial", "in p0 tcp 10.0.0.1:1 > 10.0.0.2:2", "all"},
		{"what is not decided is", "in p0 udp 10.0.0.1:1 > 10.0.0.2:2", "edge|never"},
	}}
}

func noRulesTable() Table {
	return Table{Name: "no rules", Default: overlay.Allow, Cases: []Case{
		{"into a port", "in p0 tcp 10.0.0.1:1 > 10.0.0.2:2", "edge"},
		{"out of a port", "out p1 tcp 10.0.0.1:1 > 10.0.0.2:2", "edge"},
		{"IPv6", "in p2.10 tcp [2001:db8::1]:1 > [2001:db8::2]:2", "edge"},
		{"ports not known", "in p2.20 udp 10.0.0.1 > 10.0.0.2 unported", "edge"},
	}}
}

func defaultsTable() Table {
	return Table{Name: "defaults", Default: overlay.Reject,
		Defaults: map[string]overlay.Verdict{"red": overlay.Allow, "green": overlay.Drop, "none": overlay.Drop},
		Rules:    []string{"one: drop both 10.0.0.1 > any", "trial: log-only both 10.0.0.2 > any"}, Cases: []Case{
			{"of the port's segment", "in p0 tcp 10.0.0.3:1 > 10.0.0.2:2", "red"},
			{"of another port of the segment", "out p1 tcp 10.0.0.3:1 > 10.0.0.2:2", "red"},
			{"of a trunk's VLAN", "in p2.20 tcp 10.0.0.3:1 > 10.0.0.2:2", "green"},
			{"of the edge where the segment has none", "in p2.10 tcp 10.0.0.3:1 > 10.0.0.2:2", "edge"},
			{"the port's segment counts, not the packet's", "in p2.10 tcp 10.0.0.3:1 > 10.0.0.2:2 sseg=red dseg=green", "edge"},
			{"a rule comes before", "in p0 tcp 10.0.0.1:1 > 10.0.0.2:2", "one"},
			{"with a rule on trial", "in p0 tcp 10.0.0.2:1 > 10.0.0.3:2", "red|trial"},
		}}
}

func everythingDecidedTable() Table {
	return Table{Name: "everything decided", Rules: []string{"all: allow both any > any log", "dead: drop both any > any", "six: drop both ::/0 > ::/0"}, Cases: []Case{
		{"IPv4", "in p0 tcp 10.0.0.1:1 > 10.0.0.2:2", "all"},
		{"IPv6", "out p2.10 ip/200 2001:db8::1 > 2001:db8::2", "all"},
		{"ports not known", "in p1 udp 10.0.0.1 > 10.0.0.2 unported", "all"},
	}}
}

func manyAtOnceTable() Table {
	return Table{Name: "many at once", Rules: manyPorts(), Cases: []Case{
		{"first", "in p0 tcp 10.0.0.1:1 > 10.0.0.2:1000", "r0"},
		{"second", "in p0 tcp 10.0.0.1:1 > 10.0.0.2:1001", "r1"},
		{"of a later one's range, too", "in p0 tcp 10.0.0.1:1 > 10.0.0.2:1199", "r199"},
		{"behind all", "in p0 tcp 10.0.0.1:1 > 10.0.0.2:1200", "wide"},
		{"before all", "in p0 tcp 10.0.0.1:1 > 10.0.0.2:999", "wide"},
		{"of another protocol", "in p0 udp 10.0.0.1:1 > 10.0.0.2:1000", "edge"},
	}}
}

// manyPorts has a rule for each of 200 ports, and one behind them for all.
func manyPorts() []string {
	var rules []string
	for i := range 200 {
		rules = append(rules, "r"+itoa(i)+": allow both any > any tcp/"+itoa(1000+i))
	}
	return append(rules, "wide: drop both any > any tcp/1-65535")
}
