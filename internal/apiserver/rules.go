package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
	"github.com/selvage/selvage/internal/problem"
)

func (d documents) rules() ([]api.RuleInfo, error) {
	var now Rules
	counters, err := read(d.o.Edge, "rules", func(e *State) ([]datapath.RuleCounters, error) {
		if now = e.Rules; now.Firewall == nil {
			return nil, noFirewall()
		}
		return e.DataPath.Firewall.Rules()
	})
	if err != nil {
		return nil, err
	}
	rules, shadows := now.Firewall.Rules(), shadowsByRule(now.Shadows())
	if !countersOf(counters, rules) {
		return nil, errors.New("the data path does not have the policy yet: try again when `selvage status` has no problems")
	}
	list := make([]api.RuleInfo, len(rules))
	for i, r := range rules {
		c := counters[i]
		list[i] = api.RuleInfo{
			Order: i + 1, Section: r.Section, Name: r.Name, Action: string(r.Verdict), Log: r.Log, Matches: r.Text,
			Connections: c.Connections, Packets: c.Packets, Bytes: c.Bytes, Unused: !c.Hit,
		}
		if c.Hit {
			idle := seconds(c.IdleNS)
			list[i].LastHit = &idle
		}
		if s, ok := shadows[i]; ok {
			list[i].ShadowedBy, list[i].Duplicate = rules[s.By].Section+"/"+rules[s.By].Name, s.Duplicate
		}
	}
	return list, nil
}

func shadowsByRule(list []policy.Shadow) map[int]policy.Shadow {
	all := make(map[int]policy.Shadow, len(list))
	for _, s := range list {
		all[s.Rule] = s
	}
	return all
}

func (d documents) firewall() (api.FirewallInfo, error) {
	return read(d.o.Edge, "firewall", func(e *State) (api.FirewallInfo, error) {
		fw := e.Config.Firewall
		if fw == nil {
			return api.FirewallInfo{}, noFirewall()
		}
		events, err := e.DataPath.Drops.Events()
		if err != nil {
			return api.FirewallInfo{}, err
		}
		info := api.FirewallInfo{
			Rules: len(e.Rules.Firewall.Rules()), Default: string(fw.Default), Strict: fw.Strict, SweptAt: e.Alarms.Firewall.SweptAt,
			States: stateInfos(e.Alarms.Firewall.GCStats.States), Tables: tableInfos(e.DataPath.Firewall.FirewallTables(e.Alarms.Firewall.GCStats)), HalfOpen: halfOpenInfos(e.Alarms.Firewall.GCStats.HalfOpens),
			Events: eventInfos(firewallEvents, events), Problems: problem.Fold(e.Alarms.Firewall.Problems),
		}
		return info, nil
	})
}

// halfOpenInfos are those of ports, with their limits.
func halfOpenInfos(ports map[string]datapath.HalfOpen) map[string]api.HalfOpenInfo {
	infos := make(map[string]api.HalfOpenInfo, len(ports))
	for name, n := range ports {
		infos[name] = api.HalfOpenInfo(n)
	}
	return infos
}

// firewallEvents are the events of bpf/core/reasons.h that are about the firewall. A test
// compares names and texts.
var firewallEvents = []api.EventInfo{
	{Name: "conntrack-opened", Description: "connections that the firewall allowed to open"},
	{Name: "conntrack-answered", Description: "connections that were answered"},
	{Name: alarm.EventConnFull, Description: "answered connections kept as half-open because the table is full"},
	{Name: "conntrack-evicted", Description: "connections evicted for newer ones of the same port"},
	{Name: "conntrack-reevaluated", Description: "connections evaluated against a new policy"},
	{Name: "conntrack-revoked", Description: "connections that a new policy no longer allows"},
	{Name: alarm.EventLogLost, Description: "log lines of the firewall not written because of their rate"},
}

// whatIfMost bounds the body of a question: a policy of MaxRules rules has less.
const whatIfMost = 256 << 20

