package apiserver

import (
	"cmp"
	"slices"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/metrics"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// tableUsageMetrics are how full tables are.
func tableUsageMetrics(e *State, p *metrics.Page) error {
	tables, err := e.DataPath.Flows.Tables()
	if err != nil {
		return err
	}
	if fw := e.Config.Firewall; fw != nil {
		c := e.Alarms.Firewall.GCStats
		tables = append(tables,
			datapath.Table{Name: datapath.TableConnections, Used: c.Connections, Size: int(fw.Sizes.Connections)},
			datapath.Table{Name: datapath.TableHalfOpen, Used: c.Waiting, Size: int(fw.Sizes.HalfOpen)})
	}
	if eg := e.Config.Egress; eg != nil {
		tables = append(tables, datapath.Table{Name: datapath.TableNATSessions, Used: e.NAT.GCStats.Sessions + e.NAT.GCStats.Mappings, Size: int(eg.NATSessions)})
	}
	p.Family(metrics.Gauge, "selvage_table_entries", "Entries of the table, as of the last count.")
	for _, t := range tables {
		if t.Used >= 0 {
			p.Count(uint64(t.Used), "table", t.Name)
		}
	}
	p.Family(metrics.Gauge, "selvage_table_entries_limit", "Entries that the table has room for.")
	for _, t := range tables {
		p.Count(uint64(t.Size), "table", t.Name)
	}
	return nil
}

// bfdMetrics are of sessions, where paths are watched over.
func bfdMetrics(p *metrics.Page, readings pathReadings) {
	if readings.Lives == nil {
		return
	}
	pairs := make([]overlay.Pair, 0, len(readings.Lives))
	for pair := range readings.Lives {
		pairs = append(pairs, pair)
	}
	slices.SortFunc(pairs, func(a, b overlay.Pair) int {
		return cmp.Or(a.Local.Compare(b.Local), a.Remote.Compare(b.Remote), cmp.Compare(a.Via.String(), b.Via.String()))
	})
	labels := func(pair overlay.Pair) []string {
		list := []string{"local", pair.Local.String(), "remote", pair.Remote.String()}
		if pair.Via != (overlay.Via{}) {
			list = append(list, "via", pair.Via.String())
		}
		return list
	}
	p.Family(metrics.Gauge, "selvage_bfd_session_up", "1 while the BFD session is up.")
	for _, pair := range pairs {
		p.Flag(readings.Lives[pair].State == bfd.Up, labels(pair)...)
	}
	p.Family(metrics.Counter, "selvage_bfd_session_flaps_total", "Failures of the BFD session.")
	for _, pair := range pairs {
		p.Count(readings.Lives[pair].Flaps, labels(pair)...)
	}
}

// problemMetrics are how many problems there are, by severity.
func problemMetrics(e *State, p *metrics.Page) error {
	totals, err := e.DataPath.Flows.Totals()
	if err != nil {
		return err
	}
	counts := make(map[problem.Severity]uint64)
	for _, found := range slices.Concat(e.Problems(), cheapProblems(e, totals.FDBUsed)) {
		counts[found.Severity]++
	}
	if missing, err := e.Alarms.NextHops.AreMissing(e.DataPath.Drops); err == nil && missing {
		counts[problem.SeverityWarning]++
	}
	p.Family(metrics.Gauge, "selvage_problems", "Problems that selvage status lists, by severity.")
	for _, severity := range severities {
		p.Count(counts[severity], "severity", string(severity))
	}
	return nil
}
