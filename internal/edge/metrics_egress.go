package edge

import (
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
)

// natMetrics has nothing to say where nothing is translated. It costs no walk over the
// bindings: what is counted is of the last sweep.
func (e *edge) natMetrics(p *page) {
	if e.config.Egress == nil {
		return
	}
	const bindings = "selvage_nat_bindings"
	p.family(gauge, bindings, "Connections whose addresses are translated, by state.")
	for _, state := range datapath.StateNames {
		p.sample(bindings, uint64(e.natGuard.census.States[state]), "state", state)
	}
	p.single(gauge, "selvage_nat_replicas", "Of these, those that another gateway made and uses.", uint64(e.natGuard.census.Replicas))
	p.single(gauge, "selvage_nat_mappings", "Ports that are held for all peers.", uint64(e.natGuard.census.Mappings))
	p.single(gauge, "selvage_nat_alarms", "Alarms of translation that are raised.", uint64(len(e.natGuard.problems)))
	p.single(counter, "selvage_nat_log_lost_total", "Lines of the log of translations that were not written because of their rate.", e.logLost.Load())
	e.natTableMetrics(p)
	e.pressureMetrics(p)
	if len(e.config.Egress.Gateways) > 0 {
		e.gatewayMetrics(p)
		e.replicationMetrics(p)
	}
}

func (e *edge) natTableMetrics(p *page) {
	tables := e.dp.NATTables(e.natGuard.census)
	for _, m := range []struct {
		name, help string
		value      func(datapath.Table) uint64
	}{
		{"selvage_nat_table_entries", "Entries in the tables of translation.", func(t datapath.Table) uint64 { return uint64(t.Used) }},
		{"selvage_nat_table_size", "Entries that the tables of translation have room for.", func(t datapath.Table) uint64 { return uint64(t.Size) }},
		{"selvage_nat_table_memory_bytes", "Memory of the tables of translation.", func(t datapath.Table) uint64 { return t.Bytes }},
	} {
		p.family(gauge, m.name, m.help)
		for _, t := range tables {
			if t.Used >= 0 || m.name != "selvage_nat_table_entries" {
				p.sample(m.name, m.value(t), "table", t.Name)
			}
		}
	}
}

// pressureMetrics is of the fullest alone: each would be a series for ever.
func (e *edge) pressureMetrics(p *page) {
	used, size := 0, 0
	if len(e.natGuard.pressures) > 0 {
		used, size = e.natGuard.pressures[0].Used, e.natGuard.pressures[0].Size
	}
	p.single(gauge, "selvage_nat_pressure_ports_used", "Ports in use of the egress address and destination that have the fewest left.", uint64(used))
	p.single(gauge, "selvage_nat_pressure_ports", "Ports that these have.", uint64(size))
}

func (e *edge) gatewayMetrics(p *page) {
	s := &e.steering
	s.mu.Lock()
	all, owned, failovers := s.gate.judged, len(s.gate.owned), s.gate.last
	s.mu.Unlock()
	const standing, serving = "selvage_gateway_standing", "selvage_gateways_serving"
	p.family(gauge, standing, "How a gateway of egress policies stands; 1 for the standing that it has.")
	for _, g := range e.config.Egress.Gateways {
		for _, m := range g.Members {
			for _, is := range []nat.Standing{nat.Serving, nat.Draining, nat.Gone} {
				p.sample(standing, flag(all[m].Standing == is), "group", g.Name, "gateway", m.String(), "standing", is.String())
			}
		}
	}
	p.family(gauge, serving, "Gateways of the group that serve.")
	for _, g := range e.config.Egress.Gateways {
		p.sample(serving, servingOf(g, all), "group", g.Name)
	}
	p.single(gauge, "selvage_egress_addresses_owned", "Egress addresses that this edge answers for.", uint64(owned))
	p.single(counter, "selvage_gateway_changes_total", "Changes of gateways' standings that this edge obeyed.", uint64(failovers))
}

func servingOf(g overlay.GatewayGroup, all map[netip.Addr]judged) uint64 {
	return uint64(len(slices.DeleteFunc(slices.Clone(g.Members), func(m netip.Addr) bool { return all[m].Standing != nat.Serving })))
}

func (e *edge) replicationMetrics(p *page) {
	links := e.replicationInfos()
	if len(links) == 0 {
		return
	}
	for _, m := range []struct {
		kind, name, help string
		value            func(ReplicationInfo) uint64
	}{
		{gauge, "selvage_replication_up", "1 while bindings are exchanged with the other gateway.", func(r ReplicationInfo) uint64 { return flag(r.Connected) }},
		{gauge, "selvage_replication_synced", "1 while all bindings of the other gateway are known here.", func(r ReplicationInfo) uint64 { return flag(r.Synced) }},
		{counter, "selvage_replication_sent_records_total", "Records of bindings that were sent.", func(r ReplicationInfo) uint64 { return r.Sent }},
		{counter, "selvage_replication_received_records_total", "Records of bindings that came.", func(r ReplicationInfo) uint64 { return r.Received }},
		{counter, "selvage_replication_conflicts_total", "Records that did not fit what is here.", func(r ReplicationInfo) uint64 { return r.Conflicts }},
		{counter, "selvage_replication_resyncs_total", "Connections that were cut because the other end was too slow or something was missed.",
			func(r ReplicationInfo) uint64 { return r.Resyncs }},
	} {
		p.family(m.kind, m.name, m.help)
		for _, r := range links {
			p.sample(m.name, m.value(r), "gateway", r.Gateway.String())
		}
	}
}