// whatIfHandler serves the one document that is asked for by POST, since a policy does not
// fit a URL. It changes nothing either.
func (d documents) whatIfHandler(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		api.Answer(w, http.StatusMethodNotAllowed, api.Refusal{Error: r.Method + " is not allowed here, POST a policy"})
		return
	}
	var q api.WhatIfQuery
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, whatIfMost)).Decode(&q); err != nil {
		api.Answer(w, http.StatusBadRequest, api.Refusal{Error: fmt.Sprintf("what-if: %v", err)})
		return
	}
	document, err := d.whatIf(q)
	reply(w, document, err)
}

// whatIf asks a policy about the opening of each session that there is now.
func (d documents) whatIf(q api.WhatIfQuery) (api.WhatIfInfo, error) {
	info := api.WhatIfInfo{Rules: []api.WhatIfRule{}, Sessions: []api.SessionInfo{}}
	var next *policy.Policy
	if q.Firewall != nil {
		var err error
		if next, err = policy.Compile(*q.Firewall, q.Places); err != nil {
			return info, api.BadRequest{Err: err}
		}
	}
	places := make(map[string]bool, len(q.Places))
	for _, p := range q.Places {
		places[p.Name] = true
	}
	cut := make(map[cutter]int)
	_, err := read(d.o.Edge, "what-if", func(e *State) (struct{}, error) {
		if e.Config.Firewall == nil {
			return struct{}{}, noFirewall()
		}
		return struct{}{}, e.DataPath.Firewall.EachSession(func(s *datapath.Session) bool {
			info.Total++
			by, allowed := wouldAllow(next, places, s)
			if allowed {
				return true
			}
			info.Cut++
			cut[by]++
			if len(info.Sessions) < q.Limit {
				session := sessionInfo(s)
				session.Why = by.text(next)
				info.Sessions = append(info.Sessions, session)
			}
			return true
		})
	})
	for _, by := range slices.Sorted(maps.Keys(cut)) {
		info.Rules = append(info.Rules, api.WhatIfRule{By: by.text(next), Sessions: cut[by]})
	}
	return info, err
}

// cutter is what would end a session: a rule by its index, or cutByPort.
type cutter int

const cutByPort cutter = -1

func (c cutter) text(p *policy.Policy) string {
	if c == cutByPort {
		return "port is not in the new configuration"
	}
	r := p.Rules()[c]
	return r.Section + "/" + r.Name
}

// wouldAllow says whether p, nil for no firewall, would let the session go on, and what
// would not.
func wouldAllow(p *policy.Policy, places map[string]bool, s *datapath.Session) (by cutter, allowed bool) {
	if !places[s.Port] {
		return cutByPort, false
	}
	if p == nil {
		return 0, true
	}
	j := p.Evaluate(opening(s))
	return cutter(j.Rule), j.Verdict == overlay.Allow
}

// opening is the first packet of a session, as far as it is still known.
func opening(s *datapath.Session) policy.Query {
	o := policy.Query{
		Src: s.Src, Dst: s.Dst, SrcMAC: s.SrcMAC, DstMAC: s.DstMAC, Place: s.Port, Direction: s.Direction, Protocol: s.Proto,
		SrcPlace: s.PeerPort, SrcSegment: s.PeerSegment, DstPlace: s.Port, DstSegment: s.Segment,
	}
	if s.Direction == overlay.Out {
		o.SrcPlace, o.SrcSegment, o.DstPlace, o.DstSegment = o.DstPlace, o.DstSegment, o.SrcPlace, o.SrcSegment
	}
	switch s.Proto {
	case unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_SCTP:
		o.SrcPort, o.DstPort, o.Ported = s.SrcPort, s.DstPort, true
	case unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6:
		o.DstPort, o.Ported = icmpKind(s), true
	}
	return o
}

// icmpKind is type << 8 | code (RFC 792, RFC 4443).
func icmpKind(s *datapath.Session) uint16 {
	const echo, echo6 = 8, 128
	switch {
	case s.Echo && s.Proto == unix.IPPROTO_ICMP:
		return echo << 8
	case s.Echo:
		return echo6 << 8
	}
	return s.DstPort
}

// countersOf is whether the counters are those of the rules: until a policy is in force, the
// data path has those of the one before.
func countersOf(counters []datapath.RuleCounters, rules []policy.Rule) bool {
	return slices.EqualFunc(counters, rules, func(c datapath.RuleCounters, r policy.Rule) bool {
		return c.Section == r.Section && c.Name == r.Name
	})
}
