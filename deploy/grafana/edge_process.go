package grafana

func edgeTables() []Panel {
	return []Panel{
		{Title: "Tables", Unit: "percentunit", Full: true, Bad: 0.9, Links: []Link{{"Capacity", docs + "guide/capacity.md"}},
			Description: "How full each table is. What does not fit is left out and reported; the capacity page says which field makes a table larger.",
			Queries:     []Query{{filled("selvage_table_entries", "selvage_table_entries_limit", notCaches), "{{table}}", ""}}},
		{Kind: Table, Title: "Entries", Width: 12, Links: []Link{{"Capacity", docs + "guide/capacity.md"}},
			Description: "Entries of each table and how many fit.",
			Columns:     []Column{{"table", "Table"}},
			Queries: []Query{
				{`sum by (table) (selvage_table_entries{` + chosen + `})`, "Entries", "short"},
				{`sum by (table) (selvage_table_entries_limit{` + chosen + `})`, "At most", "short"},
			}},
	}
}

func edgeConfiguration() []Panel {
	return []Panel{
		{Kind: Stat, Title: "Last configuration", Width: 4, Unit: "none", Bad: 1, Low: true, States: map[string]string{"1": "applied", "0": "refused"},
			Description: "Whether the newest configuration is in force. Refused: the one before goes on. selvage status has the cause.",
			Queries:     []Query{{`min(selvage_config_last_apply_successful{` + chosen + `})`, "", ""}}},
		{Kind: Stat, Title: "Revision", Width: 4, Unit: "none",
			Description: "The revision in force. selvage history tells who applied it, and when; selvage rollback takes one before.",
			Queries:     []Query{{`max(selvage_config_revision{` + chosen + `})`, "", ""}}},
		{Title: "Configurations", Width: 8, Unit: "short", Description: "Configurations that were applied and refused, in an hour. Many are a tool that cannot decide.",
			Queries: []Query{{`sum by (result) (increase(selvage_config_applies_total{` + chosen + `}[1h]))`, "{{result}}", ""}}},
		{Title: "Writing of tables", Width: 8, Unit: "s", Bad: 5, Description: "How long it takes to write what changed: half of the times, and 99 of 100. Seconds are normal for 100,000 rules only.",
			Queries: []Query{
				{`histogram_quantile(0.5, sum by (le) (rate(selvage_apply_duration_seconds_bucket{` + chosen + `}[1h])))`, "half", ""},
				{`histogram_quantile(0.99, sum by (le) (rate(selvage_apply_duration_seconds_bucket{` + chosen + `}[1h])))`, "99 %", ""},
			}},
		{Title: "Writes that failed", Width: 8, Unit: "short", Description: "In an hour. A failure is tried again, and is an error in selvage status: look there for its cause.",
			Queries: []Query{{`sum(increase(selvage_apply_failures_total{` + chosen + `}[1h]))`, "failed", ""}}},
		{Title: "Failover", Width: 8, Unit: "s", Bad: 0.1, Description: "From the news that a path or gateway died until the maps lead elsewhere. BFD's own time comes before it.",
			Queries: []Query{{`histogram_quantile(0.99, sum by (le) (rate(selvage_failover_duration_seconds_bucket{` + chosen + `}[1h])))`, "99 %", ""}}},
		{Kind: Table, Title: "BFD sessions", Width: 8, States: upOrDown(), Bad: 1, Low: true,
			Description: "Down: no answer within the detection time. Look at the path between these TEPs, and at filters of UDP ports 3784, 4784 and 7784.",
			Columns:     []Column{{"local", "From"}, {"remote", "To"}},
			Queries: []Query{
				{`max by (local, remote) (selvage_bfd_session_up{` + chosen + `})`, "Session", ""},
				{`max by (local, remote) (selvage_bfd_session_flaps_total{` + chosen + `})`, "Lost", "short"},
			}},
	}
}

