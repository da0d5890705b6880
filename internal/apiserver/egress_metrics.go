package apiserver

import (
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/metrics"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
)

// natMetrics has nothing to say where nothing is translated. It costs no walk over the
// sessions: what is counted is of the last sweep.
func natMetrics(e *State, p *metrics.Page) {
	if e.Config.Egress == nil {
		return
	}
	stateMetrics(p, "selvage_nat_sessions", "Connections whose addresses are translated, by state.", e.NAT.GCStats.States)
	p.Single(metrics.Gauge, "selvage_nat_replicas", "Of these, those that another gateway made and uses.", uint64(e.NAT.GCStats.Replicas))
	p.Single(metrics.Gauge, "selvage_nat_mappings", "Ports that are held for all peers.", uint64(e.NAT.GCStats.Mappings))
	p.Single(metrics.Gauge, "selvage_nat_alarms", "Alarms of translation that are raised.", uint64(len(e.NAT.Problems)))
	p.Single(metrics.Counter, "selvage_nat_log_lost_total", "Lines of the log of translations that were over the rate limit and not written.", e.Replication.LogLost())
	tableMetrics(p, "selvage_nat", "the tables of translation", e.DataPath.Egress.NATTables(e.NAT.GCStats))
	portUsageMetrics(e, p)
	if len(e.Config.Egress.Gateways) > 0 {
		gatewayMetrics(e, p)
		replicationMetrics(e, p)
	}
}

// portUsageMetrics is of the fullest alone: each would be a series for ever.
func portUsageMetrics(e *State, p *metrics.Page) {
	used, size := 0, 0
	if len(e.NAT.Fullest) > 0 {
		used, size = e.NAT.Fullest[0].Used, e.NAT.Fullest[0].Size
	}
	p.Single(metrics.Gauge, "selvage_nat_ports_used", "Ports in use of the egress address and destination that have the fewest left.", uint64(used))
	p.Single(metrics.Gauge, "selvage_nat_ports_limit", "Ports that these have.", uint64(size))
}

func gatewayMetrics(e *State, p *metrics.Page) {
	v := e.Gateways.Overview()
	const state, serving = "selvage_egress_gateway_state", "selvage_egress_gateways_serving"
	p.Family(metrics.Gauge, state, "State of a gateway of egress policies; 1 for the current one.")
	for _, g := range e.Config.Egress.Gateways {
		for _, m := range g.Members {
			for _, is := range []nat.State{nat.Serving, nat.Draining, nat.Gone} {
				p.Flag(v.States[m].State == is, "group", g.Name, "gateway", m.String(), "state", is.String())
			}
		}
	}
	p.Family(metrics.Gauge, serving, "Gateways of the group that serve.")
	for _, g := range e.Config.Egress.Gateways {
		p.Count(servingOf(g, v.States), "group", g.Name)
	}
	p.Single(metrics.Gauge, "selvage_egress_addresses_owned", "Egress addresses that this edge answers for.", uint64(v.Owned))
	p.Single(metrics.Counter, "selvage_egress_gateway_state_changes_total", "Changes of gateways' states that this edge acted on.", uint64(v.Changes))
}

func servingOf(g overlay.GatewayGroup, all map[netip.Addr]gateway.Status) uint64 {
	return uint64(len(slices.DeleteFunc(slices.Clone(g.Members), func(m netip.Addr) bool { return all[m].State != nat.Serving })))
}

func replicationMetrics(e *State, p *metrics.Page) {
	links := e.Replication.Info(e.Config)
	if len(links) == 0 {
		return
	}
	for _, m := range []struct {
		kind       metrics.Kind
		name, help string
		value      func(api.ReplicationInfo) uint64
	}{
		{metrics.Gauge, "selvage_replication_up", "1 while sessions are exchanged with the other gateway.", func(r api.ReplicationInfo) uint64 { return flag(r.Connected) }},
		{metrics.Gauge, "selvage_replication_synced", "1 while all sessions of the other gateway are known here.", func(r api.ReplicationInfo) uint64 { return flag(r.Synced) }},
		{metrics.Counter, "selvage_replication_sent_records_total", "Records of sessions that were sent.", func(r api.ReplicationInfo) uint64 { return r.Sent }},
		{metrics.Counter, "selvage_replication_received_records_total", "Records of sessions that were received.", func(r api.ReplicationInfo) uint64 { return r.Received }},
		{metrics.Counter, "selvage_replication_conflicts_total", "Received records that conflict with local sessions.", func(r api.ReplicationInfo) uint64 { return r.Conflicts }},
		{metrics.Counter, "selvage_replication_resyncs_total", "Connections that were closed because the other end was too slow or records were lost.",
			func(r api.ReplicationInfo) uint64 { return r.Resyncs }},
	} {
		p.Family(m.kind, m.name, m.help)
		for _, r := range links {
			p.Count(m.value(r), "gateway", r.Gateway.String())
		}
	}
	p.Family(metrics.Counter, "selvage_replication_refused_total", "Connections of replication that were refused, by reason.")
	for _, r := range e.Replication.Refused() {
		p.Count(r.Connections, "reason", r.Why)
	}
}
