package config

import (
	"fmt"
	"strings"
	"testing"
)

// fw is a firewall on top of site; text begins in line 13, column 5.
func fw(text string) string { return site + "  firewall:\n    " + text + "\n" }

// withRule is a rule with these fields.
func withRule(fields string) string {
	return fw("sections: [{name: s, rules: [{name: r, action: allow, " + fields + "}]}]")
}

func TestFirewallErrors(t *testing.T) {
	testErrors(t, []errorCase{
		{"unknown field", fw("defualt: drop"), []string{`13:5: spec.firewall.defualt: unknown field; did you mean "default"?`}},
		{"default", fw("default: deny"), []string{`13:14: spec.firewall.default: "deny" is not supported; write allow or drop or reject`}},
		{"nonIP", fw("nonIP: reject"), []string{`13:12: spec.firewall.nonIP: "reject" is not supported; write allow or drop`}},
		{"connections", fw("connections: 16777217"), []string{`13:18: spec.firewall.connections: 16777217 is outside 1024 to 16777216; one entry for each concurrent connection is enough`}},
		{"timeout too short", fw("timeouts: {udp: 19s}"), []string{
			`13:21: spec.firewall.timeouts.udp: 19s is outside 20s to 1000000s; packets are accounted up to 10s late, so a shorter timeout would forget live connections`}},
		{"timeout of closed", fw("timeouts: {closed: 9s}"), []string{
			`13:24: spec.firewall.timeouts.closed: 9s is outside 10s to 1000000s; packets are accounted up to 10s late, so a shorter timeout would forget live connections`}},
		{"timeout without unit", fw("timeouts: {udp: 30}"), []string{`13:21: spec.firewall.timeouts.udp: "30" is not a duration; add the unit: 30s`}},
		{"timeout of zero", fw("timeouts: {udp: 0}"), []string{
			`13:21: spec.firewall.timeouts.udp: 0 is outside 20s to 1000000s; packets are accounted up to 10s late, so a shorter timeout would forget live connections`}},
		{"included without a path", fw("include: [more.json]"), []string{
			`13:15: spec.firewall.include[0]: a file cannot be included here; put its groups, services and sections into this one`}},
		{"segment's default without a firewall", under + "  segments: [{name: blue, vni: 1, firewall: drop}]\n", []string{
			`6:45: spec.segments[0].firewall: the edge has no firewall; add spec.firewall, which may be empty: {}`}},
		{"segment called like the edge's default", under + "  segments: [{name: edge, vni: 1, firewall: drop}]\n  firewall: {}\n", []string{
			`6:45: spec.segments[0].firewall: counters also use the name "edge" for the edge's own default; give the segment another name, or write rules`}},
	})
}