func edgeProcess() []Panel {
	return []Panel{
		{Title: "Memory of the process", Width: 6, Unit: "bytes", Description: "Resident memory of the process; tables of the kernel are not in it. Growth without end is a fault: selvage support.",
			Queries: []Query{{`process_resident_memory_bytes{` + chosen + `}`, "{{instance}}", ""}}},
		{Title: "Processor", Width: 6, Unit: "percentunit", Description: "Cores that the process uses; forwarding is not in it, as the kernel does that. An idle edge needs next to nothing.",
			Queries: []Query{{`rate(process_cpu_seconds_total{` + chosen + `}[$__rate_interval])`, "{{instance}}", ""}}},
		{Title: "File descriptors", Width: 6, Unit: "percentunit", Full: true, Bad: 0.9, Description: "Of those that the process may have. Many are clients of the API that do not go.",
			Queries: []Query{{`process_open_fds{` + chosen + `} / process_max_fds{` + chosen + `}`, "{{instance}}", ""}}},
		{Title: "Control loop", Width: 6, Unit: "s", Bad: 60, Description: "Since the last turn of the loop that writes the tables. Above a minute it hangs: keep selvage support, then restart.",
			Queries: []Query{{`time() - selvage_loop_last_turn_time_seconds{` + chosen + `}`, "{{instance}}", ""}}},
		{Kind: Stat, Title: "Ready", Width: 6, Unit: "none", Bad: 1, Low: true, States: map[string]string{"1": "yes", "0": "no"},
			Description: "What /readyz says: the data path is written, the configuration is in force and, with BGP, routes have arrived.",
			Queries:     []Query{{`min(selvage_ready{` + chosen + `})`, "", ""}}},
		{Kind: Table, Title: "Conditions of readiness", Width: 6, States: map[string]string{"1": "yes", "0": "no"}, Bad: 1, Low: true,
			Description: "Which condition is not met. datapath and configuration: selvage status. bgp: selvage bgp.",
			Columns:     []Column{{"condition", "Condition"}},
			Queries:     []Query{{`selvage_ready_condition{` + chosen + `}`, "Met", ""}}},
		{Title: "Scrape", Width: 6, Unit: "s", Bad: 1, Description: "How long Prometheus waits for the metrics of the edge. Longer than a second: the host is overloaded.",
			Queries: []Query{{`scrape_duration_seconds{` + chosen + `}`, "{{instance}}", ""}}},
		{Title: "Lines of the log lost", Width: 6, Unit: "short", Bad: 1, Description: "In an hour: whoever reads the log is too slow. Look at the journal, or lower the level.",
			Queries: []Query{{`increase(selvage_log_lines_lost_total{` + chosen + `}[1h])`, "{{instance}}", ""}}},
	}
}

func edgeListeners() []Panel {
	return []Panel{
		{Kind: Table, Title: "Listeners", Width: 12, States: upOrDown(), Bad: 1, Low: true,
			Description: "Listeners of spec.http. Down: the address is not there or in use; selvage status has the cause.",
			Columns:     []Column{{"listener", "Listener"}},
			Queries: []Query{
				{`max by (listener) (selvage_http_listener_up{` + chosen + `})`, "State", ""},
				{`max by (listener) (selvage_http_connections{` + chosen + `})`, "Connections", "short"},
			}},
		{Kind: Bars, Title: "Certificates end in", Width: 12, Unit: "s", Bad: 7 * 86400, Low: true,
			Description: "Time until the certificate in use ends. Put a new one in its place: it is taken without a restart.",
			Queries:     []Query{{`selvage_http_certificate_not_after_time_seconds{` + chosen + `} - time()`, "{{listener}}", ""}}},
		{Title: "Refused", Width: 12, Unit: "short", Description: "In an hour: connections that were too many.",
			Queries: []Query{
				{`increase(selvage_http_connections_refused_total{` + chosen + `}[1h])`, "{{listener}} too many", ""},
			}},
		{Title: "Certificates that were refused", Width: 12, Unit: "bool_yes_no", Full: true, Bad: 1,
			Description: "The files on disk are not taken, and the old certificate stays until it ends. selvage status has the cause.",
			Queries:     []Query{{`selvage_http_certificate_reload_failed{` + chosen + `}`, "{{listener}}", ""}}},
	}
}
