package grafana

func firewall() Dashboard {
	return Dashboard{
		Name: "firewall", Title: "Selvage / Firewall",
		Description: "Connections, what rules decide, and what the firewall drops. Empty for edges without spec.firewall.",
		Rows: []Row{
			{"State", []Panel{
				{Kind: Stat, Title: "Alarms", Width: 6, Unit: "short", Bad: 1, Description: "Alarms of the firewall. selvage status has the text of each, and what to do.",
					Queries: []Query{{`sum(selvage_firewall_alarms{` + chosen + `})`, "", ""}}},
				{Kind: Stat, Title: "Connections", Width: 6, Unit: "short", Description: "Connections that conntrack knows. The busiest owners: selvage sessions --top ports.",
					Queries: []Query{{`sum(selvage_conntrack_entries{` + chosen + `})`, "", ""}}},
				{Kind: Stat, Title: "Fullest table", Width: 6, Unit: "percentunit", Bad: 0.9, Description: "The table of conntrack or rules that is closest to its limit. The next row names it.",
					Queries: []Query{{`max(` + filled("selvage_firewall_table_entries", "selvage_firewall_table_entries_limit") + `)`, "", ""}}},
				{Kind: Stat, Title: "Refused by policy", Width: 6, Unit: "pps", Description: "Packets that a rule or the default refuses. A step after a change of the policy: selvage history, selvage rollback.",
					Queries: []Query{{`sum(rate(selvage_drops_total{` + chosen + `, reason=~"denied|rejected"}[$__rate_interval]))`, "", ""}}},
			}},
			{"Connections", []Panel{
				{Title: "Connections by state", Unit: "short", Stacked: true, Description: "Many that open and few that are established are a scan or a flood, or a server that does not answer.",
					Queries: []Query{{`sum by (state) (selvage_conntrack_entries{` + chosen + `})`, "{{state}}", ""}}},
				{Title: "Half-open connections by port", Unit: "short", Description: "The ten ports with most connections that wait for an answer. A port at its limit loses its oldest: selvage limits.",
					Queries: []Query{{`topk(10, selvage_conntrack_half_open_entries{` + chosen + `})`, "{{instance}} {{port}}", ""}}},
				{Title: "Tables", Unit: "percentunit", Full: true, Bad: 0.9, Description: "A full table refuses new connections: raise spec.firewall.connections or halfOpen, or shorten timeouts.",
					Queries: []Query{{filled("selvage_firewall_table_entries", "selvage_firewall_table_entries_limit"), "{{instance}} {{table}}", ""}}},
				{Title: "Memory", Unit: "bytes", Stacked: true, Description: "Memory of the firewall's tables, which their sizes in spec.firewall decide.",
					Queries: []Query{{`sum by (table) (selvage_firewall_table_memory_bytes{` + chosen + `})`, "{{table}}", ""}}},
			}},
			{"Rules", []Panel{
				{Title: "New connections by rule", Unit: "cps", Description: "The ten rules that decide about most connections. With more than 500 rules there is one sum for each section.",
					Queries: []Query{{`topk(10, ` + perSecond("section, rule", "selvage_firewall_rule_connections_total") + `)`, "{{section}} {{rule}}", ""}}},
				{Title: "Bytes by rule", Unit: "Bps", Description: "Bytes of these connections, up to 10 s late.",
					Queries: []Query{{`topk(10, ` + perSecond("section, rule", "selvage_firewall_rule_bytes_total") + `)`, "{{section}} {{rule}}", ""}}},
				{Kind: Table, Title: "Rules", Width: 24, Description: "What each rule decided about since the data path was loaded. One that never decides may be unneeded: selvage check names those that cannot.",
					Columns: []Column{{"section", "Section"}, {"rule", "Rule"}},
					Queries: []Query{
						{`sum by (section, rule) (selvage_firewall_rule_connections_total{` + chosen + `})`, "Connections", "short"},
						{`sum by (section, rule) (selvage_firewall_rule_packets_total{` + chosen + `})`, "Packets", "short"},
						{`sum by (section, rule) (selvage_firewall_rule_bytes_total{` + chosen + `})`, "Bytes", "bytes"},
					}},
			}},
			{"Drops", []Panel{
				{Title: "Dropped by the firewall", Unit: "pps", Stacked: true, Links: []Link{{"Drop reasons", reasons}},
					Description: "denied and rejected are as configured. out-of-state and half-open-limit are not: see the table of drop reasons.",
					Queries:     []Query{{perSecond("reason", "selvage_drops_total", firewallReasons), "{{reason}}", ""}}},
				{Title: "Guards", Unit: "pps", Stacked: true, Links: []Link{{"Drop reasons", reasons}},
					Description: "Guests that use addresses of others, or pretend to be a router or DHCP server. The next panel says which.",
					Queries:     []Query{{perSecond("reason", "selvage_drops_total", guardReasons), "{{reason}}", ""}}},
				{Kind: Table, Title: "Who is refused", Width: 24, Links: []Link{{"Drop reasons", reasons}},
					Description: "Ports, remotes and segments with most drops by firewall and guards since the data path was loaded. selvage trace names the rule.",
					Columns:     []Column{{"instance", "Address"}, {"kind", "Kind"}, {"owner", "Owner"}, {"reason", "Reason"}},
					Queries: []Query{{`topk(30, sum by (instance, kind, owner, reason) (selvage_owner_drops_total{` + chosen + `, ` +
						`reason=~"denied|rejected|no-policy|non-ip|out-of-.*|tcp-flags|unrelated|fragment-.*|half-open-limit|new-flow-limit|spoofed-.*|.*-guard|nd-ext-headers"}))`, "Packets", "short"}}},
			}},
		},
	}
}

const (
	firewallReasons = `reason=~"denied|rejected|no-policy|non-ip|out-of-.*|tcp-flags|unrelated|fragment-.*|ipv6-ext-headers|half-open-limit|new-flow-limit"`
	guardReasons    = `reason=~"spoofed-.*|.*-guard|nd-ext-headers|static-mac-move|source-multicast"`
)