func TestGroupErrors(t *testing.T) {
	testErrors(t, []errorCase{
		{"empty", fw("groups: [{name: g, members: []}]"), []string{
			`13:14: spec.firewall.groups[0].members: is missing, or empty; give what belongs to it, or make it live: true and add members while the edge runs`}},
		{"without members", fw("groups: [{name: g}]"), []string{
			`13:14: spec.firewall.groups[0].members: is missing, or empty; give what belongs to it, or make it live: true and add members while the edge runs`}},
		{"twice", fw("groups: [{name: g, members: [10.0.0.1]}, {name: g, members: [10.0.0.2]}]"), []string{
			`13:53: spec.firewall.groups[1].name: group "g" already exists (f:13:21); names of groups are unique`}},
		{"called any", fw("groups: [{name: any, members: [10.0.0.1]}]"), []string{`13:21: spec.firewall.groups[0].name: "any" means something else in a rule; choose another name`}},
		{"called like a MAC", fw("groups: [{name: aa-bb-cc-dd-ee-ff, members: [10.0.0.1]}]"), []string{
			`13:21: spec.firewall.groups[0].name: "aa-bb-cc-dd-ee-ff" means something else in a rule; choose another name`}},
		{"not a name", fw("groups: [{name: 10.0.0.1, members: [10.0.0.1]}]"), []string{
			`13:21: spec.firewall.groups[0].name: "10.0.0.1" is not a name; begin with a letter, then up to 62 letters, digits, "_", "." and "-"`}},
		{"of anything", fw("groups: [{name: g, members: [any]}]"), []string{
			`13:34: spec.firewall.groups[0].members[0]: a group of everything restricts nothing; leave out from or to in the rule instead`}},
		{"itself", fw("groups: [{name: g, members: [g]}]"), []string{
			`13:34: spec.firewall.groups[0].members[0]: the group contains itself: g > g; remove one of these`}},
		{"cycle", fw("groups: [{name: a, members: [b]}, {name: b, members: [10.0.0.1, c]}, {name: c, members: [{group: b}]}]"), []string{
			`13:94: spec.firewall.groups[2].members[0]: the group contains itself: b > c > b; remove one of these`}},
		{"unknown", fw("groups: [{name: data, members: [daat]}]"), []string{`13:37: spec.firewall.groups[0].members[0]: there is no group "daat"; did you mean "data"?`}},
		{"number", fw("groups: [{name: g, members: [7]}]"), []string{`13:34: spec.firewall.groups[0].members[0]: must be a string, is an integer; put it in quotes`}},
		{"no address", fw("groups: [{name: g, members: [10.0.0, 10.0.0.256, \"\", \"a b\", 10.0.0.1%eth0]}]"), []string{
			`13:34: spec.firewall.groups[0].members[0]: "10.0.0" is not an IP address; ` + memberHint,
			`13:42: spec.firewall.groups[0].members[1]: "10.0.0.256" is not an IP address; ` + memberHint,
			`13:54: spec.firewall.groups[0].members[2]: "" is not an address, network, range, MAC address or group; ` + memberHint,
			`13:58: spec.firewall.groups[0].members[3]: "a b" is not an address, network, range, MAC address or group; ` + memberHint,
			`13:65: spec.firewall.groups[0].members[4]: "10.0.0.1%eth0" is not an address, network, range, MAC address or group; ` + memberHint}},
		{"host bits", fw("groups: [{name: g, members: [10.0.0.1/24]}]"), []string{`13:34: spec.firewall.groups[0].members[0]: 10.0.0.1/24 has host bits; write 10.0.0.0/24`}},
		{"mapped", fw("groups: [{name: g, members: [\"::ffff:10.0.0.1\"]}]"), []string{
			`13:34: spec.firewall.groups[0].members[0]: ::ffff:10.0.0.1 is an IPv4 address in IPv6 form; write it as 10.0.0.1`}},
		{"ranges", fw("groups: [{name: g, members: [10.0.0.9-10.0.0.5, \"10.0.0.1-fd00::1\", 10.0.0.1-5]}]"), []string{
			`13:34: spec.firewall.groups[0].members[0]: 10.0.0.9-10.0.0.5 ends before it begins; write it 10.0.0.5-10.0.0.9`,
			`13:53: spec.firewall.groups[0].members[1]: 10.0.0.1-fd00::1 begins with IPv4 and ends with IPv6; make it two ranges, one a family`,
			`13:73: spec.firewall.groups[0].members[2]: "5" is not an IP address; ` + memberHint}},
		{"group MAC", fw("groups: [{name: g, members: [\"03:00:00:00:00:01\"]}]"), []string{
			`13:34: spec.firewall.groups[0].members[0]: 03:00:00:00:00:01 is a group address; use the address of an interface, or ff:ff:ff:ff:ff:ff for broadcasts`}},
		{"address with colons", fw("groups: [{name: g, members: [2001:db8::5]}]"), []string{
			`13:34: spec.firewall.groups[0].members[0]: the name of a field must be a plain word; put an address with colons in quotes`}},
		{"forms", fw("groups: [{name: g, members: [{}, {port: p0, segment: blue}, {prot: p0}, {labels: {}}, {port: 7}]}]"), []string{
			`13:34: spec.firewall.groups[0].members[0]: none of segment, port, labels and group is given; ` + memberHint,
			`13:38: spec.firewall.groups[0].members[1]: both segment and port are given; make them two members: one of them has to match`,
			`13:66: spec.firewall.groups[0].members[2].prot: unknown field; did you mean "port"?`,
			`13:86: spec.firewall.groups[0].members[3].labels: there are no labels; give some, as in {tier: web}, or remove the line`,
			`13:98: spec.firewall.groups[0].members[4].port: must be a string, is an integer; put it in quotes`}},
		{"names", fw("groups: [{name: g, members: [{port: rack.11}, {segment: bleu}, {port: wan}, {segment: p0}]}]"), []string{
			`13:34: spec.firewall.groups[0].members[0]: there is no port "rack.11"; did you mean "rack.10"?`,
			`13:51: spec.firewall.groups[0].members[1]: there is no segment "bleu"; did you mean "blue"?`,
			`13:68: spec.firewall.groups[0].members[2]: "wan" is an uplink; write {segment: wan}: its network`,
			`13:81: spec.firewall.groups[0].members[3]: there is no segment "p0"; segments: blue, r-l3, wan`}},
		{"labels", fw("groups: [{name: g, members: [{labels: {-a: x}}, {labels: {a: x/y}}, {labels: {a: 1}}, {labels: {a: x, a: y}}, {labels: web}]}]"), []string{
			`13:44: spec.firewall.groups[0].members[0].labels.-a: "-a" is not the name of a label; use up to 63 letters, digits, "_", ".", "/" and "-", with a letter or digit at either end`,
			`13:66: spec.firewall.groups[0].members[1].labels.a: "x/y" is not the value of a label; use up to 63 letters, digits, "_", "." and "-", with a letter or digit at either end`,
			`13:86: spec.firewall.groups[0].members[2].labels.a: must be a string, is an integer; put it in quotes`,
			`13:107: spec.firewall.groups[0].members[3].labels.a: appears twice, first in line 13; keep one`,
			`13:124: spec.firewall.groups[0].members[4].labels: must be a mapping, is a string; local ports that have all of these labels`}},
	})
}

