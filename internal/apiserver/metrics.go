package apiserver

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/metrics"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
)

// counterMetrics are those that cost a few system calls, however much there is of what is counted.
func counterMetrics(e *State, p *metrics.Page) error {
	totals, err := e.DataPath.Flows.Totals()
	if err != nil {
		return err
	}
	drops, err := e.DataPath.Drops.Drops()
	if err != nil {
		return err
	}
	ports, err := e.DataPath.Counters.Ports()
	if err != nil {
		return err
	}
	teps, err := e.DataPath.Counters.TEPs()
	if err != nil {
		return err
	}
	readings, err := readPathReadings(e)
	if err != nil {
		return err
	}
	edgeMetrics(e, p, totals)
	flowCacheMetrics(e, p, totals)
	portMetrics(e, p, ports)
	interfaceMetrics(e, p)
	remoteMetrics(e, p, teps)
	pathMetrics(e, p, readings)
	bfdMetrics(p, readings)
	dropMetrics(p, drops)
	eventMetrics(p, totals)
	firewallMetrics(e, p)
	natMetrics(e, p)
	return tableUsageMetrics(e, p)
}

func edgeMetrics(e *State, p *metrics.Page, stats datapath.Stats) {
	p.Single(metrics.Gauge, "selvage_edge_info", "The edge and the version of its program; always 1.", 1,
		"edge", e.Config.Name, "version", e.Process.Version, "tep", e.Config.Underlay.TEP.String())
	p.Single(metrics.Gauge, "selvage_start_time_seconds", "When the edge's process started, in seconds since 1970.", uint64(e.Process.Started.Unix()))
	if stats.FDBUsed >= 0 {
		p.Single(metrics.Gauge, "selvage_fdb_entries", "MAC addresses in the forwarding database.", uint64(stats.FDBUsed))
	}
	p.Single(metrics.Gauge, "selvage_fdb_entries_limit", "MAC addresses that the forwarding database has room for.", uint64(e.Config.FDB.Size))
}

func flowCacheMetrics(e *State, p *metrics.Page, stats datapath.Stats) {
	const lookUps, entries, size, memory, raised = "selvage_flow_cache_lookups_total", "selvage_flow_cache_entries",
		"selvage_flow_cache_entries_limit", "selvage_flow_cache_memory_bytes", "selvage_flow_cache_alarm"
	p.Family(metrics.Counter, lookUps, "Lookups of packets in the flow cache, by result.")
	for _, event := range alarm.CacheEvents {
		if event.LookUp {
			p.Count(stats.Events[event.Name], "result", event.Name)
		}
	}
	p.Single(metrics.Counter, "selvage_flow_cache_evictions_total", "Decisions evicted by those of other flows; the kernel does not count tc's evictions.",
		stats.Events[api.EventEvicted], "cache", datapath.CacheTransit)
	each := func(name, help string, value func(datapath.Cache) uint64) {
		p.Family(metrics.Gauge, name, help)
		for _, c := range stats.Caches {
			p.Count(value(c), "cache", c.Name)
		}
	}
	p.Family(metrics.Gauge, entries, "Decisions in the cache.")
	for _, c := range stats.Caches {
		if c.Used >= 0 {
			p.Count(uint64(c.Used), "cache", c.Name)
		}
	}
	each(size, "Decisions that the cache has room for, on all cores.", func(c datapath.Cache) uint64 { return uint64(c.Size) })
	each(memory, "Memory of the cache.", func(c datapath.Cache) uint64 { return c.Bytes })
	p.Family(metrics.Gauge, raised, "1 while the flow cache is off, or active flows evict each other's decisions.")
	now, _ := e.Alarms.FlowCache.Alarm(e.Config.FlowCache)
	for _, kind := range []string{alarm.CacheOff, alarm.CacheThrashing} {
		p.Flag(now == kind, "kind", kind)
	}
}

func portMetrics(e *State, p *metrics.Page, counters map[string]datapath.PortCounters) {
	const up = "selvage_port_up"
	attachments := plan.Attachments(e.Config)
	p.Family(metrics.Gauge, up, "1 while the port's interface exists and is up.")
	for _, a := range attachments {
		p.Flag(portState(e.Host, a) == stateUp, "port", a.Name, "interface", a.Interface, "segment", a.Segment)
	}
	for _, m := range []struct {
		name, help string
		value      func(datapath.PortCounters) uint64
	}{
		{"selvage_port_receive_packets_total", "Packets from the port into the overlay.", func(c datapath.PortCounters) uint64 { return c.Rx.Packets }},
		{"selvage_port_receive_bytes_total", "Bytes from the port into the overlay.", func(c datapath.PortCounters) uint64 { return c.Rx.Bytes }},
		{"selvage_port_transmit_packets_total", "Packets from the overlay to the port.", func(c datapath.PortCounters) uint64 { return c.Tx.Packets }},
		{"selvage_port_transmit_bytes_total", "Bytes from the overlay to the port.", func(c datapath.PortCounters) uint64 { return c.Tx.Bytes }},
		{"selvage_port_drops_total", "Packets from the port that were dropped.", func(c datapath.PortCounters) uint64 { return c.Drops }},
	} {
		p.Family(metrics.Counter, m.name, m.help)
		for _, a := range attachments {
			p.Count(m.value(counters[a.Name]), "port", a.Name)
		}
	}
}

