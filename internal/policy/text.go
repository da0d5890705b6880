package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/internal/overlay"
)

// name is as users name the rule.
func (r Rule) name() string {
	if r.Section == "" {
		return r.Name
	}
	return r.Section + "/" + r.Name
}

// listRules are the rules with their defaults, checked for what the model cannot say.
func listRules(fw overlay.Firewall) ([]Rule, error) {
	segments := sortedKeys(fw.Defaults)
	if n := len(fw.Rules) + len(segments) + 1; n > MaxRules {
		return nil, fmt.Errorf("the firewall has %d rules with its defaults, and at most %d fit", n, MaxRules)
	}
	rules := make([]Rule, 0, len(fw.Rules)+len(segments)+1)
	for _, r := range fw.Rules {
		rule := Rule{Section: r.Section, Name: r.Name, Verdict: r.Verdict, Log: r.Log, Text: textOf(r)}
		if !slices.Contains([]overlay.Verdict{overlay.Allow, overlay.Drop, overlay.Reject, overlay.LogOnly}, r.Verdict) {
			return nil, fmt.Errorf("rule %s: verdict %q is none of allow, drop, reject and log-only", rule.name(), r.Verdict)
		}
		rules = append(rules, rule)
	}
	for _, name := range segments {
		rules = append(rules, Rule{Section: DefaultSection, Name: name, Verdict: fw.Defaults[name],
			Text: "what no rule decides about at ports of segment " + name})
	}
	rules = append(rules, Rule{Section: DefaultSection, Name: DefaultEdge, Verdict: fw.Default, Text: "what no rule decides about"})
	for _, r := range rules[len(fw.Rules):] {
		if !slices.Contains([]overlay.Verdict{overlay.Allow, overlay.Drop, overlay.Reject}, r.Verdict) {
			return nil, fmt.Errorf("default of %s: verdict %q is none of allow, drop and reject", r.Name, r.Verdict)
		}
	}
	return rules, nil
}

// textOf is what a rule matches: "both, from group web to 10.0.0.0/8, tcp/443".
func textOf(r overlay.Rule) string {
	b := make([]byte, 0, 64)
	b = append(b, r.Direction...)
	b = append(b, ", from "...)
	b = appendMembers(b, r.From)
	b = append(b, " to "...)
	b = appendMembers(b, r.To)
	for i, s := range r.Services {
		b = append(b, ", "...)
		if i == mostShown {
			b = append(b, '+')
			b = append(strconv.AppendInt(b, int64(len(r.Services)-i), 10), " more"...)
			break
		}
		b = appendService(b, s)
	}
	if len(r.AppliedTo) > 0 {
		b = append(b, ", applied to "...)
		b = appendMembers(b, r.AppliedTo)
	}
	return string(b)
}

// mostShown members of a list are shown.
const mostShown = 4

func appendMembers(b []byte, members []overlay.Member) []byte {
	if len(members) == 0 {
		return append(b, "any"...)
	}
	for i, m := range members {
		if i > 0 {
			b = append(b, " or "...)
		}
		if i == mostShown {
			b = strconv.AppendInt(b, int64(len(members)-i), 10)
			return append(b, " more"...)
		}
		b = appendMember(b, m)
	}
	return b
}

func appendMember(b []byte, m overlay.Member) []byte {
	switch {
	case m.Prefix.IsValid() && m.Prefix.IsSingleIP():
		return m.Prefix.Addr().AppendTo(b)
	case m.Prefix.IsValid():
		return m.Prefix.AppendTo(b)
	case m.Range.First.IsValid():
		b = append(m.Range.First.AppendTo(b), '-')
		return m.Range.Last.AppendTo(b)
	case m.MAC != nil:
		return append(b, m.MAC.String()...)
	case m.Segment != "":
		return append(append(b, "segment "...), m.Segment...)
	case m.Port != "":
		return append(append(b, "port "...), m.Port...)
	case m.Labels != nil:
		return append(append(b, "labels "...), textOfLabels(m.Labels)...)
	}
	return append(append(b, "group "...), m.Group...)
}

func textOfLabels(labels map[string]string) string {
	var words []string
	for _, name := range sortedKeys(labels) {
		words = append(words, name+"="+labels[name])
	}
	return strings.Join(words, ",")
}

var protocolNames = map[int]string{
	protoICMP: "icmp", protoTCP: "tcp", protoUDP: "udp", protoICMPv6: "icmpv6", protoSCTP: "sctp", overlay.AnyProtocol: "any",
}

func appendService(b []byte, s overlay.Service) []byte {
	if name, known := protocolNames[s.Protocol]; known {
		b = append(b, name...)
	} else {
		b = append(b, "ip/"...)
		b = strconv.AppendInt(b, int64(s.Protocol), 10)
	}
	switch {
	case s.Protocol != protoICMP && s.Protocol != protoICMPv6:
	case s.ICMPType >= 0 && s.ICMPCode >= 0:
		return fmt.Appendf(b, "/%d/%d", s.ICMPType, s.ICMPCode)
	case s.ICMPType >= 0:
		return fmt.Appendf(b, "/%d", s.ICMPType)
	}
	if len(s.Ports) > 0 {
		b = appendPorts(append(b, '/'), s.Ports)
	}
	if len(s.SourcePorts) > 0 {
		b = appendPorts(append(b, " from port "...), s.SourcePorts)
	}
	return b
}

func appendPorts(b []byte, ranges []overlay.PortRange) []byte {
	for i, r := range ranges {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(r.First), 10)
		if r.Last != r.First {
			b = strconv.AppendUint(append(b, '-'), uint64(r.Last), 10)
		}
	}
	return b
}