func TestServiceErrors(t *testing.T) {
	named := func(text string) string { return fw("services: [{name: web, members: [" + text + "]}]") }
	const at = `13:38: spec.firewall.services[0].members[0]: `
	var cases []errorCase
	for _, c := range []struct{ text, want string }{
		{"tcp/443-80", `"tcp/443-80": 443-80 ends before it begins; write it 80-443`},
		{"udp/70000", `"udp/70000": "70000" is not a port or range of ports; write 443 or 8000-8999; ports are 0 to 65535`},
		{"tcp/", `"tcp/": "" is not a port or range of ports; write 443 or 8000-8999; ports are 0 to 65535`},
		{"tcp/http", `"tcp/http": "http" is not a port or range of ports; write 443 or 8000-8999; ports are 0 to 65535`},
		{"icmp/8-9", `"icmp/8-9" has no ICMP type and code of 0 to 255; write icmp/8 for a type, icmp/3/4 for a type and code; list several as services of their own`},
		{"icmp/3/x", `"icmp/3/x" has no ICMP type and code of 0 to 255; write icmp/8 for a type, icmp/3/4 for a type and code; list several as services of their own`},
		{"esp/3", `esp has no ports; write esp`},
		{"ip", `ip is not a protocol of its own; write any, or a number as in ip/47`},
		{"ip/256", `"ip/256" has no protocol of 0 to 255; write a number as IANA gives them: ip/47 is gre`},
		{"tpc/443", `"tpc/443" has no protocol "tpc"; did you mean "tcp"?`},
		{"443", `443 has no protocol; write tcp/443, and lists in quotes: "tcp/80,443"`},
		{"8000-8999", `8000-8999 has no protocol; write tcp/8000-8999, and lists in quotes: "tcp/80,443"`},
		{"a b", `"a b" is not a service; ` + serviceHint},
		{"any", `a named service can contain only protocols; write them out, as in tcp/443`},
		{"other", `a named service can contain only protocols; write them out, as in tcp/443`},
		{"{protocol: icmp, ports: [80]}", `protocol 1 has no ports; ports and sourcePorts are for tcp, udp and sctp`},
		{"{protocol: tcp, type: 8}", `protocol 6 has no ICMP type; type and code are for icmp and icmpv6`},
		{"{protocol: icmp, code: 4}", `an ICMP code has a meaning only with a type; add the type`},
	} {
		cases = append(cases, errorCase{c.text, named(c.text), []string{at + c.want}})
	}
	testErrors(t, append(cases, []errorCase{
		{"comma outside of quotes", named("udp/53,5353"), []string{
			`13:45: spec.firewall.services[0].members[1]: 5353 has no protocol; write tcp/5353, and lists in quotes: "tcp/80,443"`}},
		{"no protocol", named("{ports: [80]}"), []string{
			`13:38: spec.firewall.services[0].members[0].protocol: is missing; add it: name or number of the IP protocol`}},
		{"protocol", named("{protocol: tpc}"), []string{
			`13:49: spec.firewall.services[0].members[0].protocol: there is no protocol "tpc"; did you mean "tcp"?`}},
		{"port", named("{protocol: tcp, ports: [80, 65536]}"), []string{
			`13:66: spec.firewall.services[0].members[0].ports[1]: "65536" is not a port or range of ports; write 443 or 8000-8999; ports are 0 to 65535`}},
		{"ICMP type", named("{protocol: icmp, type: 256, code: 0}"), []string{
			`13:61: spec.firewall.services[0].members[0].type: 256 is outside 0 to 255; 0 to 255, as IANA numbers them`}},
		{"called like a protocol", fw("services: [{name: tcp, members: [tcp/1]}]"), []string{
			`13:23: spec.firewall.services[0].name: "tcp" is a protocol; choose another name`}},
		{"twice", fw("services: [{name: a, members: [tcp/1]}, {name: a, members: [tcp/1]}]"), []string{
			`13:52: spec.firewall.services[1].name: service "a" already exists (f:13:23); names of services are unique`}},
		{"unknown", withRule("services: [wbe]"), []string{
			`13:70: spec.firewall.sections[0].rules[0].services[0]: there is no service "wbe"; there are no named services`}},
	}...))
}

