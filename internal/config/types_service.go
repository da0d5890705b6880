package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/selvage/selvage/internal/overlay"
)

// protocols are those that have a name here, by the numbers of IANA.
var protocols = map[string]int{
	"icmp": 1, "igmp": 2, "tcp": 6, "udp": 17, "gre": 47, "esp": 50, "ah": 51, "icmpv6": 58, "ospf": 89, "vrrp": 112, "sctp": 132,
}

const (
	tcp    = 6
	udp    = 17
	sctp   = 132
	icmp   = 1
	icmpv6 = 58
)

// ipProtocol begins a service that gives its protocol's number, as in ip/47.
const ipProtocol = "ip"

const serviceHint = `write tcp/443, "udp/53,5353", tcp/8000-8999, icmp/8, a protocol, ip/47, the name of a service, or {protocol: tcp, sourcePorts: …}`

// service is a kind of traffic: a word, or a mapping, of which serviceChecker makes the same.
type service struct {
	located
	model   overlay.Service
	name    string // of a named service instead
	any     bool
	written *serviceForm
}

func (s *service) form() any {
	s.written = &serviceForm{}
	return s.written
}

// integral: a comma within brackets makes two words of udp/53,5353, and of the last a number.
func (*service) integral() {}

func (s *service) parse(text string) *problem {
	name, rest, cut := strings.Cut(text, "/")
	number, known := protocols[name]
	s.model = overlay.Service{Protocol: number, ICMPType: -1, ICMPCode: -1}
	switch {
	case text == anything:
		s.any = true
	case known && !cut:
	case hasPorts(number):
		return s.parsePorts(text, rest)
	case isICMP(number):
		return s.parseICMP(text, rest)
	case known:
		return &problem{fmt.Sprintf("%s has no ports", name), "write " + name}
	case name == ipProtocol && cut:
		return s.parseProtocol(text, rest)
	case name == ipProtocol:
		return &problem{"ip is not a protocol of its own", "write any, or a number as in ip/47"}
	case cut && isName(name):
		return &problem{fmt.Sprintf("%q has no protocol %q", text, name), suggest(name, protocolNames(), "protocols")}
	case isName(text):
		s.name = text
	case text != "" && strings.Trim(text, "0123456789,-") == "":
		return &problem{fmt.Sprintf("%s has no protocol", text), fmt.Sprintf(`write tcp/%s, and lists in quotes: "tcp/80,443"`, text)}
	default:
		return &problem{fmt.Sprintf("%q is not a service", text), serviceHint}
	}
	return nil
}

func hasPorts(protocol int) bool { return protocol == tcp || protocol == udp || protocol == sctp }

func isICMP(protocol int) bool { return protocol == icmp || protocol == icmpv6 }

func protocolNames() []string {
	names := []string{ipProtocol}
	for name := range protocols {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (s *service) parsePorts(text, list string) *problem {
	s.model.Ports = make([]overlay.PortRange, 0, 1+strings.Count(list, ","))
	for one := range strings.SplitSeq(list, ",") {
		var r portRange
		if p := r.parse(strings.TrimSpace(one)); p != nil {
			return &problem{fmt.Sprintf("%q: %s", text, p.message), p.hint}
		}
		s.model.Ports = append(s.model.Ports, r.PortRange)
	}
	return nil
}

func (s *service) parseICMP(text, rest string) *problem {
	kind, code, cut := strings.Cut(rest, "/")
	var ok, good bool
	s.model.ICMPType, ok = parseByte(kind)
	if s.model.ICMPCode, good = -1, true; cut {
		s.model.ICMPCode, good = parseByte(code)
	}
	if !ok || !good {
		return &problem{fmt.Sprintf("%q has no ICMP type and code of 0 to 255", text), "write icmp/8 for a type, icmp/3/4 for a type and code; list several as services of their own"}
	}
	return nil
}

func (s *service) parseProtocol(text, rest string) *problem {
	number, ok := parseByte(rest)
	if s.model.Protocol = number; !ok {
		return &problem{fmt.Sprintf("%q has no protocol of 0 to 255", text), "write a number as IANA gives them: ip/47 is gre"}
	}
	return nil
}

// parseByte reads a decimal number up to 255.
func parseByte(text string) (int, bool) {
	value, err := strconv.ParseUint(text, 10, 8)
	return int(value), err == nil
}

// JSONSchema is called by the reflector.
func (service) JSONSchema() *jsonschema.Schema {
	ports := `[0-9]+(-[0-9]+)?`
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		{Type: "string", Pattern: fmt.Sprintf(`^(tcp|udp|sctp)/%[1]s(, *%[1]s)*$|^icmp(v6)?/[0-9]+(/[0-9]+)?$|^ip/[0-9]+$|%[2]s`, ports, objectNamePattern)},
		formSchema[serviceForm](),
	}}
}

// protocol is an IP protocol, by name or number: one more than that, so that zero is one
// that was not read.
type protocol int

func (*protocol) integral() {}

func (p *protocol) parse(text string) *problem {
	if number, known := protocols[text]; known {
		*p = protocol(number + 1)
		return nil
	}
	number, ok := parseByte(text)
	if !ok {
		return &problem{fmt.Sprintf("there is no protocol %q", text), suggest(text, protocolNames()[1:], "a number, or one of the protocols")}
	}
	*p = protocol(number + 1)
	return nil
}

// JSONSchema is called by the reflector.
func (protocol) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		{Type: "integer", Minimum: "0", Maximum: "255"},
		{Type: "string", Pattern: `^[0-9]+$|^(` + strings.Join(protocolNames()[1:], "|") + `)$`},
	}}
}

// portRange is one port or a range, as in 8000-8999.
type portRange struct{ overlay.PortRange }

func (*portRange) integral() {}

func (r *portRange) parse(text string) *problem {
	from, to, cut := strings.Cut(text, "-")
	if !cut {
		to = from
	}
	first, err := strconv.ParseUint(from, 10, 16)
	last, err2 := strconv.ParseUint(to, 10, 16)
	switch {
	case err != nil || err2 != nil:
		return &problem{fmt.Sprintf("%q is not a port or range of ports", text), "write 443 or 8000-8999; ports are 0 to 65535"}
	case last < first:
		return &problem{fmt.Sprintf("%s ends before it begins", text), fmt.Sprintf("write it %d-%d", last, first)}
	}
	r.First, r.Last = uint16(first), uint16(last)
	return nil
}

// JSONSchema is called by the reflector.
func (portRange) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		{Type: "integer", Minimum: "0", Maximum: "65535"},
		{Type: "string", Pattern: `^[0-9]+(-[0-9]+)?$`},
	}}
}
