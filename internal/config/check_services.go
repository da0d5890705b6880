package config

import (
	"fmt"

	"github.com/selvage/selvage/internal/overlay"
)

// serviceChecker checks named services, and what refers to them.
type serviceChecker struct {
	declared declared
	hints    *suggester
	names    nameSet
}

func (c *serviceChecker) collect(policies []policySource) {
	var list []string
	first := map[string]Position{}
	complete := c.declared.wholePolicy(policies, "services")
	for _, s := range policies {
		for i := range s.Services {
			n, path := &s.Services[i], fmt.Sprintf("services[%d]", i)
			name := n.Name.text
			complete = complete && name != ""
			_, isProtocol := protocols[name]
			switch at, twice := first[name]; {
			case name == "":
			case isProtocol || name == ipProtocol:
				s.complain(n.Name.located, path+".name", fmt.Sprintf("%q is a protocol", name), "choose another name")
			case twice:
				s.twice(n.Name, path, "service", at)
			default:
				first[name] = s.place(n.Name.located)
				list = append(list, name)
			}
			for k := range n.Members {
				m, at := &n.Members[k], func() string { return fmt.Sprintf("%s.members[%d]", path, k) }
				if m.any || m.name != "" {
					s.complain(m.located, at(), "a named service can contain only protocols", "write them out, as in tcp/443")
					continue
				}
				c.service(s, m, at)
			}
		}
	}
	c.names = newNames(list, complete)
}

// service checks one, and makes a service of the model of its form.
func (c *serviceChecker) service(s policySource, v *service, path func() string) {
	if c.names.lacks(v.name) {
		s.complain(v.located, path(), fmt.Sprintf("there is no service %q", v.name), c.hints.suggest(v.name, c.names, "named services"))
	}
	w := v.written
	if w == nil || w.Protocol == 0 {
		return // a word, or a form without it
	}
	v.model = w.model()
	number := v.model.Protocol
	switch {
	case len(w.Ports)+len(w.SourcePorts) > 0 && !hasPorts(number):
		s.complain(v.located, path(), fmt.Sprintf("protocol %d has no ports", number), "ports and sourcePorts are for tcp, udp and sctp")
	case (w.Type != nil || w.Code != nil) && !isICMP(number):
		s.complain(v.located, path(), fmt.Sprintf("protocol %d has no ICMP type", number), "type and code are for icmp and icmpv6")
	case w.Code != nil && w.Type == nil && !s.file.failedIn(s.prefix+path(), "type"):
		s.complain(v.located, path(), "an ICMP code has a meaning only with a type", "add the type")
	}
}

func (w *serviceForm) model() overlay.Service {
	m := overlay.Service{Protocol: int(w.Protocol - 1), ICMPType: -1, ICMPCode: -1}
	for _, r := range w.Ports {
		m.Ports = append(m.Ports, r.PortRange)
	}
	for _, r := range w.SourcePorts {
		m.SourcePorts = append(m.SourcePorts, r.PortRange)
	}
	if w.Type != nil {
		m.ICMPType = int(*w.Type)
	}
	if w.Code != nil {
		m.ICMPCode = int(*w.Code)
	}
	return m
}
