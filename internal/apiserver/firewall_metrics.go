package apiserver

import (
	"maps"
	"slices"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/metrics"
)

// maxRuleSeries is with how many rules each has metrics of its own. A collector pays for
// each series for ever, so larger policies have one a section.
const maxRuleSeries = 500

// firewallMetrics has nothing to say where there is none.
func firewallMetrics(e *State, p *metrics.Page) {
	if e.Config.Firewall == nil {
		return
	}
	sessionMetrics(p, e.Alarms.Firewall)
	tableMetrics(p, "selvage_firewall", "the firewall's tables", e.DataPath.Firewall.FirewallTables(e.Alarms.Firewall.GCStats))
}

// ruleMetricsOf takes as long as there are rules.
func ruleMetricsOf(e *State, p *metrics.Page) error {
	if e.Config.Firewall == nil {
		return nil
	}
	rules, err := e.DataPath.Firewall.Rules()
	if err == nil {
		ruleMetrics(p, rules)
	}
	return err
}

func sessionMetrics(p *metrics.Page, g alarm.FirewallReading) {
	const halfOpen, alarm = "selvage_conntrack_half_open_entries", "selvage_firewall_alarms"
	stateMetrics(p, "selvage_conntrack_entries", "Connections that the firewall tracks, by state.", g.GCStats.States)
	p.Family(metrics.Gauge, halfOpen, "Half-open connections, of ports that have any.")
	for _, port := range slices.Sorted(maps.Keys(g.GCStats.HalfOpens)) {
		p.Count(uint64(g.GCStats.HalfOpens[port].In+g.GCStats.HalfOpens[port].Out), "port", port)
	}
	p.Single(metrics.Gauge, alarm, "Alarms of the firewall that are raised.", uint64(len(g.Problems)))
}

// tableMetrics are of the tables of something.
func tableMetrics(p *metrics.Page, prefix, of string, tables []datapath.Table) {
	for _, m := range []struct {
		name, help string
		value      func(datapath.Table) int
	}{
		{"entries", "Entries in " + of + ".", func(t datapath.Table) int { return t.Used }},
		{"entries_limit", "Entries that " + of + " have room for.", func(t datapath.Table) int { return t.Size }},
		{"memory_bytes", "Memory of " + of + ".", func(t datapath.Table) int { return int(t.Bytes) }},
	} {
		name := prefix + "_table_" + m.name
		p.Family(metrics.Gauge, name, m.help)
		for _, t := range tables {
			if n := m.value(t); n >= 0 {
				p.Count(uint64(n), "table", t.Name)
			}
		}
	}
}

// stateMetrics are connections by state.
func stateMetrics(p *metrics.Page, name, help string, states map[string]int) {
	p.Family(metrics.Gauge, name, help)
	for _, state := range datapath.StateNames {
		p.Count(uint64(states[state]), "state", state)
	}
}

func ruleMetrics(p *metrics.Page, rules []datapath.RuleCounters) {
	if len(rules) > maxRuleSeries {
		rules = bySection(rules)
	}
	for _, m := range []struct {
		name, help string
		value      func(datapath.RuleCounters) uint64
	}{
		{"selvage_firewall_rule_connections_total", "Connections that the rule decided about; of large policies by section.", func(r datapath.RuleCounters) uint64 { return r.Connections }},
		{"selvage_firewall_rule_packets_total", "Packets that the rule decided about.", func(r datapath.RuleCounters) uint64 { return r.Packets }},
		{"selvage_firewall_rule_bytes_total", "Bytes that the rule decided about.", func(r datapath.RuleCounters) uint64 { return r.Bytes }},
	} {
		p.Family(metrics.Counter, m.name, m.help)
		for _, r := range rules {
			p.Count(m.value(r), "section", r.Section, "rule", r.Name)
		}
	}
}

// bySection sums the rules up, in their order. The sums have no name.
func bySection(rules []datapath.RuleCounters) (sums []datapath.RuleCounters) {
	index := make(map[string]int)
	for _, r := range rules {
		i, ok := index[r.Section]
		if !ok {
			i = len(sums)
			index[r.Section] = i
			sums = append(sums, datapath.RuleCounters{RuleName: datapath.RuleName{Section: r.Section}})
		}
		sums[i].Connections += r.Connections
		sums[i].Packets += r.Packets
		sums[i].Bytes += r.Bytes
	}
	return sums
}
