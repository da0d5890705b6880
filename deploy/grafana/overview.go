package grafana

// toEdge leads from a table of edges to the dashboard of one.
var toEdge = []Link{{"This edge", "/d/selvage-edge?var-datasource=${datasource}&var-edge=${__data.fields.Address}&${__url_time_range}"}}

func overview() Dashboard {
	return Dashboard{
		Name: "overview", Title: "Selvage / Overview",
		Description: "All edges at a glance: is anything wrong, where, and which table fills up first.",
		Rows: []Row{
			{"Is anything wrong?", wrong()},
			{"Edges", edges()},
			{"Traffic", traffic()},
			{"Which table fills up first?", fullest()},
		},
	}
}

func wrong() []Panel {
	return []Panel{
		{Kind: Stat, Title: "Edges that answer", Width: 3, Unit: "short",
			Description: "Edges that answer the scrape. The data plane of an edge that does not answer goes on: see the run-book, \"The edge process is dead\".",
			Queries:     []Query{{`count(selvage_edge_info{` + chosen + `})`, "", ""}}},
		{Kind: Stat, Title: "Edges without an answer", Width: 3, Unit: "short", Bad: 1,
			Description: "Targets of the jobs that do not answer. Look at the process on that host: systemctl status selvage@NAME.",
			Queries:     []Query{{`count(up{job=~"$job"} == 0) or vector(0)`, "", ""}}},
		{Kind: Stat, Title: "Alerts", Width: 3, Unit: "short", Bad: 1,
			Description: "Alerts of deploy/prometheus/alerts.yaml that fire. The table below names them; each links to its section of the run-book.",
			Queries:     []Query{{`count(ALERTS{alertname=~"Selvage.+", alertstate="firing"}) or vector(0)`, "", ""}}},
		{Kind: Stat, Title: "Edges with errors", Width: 3, Unit: "short", Bad: 1,
			Description: "Edges that lose packets, or whose configuration is not in force. selvage status names each problem and says what to do.",
			Queries:     []Query{{`count(selvage_problems{` + chosen + `, severity="error"} > 0) or vector(0)`, "", ""}}},
		{Kind: Stat, Title: "Ports down", Width: 3, Unit: "short", Bad: 1,
			Description: "Ports whose interface is down or absent. A guest that was shut down is no fault; else look at the interface.",
			Queries:     []Query{{`count(selvage_port_up{` + chosen + `} == 0) or vector(0)`, "", ""}}},
		{Kind: Stat, Title: "Remotes unreachable", Width: 3, Unit: "short", Bad: 1,
			Description: "Remotes without a route or without the MAC address of the next hop. Look at the underlay: selvage teps.",
			Queries:     []Query{{`count(selvage_remote_up{` + chosen + `} == 0) or vector(0)`, "", ""}}},
		{Kind: Stat, Title: "BGP sessions down", Width: 3, Unit: "short", Bad: 1,
			Description: "Neighbours without a session. Routes of a lost session stay in use as stale for a while: selvage bgp.",
			Queries:     []Query{{`count(selvage_bgp_neighbour_up{` + chosen + `} == 0) or vector(0)`, "", ""}}},
		{Kind: Stat, Title: "Packets dropped", Width: 3, Unit: "percentunit", Bad: 0.01,
			Description: "Part of the received packets that is dropped, whatever the reason. Above one per cent look at the reasons on the dashboard of the edge.",
			Queries:     []Query{{droppedRatio, "", ""}}},
	}
}

func edges() []Panel {
	return []Panel{
		{Kind: Table, Title: "Edges", Width: 24,
			Description: "One line for each edge. Sort by a column to find the one that is worst; its name leads to its own dashboard.",
			Columns:     []Column{{"edge", "Edge"}, {"instance", "Address"}, {"version", "Version"}}, Links: toEdge,
			Queries: []Query{
				{`max by (edge, instance, version) (time() - selvage_start_time_seconds{` + chosen + `} * on (job, instance) group_right () selvage_edge_info)`, "Up for", "s"},
				{`sum by (instance) (selvage_problems{` + chosen + `, severity="error"})`, "Errors", "short"},
				{`sum by (instance) (selvage_problems{` + chosen + `, severity="warning"})`, "Warnings", "short"},
				{receivedBy("instance"), "Received", "pps"},
				{perSecond("instance", "selvage_drops_total"), "Dropped", "pps"},
				{`sum by (instance) (1 - selvage_remote_up{` + chosen + `})`, "Remotes down", "short"},
				{`sum by (instance) (1 - selvage_port_up{` + chosen + `})`, "Ports down", "short"},
				{hitRatio("instance"), "Cache hits", "percentunit"},
				{`max by (instance) (` + filled("selvage_table_entries", "selvage_table_entries_limit", notCaches) + `)`, "Fullest table", "percentunit"},
				{`max by (instance) (selvage_config_revision{` + chosen + `})`, "Revision", "none"},
			}},
		{Kind: Table, Title: "Alerts that fire", Width: 24,
			Description: "Each alert has its section in the run-book, by its name.", Links: []Link{{"Run-book", runbook}},
			Columns: []Column{{"alertname", "Alert"}, {"severity", "Severity"}, {"instance", "Address"}, {"port", "Port"}, {"remote", "Remote"},
				{"neighbour", "Neighbour"}, {"owner", "Owner"}, {"reason", "Reason"}, {"table", "Table"}},
			Queries: []Query{{`ALERTS{alertname=~"Selvage.+", alertstate="firing"}`, "Fires", ""}}},
	}
}

