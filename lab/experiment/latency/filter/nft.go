package filter

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/internal/overlay"
)

// nftPassed counts what the last rule of a policy lets pass.
const nftPassed = "passed"

// Nftables writes a policy as one table of nftables, as one would by hand: what belongs to
// a connection passes first, then one line after the other is asked. A rule of ours is
// several lines where its addresses or services need that. The tunnels' own packets are
// not tracked.
//
// It is for what a bridge can tell: rules that are applied to some ports or to one
// direction, and members that are ports, segments or labels, are errors.
func Nftables(fw overlay.Firewall) (string, error) {
	n := nftWriter{groups: map[string][]overlay.Member{}}
	for _, g := range fw.Groups {
		n.groups[g.Name] = g.Members
	}
	policy := map[overlay.Verdict]string{overlay.Allow: "accept", overlay.Drop: "drop"}[fw.Default]
	if policy == "" || len(fw.Defaults) > 0 {
		return "", fmt.Errorf("default %q of the firewall, %d of segments: nftables has one, allow or drop", fw.Default, len(fw.Defaults))
	}
	invalid := ""
	if fw.Strict {
		invalid = "		ct state invalid drop\n"
	}
	fmt.Fprintf(&n.text, `table inet %s {
	counter %s {
	}
	chain arrive {
		type filter hook prerouting priority raw
		udp dport 4789 notrack
	}
	chain send {
		type filter hook output priority raw
		udp dport 4789 notrack
	}
	chain forward {
		type filter hook forward priority filter; policy %s;
		ct state established,related accept
%s		icmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert } accept
`, nftTable, nftPassed, policy, invalid)
	for i, rule := range fw.Rules {
		if err := n.rule(rule, i == len(fw.Rules)-1); err != nil {
			return "", fmt.Errorf("rule %s of section %s: %w", rule.Name, rule.Section, err)
		}
	}
	n.text.WriteString("	}\n}\n")
	return n.text.String(), nil
}

type nftWriter struct {
	text   strings.Builder
	groups map[string][]overlay.Member
}

// rule writes a rule's lines; the last of a policy counts.
func (n *nftWriter) rule(r overlay.Rule, last bool) error {
	if r.Direction != overlay.Both || len(r.AppliedTo) > 0 {
		return errors.New("nftables on a bridge has rules for all ports and both directions only")
	}
	from, err := n.matches(r.From, "s")
	if err != nil {
		return err
	}
	to, err := n.matches(r.To, "d")
	if err != nil {
		return err
	}
	end := map[overlay.Verdict]string{overlay.Allow: "accept", overlay.Drop: "drop", overlay.Reject: "reject", overlay.LogOnly: "counter"}[r.Verdict]
	if last {
		end = "counter name " + nftPassed + " " + end
	}
	services, err := nftServices(r.Services)
	if err != nil {
		return err
	}
	for _, f := range from {
		for _, t := range to {
			if f.family != 0 && t.family != 0 && f.family != t.family {
				continue
			}
			for _, service := range services {
				n.text.WriteString("\t\t" + strings.Join(slices.DeleteFunc([]string{f.text, t.text, service, end}, empty), " ") + "\n")
			}
		}
	}
	return nil
}

func empty(s string) bool { return s == "" }

// nftMatch is a condition that holds for packets of one family, 4 or 6, or 0 for both.
type nftMatch struct {
	text   string
	family int
}

// matches are the conditions of a rule's source ("s") or destination ("d"), one of which
// has to hold.
func (n *nftWriter) matches(members []overlay.Member, side string) ([]nftMatch, error) {
	if len(members) == 0 {
		return []nftMatch{{}}, nil
	}
	sets := map[string][]string{}
	if err := n.collect(members, sets); err != nil {
		return nil, err
	}
	var all []nftMatch
	for _, kind := range []struct {
		key    string
		family int
	}{{"ip", 4}, {"ip6", 6}, {"ether", 0}} {
		if elements := sets[kind.key]; len(elements) > 0 {
			all = append(all, nftMatch{kind.key + " " + side + "addr " + nftSet(elements), kind.family})
		}
	}
	return all, nil
}

// collect sorts members into what nftables compares: ip, ip6, ether.
func (n *nftWriter) collect(members []overlay.Member, sets map[string][]string) error {
	add := func(addr netip.Addr, text string) {
		kind := "ip6"
		if addr.Is4() {
			kind = "ip"
		}
		sets[kind] = append(sets[kind], text)
	}
	for _, m := range members {
		switch {
		case m.Prefix.IsValid():
			add(m.Prefix.Addr(), m.Prefix.String())
		case m.Range.First.IsValid():
			add(m.Range.First, m.Range.First.String()+"-"+m.Range.Last.String())
		case m.MAC != nil:
			sets["ether"] = append(sets["ether"], m.MAC.String())
		case m.Group != "":
			if err := n.collect(n.groups[m.Group], sets); err != nil {
				return err
			}
		default:
			return errors.New("a port, a segment or labels: nftables on a bridge knows addresses and MACs only")
		}
	}
	return nil
}

// nftSet is one element or an anonymous set.
func nftSet(elements []string) string {
	if len(elements) == 1 {
		return elements[0]
	}
	return "{ " + strings.Join(elements, ", ") + " }"
}

// nftServices are the conditions of services, one of which has to hold; "" always does.
func nftServices(services []overlay.Service) ([]string, error) {
	if len(services) == 0 {
		return []string{""}, nil
	}
	var all []string
	for _, s := range services {
		text, err := nftService(s)
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}

func nftService(s overlay.Service) (string, error) {
	proto := map[int]string{1: "icmp", 6: "tcp", 17: "udp", 58: "icmpv6", 132: "sctp"}[s.Protocol]
	switch {
	case s.Protocol == overlay.AnyProtocol:
		return "", nil
	case proto == "":
		return "meta l4proto " + strconv.Itoa(s.Protocol), nil
	case s.Protocol == 1, s.Protocol == 58:
		if s.ICMPType < 0 {
			return "meta l4proto " + proto, nil
		}
		text := fmt.Sprintf("%s type %d", proto, s.ICMPType)
		if s.ICMPCode >= 0 {
			text += fmt.Sprintf(" %s code %d", proto, s.ICMPCode)
		}
		return text, nil
	}
	var words []string
	for _, ports := range []struct {
		key  string
		list []overlay.PortRange
	}{{"sport", s.SourcePorts}, {"dport", s.Ports}} {
		if len(ports.list) > 0 {
			words = append(words, proto+" "+ports.key+" "+nftSet(portWords(ports.list)))
		}
	}
	if len(words) == 0 {
		return "meta l4proto " + proto, nil
	}
	return strings.Join(words, " "), nil
}

func portWords(list []overlay.PortRange) []string {
	elements := make([]string, len(list))
	for i, p := range list {
		elements[i] = strconv.Itoa(int(p.First))
		if p.Last != p.First {
			elements[i] += "-" + strconv.Itoa(int(p.Last))
		}
	}
	return elements
}
