package apiserver

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
)

// metricsType names the format of metrics: version 0.0.4 of Prometheus' text
// exposition format, which is UTF-8.
const metricsType = "text/plain; version=0.0.4; charset=utf-8"

// Kinds of metrics.
const counter, gauge, histogram = "counter", "gauge", "histogram"

// page is metrics in the making. The samples of a family follow its head.
type page struct{ bytes.Buffer }

var (
	helpText   = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelValue = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// family begins a metric.
func (p *page) family(kind, name, help string) {
	fmt.Fprintf(p, "# HELP %s %s\n# TYPE %s %s\n", name, helpText.Replace(help), name, kind)
}

// sample is one value of the family; labels are names and values in turn.
func (p *page) sample(name string, value uint64, labels ...string) {
	p.WriteString(name)
	for i := 0; i+1 < len(labels); i += 2 {
		open := ","
		if i == 0 {
			open = "{"
		}
		fmt.Fprintf(p, `%s%s="%s"`, open, labels[i], labelValue.Replace(labels[i+1]))
	}
	if len(labels) > 1 {
		p.WriteByte('}')
	}
	p.WriteByte(' ')
	p.WriteString(strconv.FormatUint(value, 10))
	p.WriteByte('\n')
}

// single is a family of one sample.
func (p *page) single(kind, name, help string, value uint64, labels ...string) {
	p.family(kind, name, help)
	p.sample(name, value, labels...)
}

// metricsHandler serves them.
func (d documents) metricsHandler(w http.ResponseWriter, r *http.Request) {
	if !isRead(w, r) {
		return
	}
	text, err := d.metrics()
	if err != nil {
		api.Answer(w, http.StatusInternalServerError, api.Refusal{Error: err.Error()})
		return
	}
	w.Header().Set("Content-Type", metricsType)
	_, _ = w.Write(text) // as in answer
}

// metrics are all that the edge counts. It costs what a status does.
func (d documents) metrics() ([]byte, error) {
	return read(d.o.Edge, "metrics", func(e *State) ([]byte, error) {
		stats, err := e.DataPath.Flows.Stats()
		if err != nil {
			return nil, err
		}
		drops, err := e.DataPath.Drops.Drops()
		if err != nil {
			return nil, err
		}
		ports, err := e.DataPath.Counters.Ports()
		if err != nil {
			return nil, err
		}
		teps, err := e.DataPath.Counters.TEPs()
		if err != nil {
			return nil, err
		}
		readings, err := readPathReadings(e)
		if err != nil {
			return nil, err
		}
		p := &page{}
		edgeMetrics(e, p, stats)
		flowCacheMetrics(e, p, stats)
		portMetrics(e, p, ports)
		interfaceMetrics(e, p)
		remoteMetrics(e, p, teps)
		pathMetrics(e, p, readings)
		dropMetrics(p, drops)
		if err := ownerDropMetrics(e, p); err != nil {
			return nil, err
		}
		if err := limitMetrics(e, p); err != nil {
			return nil, err
		}
		eventMetrics(p, stats)
		if err := firewallMetrics(e, p); err != nil {
			return nil, err
		}
		natMetrics(e, p)
		bgpMetrics(e, p)
		return p.Bytes(), nil
	})
}

func edgeMetrics(e *State, p *page, stats datapath.Stats) {
	p.single(gauge, "selvage_edge_info", "The edge and the version of its program; always 1.", 1,
		"edge", e.Config.Name, "version", e.Process.Version, "tep", e.Config.Underlay.TEP.String())
	p.single(gauge, "selvage_start_time_seconds", "When the edge's process started, in seconds since 1970.", uint64(e.Process.Started.Unix()))
	p.single(gauge, "selvage_fdb_entries", "MAC addresses in the forwarding database.", uint64(stats.FDBUsed))
	p.single(gauge, "selvage_fdb_entries_limit", "MAC addresses that the forwarding database has room for.", uint64(e.Config.FDB.Size))
}

func flowCacheMetrics(e *State, p *page, stats datapath.Stats) {
	const lookUps, entries, size, memory, raised = "selvage_flow_cache_lookups_total", "selvage_flow_cache_entries",
		"selvage_flow_cache_entries_limit", "selvage_flow_cache_memory_bytes", "selvage_flow_cache_alarm"
	p.family(counter, lookUps, "Lookups of packets in the flow cache, by result.")
	for _, event := range alarm.CacheEvents {
		if event.LookUp {
			p.sample(lookUps, stats.Events[event.Name], "result", event.Name)
		}
	}
	p.single(counter, "selvage_flow_cache_evictions_total", "Decisions evicted by those of other flows; the kernel does not count tc's evictions.",
		stats.Events[api.EventEvicted], "cache", datapath.CacheTransit)
	each := func(name, help string, value func(datapath.Cache) uint64) {
		p.family(gauge, name, help)
		for _, c := range stats.Caches {
			p.sample(name, value(c), "cache", c.Name)
		}
	}
	each(entries, "Decisions in the cache.", func(c datapath.Cache) uint64 { return uint64(c.Used) })
	each(size, "Decisions that the cache has room for, on all cores.", func(c datapath.Cache) uint64 { return uint64(c.Size) })
	each(memory, "Memory of the cache.", func(c datapath.Cache) uint64 { return c.Bytes })
	p.family(gauge, raised, "1 while the flow cache is off, or active flows evict each other's decisions.")
	now, _ := e.Alarms.FlowCache.Alarm(e.Config.FlowCache)
	for _, kind := range []string{alarm.CacheOff, alarm.CacheThrashing} {
		p.sample(raised, flag(now == kind), "kind", kind)
	}
}

func portMetrics(e *State, p *page, counters map[string]datapath.PortCounters) {
	const up = "selvage_port_up"
	attachments := plan.Attachments(e.Config)
	p.family(gauge, up, "1 while the port's interface exists and is up.")
	for _, a := range attachments {
		p.sample(up, flag(portState(e.Host, a) == stateUp), "port", a.Name, "interface", a.Interface, "segment", a.Segment)
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
		p.family(counter, m.name, m.help)
		for _, a := range attachments {
			p.sample(m.name, m.value(counters[a.Name]), "port", a.Name)
		}
	}
}

func interfaceMetrics(e *State, p *page) {
	const hook = "selvage_interface_hook_info"
	p.family(gauge, hook, "Hook that takes transit packets at an underlay or uplink interface; always 1.")
	names := slices.Clone(e.Config.Underlay.Interfaces)
	for _, a := range plan.Attachments(e.Config) {
		if a.Router != "" {
			names = append(names, a.Interface)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if at, _ := transitHook(e, name); at != "" {
			p.sample(hook, 1, "interface", name, "hook", at)
		}
	}
}

func remoteMetrics(e *State, p *page, counters map[netip.Addr]datapath.TEPCounters) {
	const up = "selvage_remote_up"
	remotes := plan.Remotes(e.Config)
	p.family(gauge, up, "1 while there is a route to the remote and its next hop's MAC address is known.")
	for _, remote := range remotes {
		p.sample(up, flag(tepState(e.Config, e.Host, remote) == stateResolved), "remote", remote.String())
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
		p.family(counter, m.name, m.help)
		for _, remote := range remotes {
			p.sample(m.name, m.value(counters[remote]), "remote", remote.String())
		}
	}
}

func pathMetrics(e *State, p *page, readings pathReadings) {
	var paths []api.PathInfo
	for _, remote := range plan.Remotes(e.Config) {
		paths = append(paths, pathInfos(e, remote, readings)...)
	}
	for _, m := range []struct {
		kind, name, help string
		value            func(api.PathInfo) uint64
	}{
		{gauge, "selvage_path_usable", "1 while packets may take the path from a TEP of the edge to one of a remote.",
			func(i api.PathInfo) uint64 { return flag(i.State == string(bfd.Up) || i.State == string(bfd.Unknown)) }},
		{counter, "selvage_path_transmit_packets_total", "Packets into tunnels by the path.", func(i api.PathInfo) uint64 { return i.TxPackets }},
		{counter, "selvage_path_transmit_bytes_total", "Bytes into tunnels by the path.", func(i api.PathInfo) uint64 { return i.TxBytes }},
	} {
		p.family(m.kind, m.name, m.help)
		for _, i := range paths {
			labels := []string{"local", i.Local.String(), "remote", i.Remote.String()}
			if i.Weight > 0 { // of one of several next hops
				labels = append(labels, "via", overlay.Via{Addr: i.NextHop, Interface: i.Interface}.String())
			}
			p.sample(m.name, m.value(i), labels...)
		}
	}
	const reports = "selvage_path_mtu_reports_total"
	p.family(counter, reports, "ICMP messages that a tunnel packet was too big, by what became of them.")
	for _, o := range readings.Outcomes {
		p.sample(reports, o.Times, "outcome", o.Name)
	}
}

// eventMetrics leaves out outcomes of look-ups, which have a metric of their own.
func eventMetrics(p *page, stats datapath.Stats) {
	const name = "selvage_events_total"
	p.family(counter, name, "Other events that the data path counts.")
	for _, event := range slices.Sorted(maps.Keys(stats.Events)) {
		outcome := func(e api.EventInfo) bool { return e.Name == event && e.LookUp }
		if !slices.ContainsFunc(alarm.CacheEvents, outcome) {
			p.sample(name, stats.Events[event], "event", event)
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
