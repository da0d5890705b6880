package config

import (
	"cmp"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/overlay"
)

// firewall turns a checked firewall into the model: rules in the order in which they are
// asked, with their services written out.
func (d *document) firewall(policies []policySource) *overlay.Firewall {
	fw := d.Spec.Firewall
	if fw == nil {
		return nil
	}
	m := &overlay.Firewall{
		Default:  overlay.Verdict(fw.Default),
		NonIP:    overlay.Verdict(fw.NonIP),
		Strict:   fw.Strict,
		Sizes:    overlay.ConnectionSizes{Connections: fw.Connections, HalfOpen: fw.HalfOpen},
		Timeouts: fw.Timeouts.model(),
		LogRate:  fw.LogRate,
	}
	for _, s := range d.Spec.Segments {
		if s.Firewall != "" {
			if m.Defaults == nil {
				m.Defaults = map[string]overlay.Verdict{}
			}
			m.Defaults[string(s.Name)] = overlay.Verdict(s.Firewall)
		}
	}
	var sections []*section
	services := map[string][]overlay.Service{}
	for _, p := range policies {
		for _, g := range p.Groups {
			m.Groups = append(m.Groups, overlay.Group{Name: g.Name.text, Members: models(g.Members)})
		}
		for _, s := range p.Services {
			services[s.Name.text] = each(s.Members, func(s service) overlay.Service { return s.model })
		}
		for i := range p.Sections {
			sections = append(sections, &p.Sections[i])
		}
	}
	slices.SortStableFunc(sections, func(a, b *section) int { return cmp.Compare(a.Priority, b.Priority) })
	for _, s := range sections {
		m.Rules = append(m.Rules, s.model(services)...)
	}
	return m
}

// model is the enabled rules of s, in their order.
func (s *section) model(services map[string][]overlay.Service) []overlay.Rule {
	var enabled []*entry
	for i := range s.Rules {
		if r := &s.Rules[i]; !r.Disabled {
			enabled = append(enabled, r)
		}
	}
	slices.SortStableFunc(enabled, func(a, b *entry) int { return cmp.Compare(a.Priority, b.Priority) })
	rules := make([]overlay.Rule, 0, len(enabled))
	for _, r := range enabled {
		rules = append(rules, overlay.Rule{
			Section: s.Name.text, Name: r.Name.text,
			Verdict: overlay.Verdict(r.Action), Direction: overlay.Direction(r.Direction),
			From: models(r.From), To: models(r.To), AppliedTo: models(r.AppliedTo),
			Services: resolve(r.Services, services),
			Log:      r.Log, Comment: r.Comment,
		})
	}
	return rules
}

// models is nil for any.
func models(list []groupMember) []overlay.Member {
	if len(list) == 0 || list[0].any {
		return nil
	}
	out := make([]overlay.Member, len(list))
	for i := range list {
		out[i] = list[i].model
	}
	return out
}

// resolve is nil for any.
func resolve(list []service, named map[string][]overlay.Service) []overlay.Service {
	if len(list) == 0 || list[0].any {
		return nil
	}
	out := make([]overlay.Service, 0, len(list))
	for i := range list {
		if s := &list[i]; s.name != "" {
			out = append(out, named[s.name]...)
		} else {
			out = append(out, s.model)
		}
	}
	return out
}

func (t timeouts) model() overlay.Timeouts {
	return overlay.Timeouts{
		Opening:     time.Duration(t.Opening),
		Established: time.Duration(t.Established),
		HalfClosed:  time.Duration(t.HalfClosed),
		TimeWait:    time.Duration(t.TimeWait),
		Closed:      time.Duration(t.Closed),
		UDP:         time.Duration(t.UDP),
		UDPReplied:  time.Duration(t.UDPReplied),
		UDPStream:   time.Duration(t.UDPStream),
		ICMP:        time.Duration(t.ICMP),
	}
}