func interfaceMetrics(e *State, p *metrics.Page) {
	const hook = "selvage_interface_hook_info"
	p.Family(metrics.Gauge, hook, "Hook that takes transit packets at an underlay or uplink interface; always 1.")
	names := slices.Clone(e.Config.Underlay.Interfaces)
	for _, a := range plan.Attachments(e.Config) {
		if a.Router != "" {
			names = append(names, a.Interface)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if at, _ := transitHook(e, name); at != "" {
			p.Count(1, "interface", name, "hook", at)
		}
	}
}

func remoteMetrics(e *State, p *metrics.Page, counters map[netip.Addr]datapath.TEPCounters) {
	const up = "selvage_remote_up"
	remotes := plan.Remotes(e.Config)
	p.Family(metrics.Gauge, up, "1 while there is a route to the remote and its next hop's MAC address is known.")
	for _, remote := range remotes {
		p.Flag(tepState(e.Config, e.Host, remote) == stateResolved, "remote", remote.String())
	}
	for _, m := range []struct {
		name, help string
		value      func(datapath.TEPCounters) uint64
	}{
		{"selvage_remote_receive_packets_total", "Packets out of tunnels from the remote.", func(c datapath.TEPCounters) uint64 { return c.Rx.Packets }},
		{"selvage_remote_receive_bytes_total", "Bytes out of tunnels from the remote.", func(c datapath.TEPCounters) uint64 { return c.Rx.Bytes }},
		{"selvage_remote_transmit_packets_total", "Packets into tunnels to the remote.", func(c datapath.TEPCounters) uint64 { return c.Tx.Packets }},
		{"selvage_remote_transmit_bytes_total", "Bytes into tunnels to the remote.", func(c datapath.TEPCounters) uint64 { return c.Tx.Bytes }},
	} {
		p.Family(metrics.Counter, m.name, m.help)
		for _, remote := range remotes {
			p.Count(m.value(counters[remote]), "remote", remote.String())
		}
	}
}

func pathMetrics(e *State, p *metrics.Page, readings pathReadings) {
	var paths []api.PathInfo
	for _, remote := range plan.Remotes(e.Config) {
		paths = append(paths, pathInfos(e, remote, readings)...)
	}
	for _, m := range []struct {
		kind       metrics.Kind
		name, help string
		value      func(api.PathInfo) uint64
	}{
		{metrics.Gauge, "selvage_path_usable", "1 while packets may take the path from a TEP of the edge to one of a remote.",
			func(i api.PathInfo) uint64 { return flag(i.State == string(bfd.Up) || i.State == string(bfd.Unknown)) }},
		{metrics.Counter, "selvage_path_transmit_packets_total", "Packets into tunnels by the path.", func(i api.PathInfo) uint64 { return i.TxPackets }},
		{metrics.Counter, "selvage_path_transmit_bytes_total", "Bytes into tunnels by the path.", func(i api.PathInfo) uint64 { return i.TxBytes }},
	} {
		p.Family(m.kind, m.name, m.help)
		for _, i := range paths {
			labels := []string{"local", i.Local.String(), "remote", i.Remote.String()}
			if i.Weight > 0 { // of one of several next hops
				labels = append(labels, "via", overlay.Via{Addr: i.NextHop, Interface: i.Interface}.String())
			}
			p.Count(m.value(i), labels...)
		}
	}
	const reports = "selvage_path_mtu_reports_total"
	p.Family(metrics.Counter, reports, "ICMP messages that a tunnel packet was too big, by what became of them.")
	for _, o := range readings.Outcomes {
		p.Count(o.Times, "outcome", o.Name)
	}
}

// eventMetrics leaves out outcomes of look-ups, which have a metric of their own.
func eventMetrics(p *metrics.Page, stats datapath.Stats) {
	const name = "selvage_events_total"
	p.Family(metrics.Counter, name, "Other events that the data path counts.")
	for _, event := range slices.Sorted(maps.Keys(stats.Events)) {
		outcome := func(e api.EventInfo) bool { return e.Name == event && e.LookUp }
		if !slices.ContainsFunc(alarm.CacheEvents, outcome) {
			p.Count(stats.Events[event], "event", event)
		}
	}
}

// flag is 1 for what is true.
func flag(is bool) uint64 {
	if is {
		return 1
	}
	return 0
}