func TestRuleErrors(t *testing.T) {
	testErrors(t, []errorCase{
		{"section twice", fw("sections: [{name: s}, {name: s}]"), []string{
			`13:34: spec.firewall.sections[1].name: section "s" already exists (f:13:23); names of sections are unique`}},
		{"section default", fw("sections: [{name: default}]"), []string{
			`13:23: spec.firewall.sections[0].name: counters use the name "default" for the defaults; choose another name`}},
		{"rule twice", fw("sections: [{name: s, rules: [{name: r, action: drop}, {name: r, action: drop}]}]"), []string{
			`13:66: spec.firewall.sections[0].rules[1].name: rule "r" already exists in the section (line 13); names of rules are unique in their section`}},
		{"rule's name", fw("sections: [{name: s, rules: [{name: a/b, action: drop}]}]"), []string{
			`13:41: spec.firewall.sections[0].rules[0].name: "a/b" is not a name; begin with a letter or digit, then up to 62 letters, digits, "_", "." and "-"`}},
		{"no action", fw("sections: [{name: s, rules: [{name: r}]}]"), []string{
			`13:34: spec.firewall.sections[0].rules[0].action: is missing; add it: allow, drop, reject (drop and tell the sender), or log-only: count and log, and let the next rules decide`}},
		{"direction", withRule("direction: ingress"), []string{
			`13:70: spec.firewall.sections[0].rules[0].direction: "ingress" is not supported; write in or out or both`}},
		{"empty list", withRule("from: []"), []string{
			`13:65: spec.firewall.sections[0].rules[0].from: the list is empty; give source of the connection's first packet, one of which has to match, as in [web, 10.0.0.0/24]; any when left out`}},
		{"word for list", withRule("from: any"), []string{
			`13:65: spec.firewall.sections[0].rules[0].from: must be a list, is a string; put it in brackets: [any]`}},
		{"any and others", withRule("from: [any, 10.0.0.1], services: [tcp/1, any]"), []string{
			`13:66: spec.firewall.sections[0].rules[0].from[0]: any includes all the others; keep any alone, or remove it`,
			`13:100: spec.firewall.sections[0].rules[0].services[1]: any includes all the others; keep any alone, or remove it`}},
		{"families", withRule("from: [10.0.0.1], to: [\"fd00::/64\", \"fd01::1-fd01::2\"]"), []string{
			`13:82: spec.firewall.sections[0].rules[0].to: source and destination are of different families; no packet can match; make them the same`}},
		{"applied to an address", withRule("appliedTo: [10.0.0.1]"), []string{
			`13:71: spec.firewall.sections[0].rules[0].appliedTo[0]: a rule is applied to ports, not addresses; name ports, labels or segments here, and addresses in from or to`}},
		{"applied to a MAC", withRule(`appliedTo: ["02:00:00:00:00:01"]`), []string{
			`13:71: spec.firewall.sections[0].rules[0].appliedTo[0]: a rule is applied to ports, not addresses; name ports, labels or segments here, and addresses in from or to`}},
		{"applied to a group with an address inside", fw("groups: [{name: g, members: [h, {port: p0}]}, {name: h, members: [10.0.0.1]}]\n" +
			"    sections: [{name: s, rules: [{name: r, action: drop, appliedTo: [g]}]}]"), []string{
			`14:70: spec.firewall.sections[0].rules[0].appliedTo[0]: group "g" has addresses (f:13:71), but a rule is applied to ports; name ports, labels or segments here, and addresses in from or to`}},
		{"unknown group", withRule("to: [web]"), []string{`13:64: spec.firewall.sections[0].rules[0].to[0]: there is no group "web"; there are no groups`}},
		{"port's labels", blue + "  ports: [{name: p0, interface: v, segment: blue, labels: {tier: [web]}}]\n", []string{
			`8:66: spec.ports[0].labels.tier: must be a string, is a list; the label's value`}},
	})
}