func traffic() []Panel {
	return []Panel{
		{Title: "Received by edge", Unit: "pps", Description: "Packets from ports and out of tunnels. One core forwards so many; compare with the capacity page.",
			Queries: []Query{{receivedBy("instance"), "{{instance}}", ""}}},
		{Title: "Bytes received by edge", Unit: "Bps", Description: "Bytes from ports and out of tunnels, without outer headers.",
			Queries: []Query{{`sum by (instance) (rate(selvage_port_receive_bytes_total{` + chosen + `}[$__rate_interval])) + on (instance) (sum by (instance) (rate(selvage_remote_receive_bytes_total{` + chosen + `}[$__rate_interval])))`, "{{instance}}", ""}}},
		{Title: "Dropped by edge", Unit: "pps", Description: "Drops of all reasons. A step at one edge is local; a step at all of them is a change of policy or of the underlay.",
			Queries: []Query{{perSecond("instance", "selvage_drops_total"), "{{instance}}", ""}}},
		{Title: "Dropped by reason", Unit: "pps", Stacked: true, Description: "The ten reasons that drop most. Each has its cause and cure in the table of drop reasons.", Links: []Link{{"Drop reasons", reasons}},
			Queries: []Query{{`topk(10, ` + perSecond("reason", "selvage_drops_total") + `)`, "{{reason}}", ""}}},
	}
}

func fullest() []Panel {
	return []Panel{
		{Kind: Bars, Title: "Tables", Width: 12, Unit: "percentunit", Full: true, Bad: 0.9, Links: []Link{{"Capacity", docs + "guide/capacity.md"}},
			Description: "The fifteen tables that are closest to their limit. The capacity page says what happens when each is full, and which field makes it larger.",
			Queries:     []Query{{`topk(15, ` + filled("selvage_table_entries", "selvage_table_entries_limit", notCaches) + `)`, "{{instance}} {{table}}", ""}}},
		{Kind: Bars, Title: "Flow caches", Width: 6, Unit: "percentunit", Full: true,
			Description: "Decisions in the caches. Full is fine as long as nothing is evicted while it still sends: see the dashboard of the edge.",
			Queries:     []Query{{`topk(10, ` + filled("selvage_flow_cache_entries", "selvage_flow_cache_entries_limit") + `)`, "{{instance}} {{cache}}", ""}}},
		{Kind: Bars, Title: "Ports of egress addresses", Width: 6, Unit: "percentunit", Full: true, Bad: 0.8,
			Description: "Of the address and destination with the fewest ports left. Add addresses to the pool: selvage nat --port-usage.",
			Queries:     []Query{{`topk(10, ` + filled("selvage_nat_ports_used", "selvage_nat_ports_limit") + `)`, "{{instance}}", ""}}},
	}
}

// notCaches leaves out the tables that may be full.
const notCaches = `table!~"flows|transit-flows"`

// receivedBy are packets from ports and out of tunnels.
func receivedBy(label string) string {
	return perSecond(label, "selvage_port_receive_packets_total") + " + on (" + label + ") (" + perSecond(label, "selvage_remote_receive_packets_total") + ")"
}

// droppedRatio is the part of the received packets that is dropped.
const droppedRatio = `sum(rate(selvage_drops_total{` + chosen + `}[$__rate_interval])) / (sum(rate(selvage_port_receive_packets_total{` + chosen +
	`}[$__rate_interval])) + (sum(rate(selvage_remote_receive_packets_total{` + chosen + `}[$__rate_interval])) or vector(0)) + 1e-9)`

// hitRatio is the part of look-ups that the flow cache answers.
func hitRatio(label string) string {
	return perSecond(label, "selvage_flow_cache_lookups_total", `result="hit"`) + " / " + perSecond(label, "selvage_flow_cache_lookups_total")
}
