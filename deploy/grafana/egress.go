package grafana

func egress() Dashboard {
	return Dashboard{
		Name: "egress", Title: "Selvage / Egress and NAT",
		Description: "Gateways to the outside, what they translate, and how many ports and sessions are left. Empty for edges without spec.egress and nat.",
		Rows: []Row{
			{"Gateways", []Panel{
				{Kind: Table, Title: "Gateways", Width: 10, Links: []Link{{"States", docs + "reference/commands.md#egress"}},
					Description: "States of gateways as each edge sees them. Gone: BFD had no answer. Draining: somebody asked for it. selvage egress says why.",
					Columns:     []Column{{"instance", "Address"}, {"group", "Group"}, {"gateway", "Gateway"}, {"state", "State"}},
					Queries:     []Query{{`selvage_egress_gateway_state{` + chosen + `} == 1`, "Is", ""}}},
				{Title: "Gateways that serve", Width: 7, Unit: "short", Description: "One left: the next failure ends its connections. None: nothing leaves. Look at the gateway that is gone.",
					Queries: []Query{{`min by (group) (selvage_egress_gateways_serving{` + chosen + `})`, "{{group}}", ""}}},
				{Title: "Changes of state", Width: 7, Unit: "short", Description: "Failovers, drains and returns in five minutes. Several are a gateway that flaps: look at BFD and the underlay.",
					Queries: []Query{{`increase(selvage_egress_gateway_state_changes_total{` + chosen + `}[5m])`, "{{instance}}", ""}}},
				{Title: "Egress addresses", Unit: "short", Stacked: true, Description: "Addresses that each edge answers for. The sum is constant: two owners of one address are a split underlay.",
					Queries: []Query{{`selvage_egress_addresses_owned{` + chosen + `}`, "{{instance}}", ""}}},
				{Title: "Dropped on the way out", Unit: "pps", Stacked: true, Links: []Link{{"Drop reasons", reasons}},
					Description: "nat-exhausted: no port is free for that destination. nat-full: no session. no-gateway: none is alive. nat-limit: a source has too many.",
					Queries:     []Query{{perSecond("reason", "selvage_drops_total", `reason=~"nat-.*|no-gateway|no-nat-session|no-translation"`), "{{reason}}", ""}}},
			}},
			{"Translation", []Panel{
				{Kind: Stat, Title: "Alarms", Width: 6, Unit: "short", Bad: 1, Description: "Alarms of NAT. selvage status has the text of each, and what to do.",
					Queries: []Query{{`sum(selvage_nat_alarms{` + chosen + `})`, "", ""}}},
				{Kind: Stat, Title: "Ports in use", Width: 6, Unit: "percentunit", Bad: 0.8, Description: "Of the egress address and destination with the fewest left. selvage nat --port-usage names it: add addresses to the pool.",
					Queries: []Query{{`max(` + filled("selvage_nat_ports_used", "selvage_nat_ports_limit") + `)`, "", ""}}},
				{Kind: Stat, Title: "Session table", Width: 6, Unit: "percentunit", Bad: 0.8, Description: "The NAT table that is closest to its limit. Raise spec.egress.sessions; selvage nat --top sources shows who uses it.",
					Queries: []Query{{`max(` + filled("selvage_nat_table_entries", "selvage_nat_table_entries_limit") + `)`, "", ""}}},
				{Kind: Stat, Title: "Lines of the NAT log lost", Width: 6, Unit: "short", Bad: 1, Description: "Lines over the rate in the last hour, so the log misses sessions. Raise spec.egress.log.rate.",
					Queries: []Query{{`sum(increase(selvage_nat_log_lost_total{` + chosen + `}[1h]))`, "", ""}}},
				{Title: "Sessions by state", Unit: "short", Stacked: true, Description: "Many that open and few that are established: the outside does not answer, or a source scans.",
					Queries: []Query{{`sum by (state) (selvage_nat_sessions{` + chosen + `})`, "{{state}}", ""}}},
				{Title: "Ports of the fullest address", Unit: "short", Description: "In use and at most, by edge. Each destination has all ports of an address to itself.",
					Queries: []Query{{`selvage_nat_ports_used{` + chosen + `}`, "{{instance}} in use", ""}, {`selvage_nat_ports_limit{` + chosen + `}`, "{{instance}} at most", ""}}},
				{Title: "Tables", Unit: "percentunit", Full: true, Bad: 0.8, Description: "A full table of sessions refuses new ones (nat-full): raise spec.egress.sessions, or shorten timeouts.",
					Queries: []Query{{filled("selvage_nat_table_entries", "selvage_nat_table_entries_limit"), "{{instance}} {{table}}", ""}}},
				{Title: "Memory", Unit: "bytes", Stacked: true, Description: "Memory of the tables of NAT, which spec.egress.sessions decides.",
					Queries: []Query{{`sum by (table) (selvage_nat_table_memory_bytes{` + chosen + `})`, "{{table}}", ""}}},
				{Title: "Replicas and mappings", Width: 24, Unit: "short", Description: "Sessions that another gateway made and uses, and ports that are held for all peers. Without replicas a failover ends connections.",
					Queries: []Query{{`selvage_nat_replicas{` + chosen + `}`, "{{instance}} replicas", ""}, {`selvage_nat_mappings{` + chosen + `}`, "{{instance}} mappings", ""}}},
			}},
			{"Replication", []Panel{
				{Kind: Table, Title: "Replication", Width: 8, States: map[string]string{"1": "yes", "0": "no"}, Bad: 1, Low: true,
					Description: "Whether sessions are exchanged, and whether all are known here. No: a failover loses connections. Look at TCP to the other gateway.",
					Columns:     []Column{{"instance", "Address"}, {"gateway", "Gateway"}},
					Queries: []Query{
						{`max by (instance, gateway) (selvage_replication_up{` + chosen + `})`, "Connected", ""},
						{`max by (instance, gateway) (selvage_replication_synced{` + chosen + `})`, "Complete", ""},
					}},
				{Title: "Records", Width: 8, Unit: "ops", Description: "Sessions that are told to, and heard from, the other gateways.",
					Queries: []Query{
						{perSecond("instance, gateway", "selvage_replication_sent_records_total"), "{{instance}} to {{gateway}}", ""},
						{perSecond("instance, gateway", "selvage_replication_received_records_total"), "{{instance}} from {{gateway}}", ""},
					}},
				{Title: "Conflicts and restarts", Width: 8, Unit: "short", Description: "In an hour. Conflicts: two gateways served one source at a time. Restarts: a gateway or the network between them is too slow.",
					Queries: []Query{
						{`increase(selvage_replication_conflicts_total{` + chosen + `}[1h])`, "{{instance}} {{gateway}} conflicts", ""},
						{`increase(selvage_replication_resyncs_total{` + chosen + `}[1h])`, "{{instance}} {{gateway}} restarts", ""},
					}},
			}},
		},
	}
}