// One mistake is one message, in the policy too.
func TestNoConsequentialPolicyErrors(t *testing.T) {
	testErrors(t, []errorCase{
		{"group that was not read", fw("groups: [{name: 7, members: [10.0.0.1]}]\n    sections: [{name: s, rules: [{name: r, action: drop, from: [g]}]}]"), []string{
			`13:21: spec.firewall.groups[0].name: must be a string, is an integer; put it in quotes`}},
		{"groups that were not read", fw("groups: 7\n    sections: [{name: s, rules: [{name: r, action: drop, from: [g]}]}]"), []string{
			`13:13: spec.firewall.groups: must be a list, is an integer; put it in brackets: [7]`}},
		{"misspelled groups", fw("gruops: [{name: g, members: [10.0.0.1]}]\n    sections: [{name: s, rules: [{name: r, action: drop, from: [g]}]}]"), []string{
			`13:5: spec.firewall.gruops: unknown field; did you mean "groups"?`}},
		{"service that was not read", fw("services: [{members: [tcp/1]}]\n    sections: [{name: s, rules: [{name: r, action: drop, services: [x]}]}]"), []string{
			`13:16: spec.firewall.services[0].name: is missing; add it: name by which rules refer to this service`}},
		{"port that was not read", blue + "  ports: [{name: 1, interface: v, segment: blue}]\n  firewall: {groups: [{name: g, members: [{port: p0}]}]}\n", []string{
			`8:18: spec.ports[0].name: must be a string, is an integer; put it in quotes`}},
		{"not a firewall", site + "  firewall: true\n", []string{
			`12:13: spec.firewall: must be a mapping, is a boolean; fields here: default, nonIP, strict, connections, halfOpen, logRate, timeouts, include, groups, services, sections`}},
		{"segment's default and a broken firewall", under + "  segments: [{name: blue, vni: 1, firewall: drop}]\n  firewall: on\n", []string{
			`7:13: spec.firewall: must be a mapping, is a string; fields here: default, nonIP, strict, connections, halfOpen, logRate, timeouts, include, groups, services, sections`}},
	})
}

// The defaults count among the rules.
func TestManyRules(t *testing.T) {
	var b strings.Builder
	b.WriteString(site + "  firewall:\n    sections:\n    - name: s\n      rules:\n")
	for i := range maxRules {
		fmt.Fprintf(&b, "      - {name: r%d, action: drop}\n", i)
	}
	testErrors(t, []errorCase{{"rules", b.String(), []string{
		`13:5: spec.firewall: 131071 rules and 1 defaults, at most 131071 together; use groups and lists of services: a rule may have many of each`,
	}}})
}
