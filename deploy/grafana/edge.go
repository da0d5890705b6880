package grafana

func edge() Dashboard {
	return Dashboard{
		Name: "edge", Title: "Selvage / Edge", OneEdge: true,
		Description: "One edge: its ports and remotes, what it drops and for whom, and how the flow cache does.",
		Rows: []Row{
			{"State", edgeState()},
			{"Drops", edgeDrops()},
			{"Ports", edgePorts()},
			{"Remotes and paths", edgeRemotes()},
			{"Flow cache", edgeFlowCache()},
			{"Tables", edgeTables()},
			{"Configuration and failover", edgeConfiguration()},
			{"Process", edgeProcess()},
			{"Listeners", edgeListeners()},
			{"Limits and events", edgeLimits()},
		},
	}
}

func edgeState() []Panel {
	return []Panel{
		{Kind: Stat, Title: "Process up for", Width: 3, Unit: "s", Bad: 300, Low: true,
			Description: "A restart keeps forwarding, connections and NAT sessions. Restarts that nobody asked for: journalctl -u selvage@NAME.",
			Queries:     []Query{{`time() - max(selvage_start_time_seconds{` + chosen + `})`, "", ""}}},
		{Kind: Stat, Title: "Errors", Width: 3, Unit: "short", Bad: 1,
			Description: "Problems with which packets are lost, or the configuration is not in force. selvage status says what to do about each.",
			Queries:     []Query{{`sum(selvage_problems{` + chosen + `, severity="error"})`, "", ""}}},
		{Kind: Stat, Title: "Warnings", Width: 3, Unit: "short", Bad: 1,
			Description: "Problems with which it works, but less well than it should, or not for long. selvage status says what to do about each.",
			Queries:     []Query{{`sum(selvage_problems{` + chosen + `, severity="warning"})`, "", ""}}},
		{Kind: Stat, Title: "Ports up", Width: 3, Unit: "percentunit", Bad: 1, Low: true,
			Description: "Ports whose interface exists and is up. The table of ports names the others.",
			Queries:     []Query{{`avg(selvage_port_up{` + chosen + `})`, "", ""}}},
		{Kind: Stat, Title: "Remotes reachable", Width: 4, Unit: "percentunit", Bad: 1, Low: true,
			Description: "Remotes with a route and a next hop. selvage teps tells why one is not reachable; selvage prove sends packets through the tunnel.",
			Queries:     []Query{{`avg(selvage_remote_up{` + chosen + `})`, "", ""}}},
		{Kind: Stat, Title: "Flow cache hits", Width: 4, Unit: "percentunit", Bad: 0.5, Low: true,
			Description: "Part of the packets that one look-up decides. Few hits with many evictions are thrashing; few hits with short flows are normal.",
			Queries:     []Query{{`sum(rate(selvage_flow_cache_lookups_total{` + chosen + `, result="hit"}[$__rate_interval])) / (sum(rate(selvage_flow_cache_lookups_total{` + chosen + `}[$__rate_interval])) + 1e-9)`, "", ""}}},
		{Kind: Stat, Title: "Packets dropped", Width: 4, Unit: "percentunit", Bad: 0.01,
			Description: "Part of the received packets that is dropped. The next row says why and for whom.",
			Queries:     []Query{{droppedRatio, "", ""}}},
	}
}

func edgeDrops() []Panel {
	links := []Link{{"Drop reasons", reasons}}
	return []Panel{
		{Title: "Dropped by reason", Unit: "pps", Stacked: true, Links: links,
			Description: "The ten reasons that drop most. The table of drop reasons has cause and cure of each; selvage drops --watch shows them live.",
			Queries:     []Query{{`topk(10, ` + perSecond("reason", "selvage_drops_total") + `)`, "{{reason}}", ""}}},
		{Title: "Bytes dropped by reason", Unit: "Bps", Stacked: true, Links: links,
			Description: "Many bytes under too-big or outer-fragment are a matter of MTU.",
			Queries:     []Query{{`topk(10, ` + perSecond("reason", "selvage_dropped_bytes_total") + `)`, "{{reason}}", ""}}},
		{Kind: Table, Title: "Whose packets are dropped", Width: 12, Links: links,
			Description: "Drops since the data path was loaded, by port, remote or segment and by reason. The first line is whom to ask.",
			Columns:     []Column{{"kind", "Kind"}, {"owner", "Owner"}, {"reason", "Reason"}},
			Queries:     []Query{{`topk(30, sum by (kind, owner, reason) (selvage_owner_drops_total{` + chosen + `}))`, "Packets", "short"}}},
		{Title: "Dropped by port, remote or segment", Unit: "pps",
			Description: "Who causes drops now. A port with spoofed-mac or spoofed-address pretends to be another; see the run-book.",
			Queries:     []Query{{`topk(10, ` + perSecond("kind, owner", "selvage_owner_drops_total") + `)`, "{{kind}} {{owner}}", ""}}},
	}
}

func edgePorts() []Panel {
	return []Panel{
		{Kind: Table, Title: "Ports", Width: 8, States: upOrDown(), Bad: 1, Low: true,
			Description: "A port is down when its interface is down or absent. Look at the interface, or at the guest behind it.",
			Columns:     []Column{{"port", "Port"}, {"interface", "Interface"}, {"segment", "Segment"}},
			Queries:     []Query{{`selvage_port_up{` + chosen + `}`, "State", ""}}},
		{Title: "From ports", Width: 8, Unit: "pps", Description: "Packets from guests into the overlay: who sends most.",
			Queries: []Query{{perSecond("port", "selvage_port_receive_packets_total"), "{{port}}", ""}}},
		{Title: "To ports", Width: 8, Unit: "pps", Description: "Packets to guests. A port that receives and never sends has a guest that does not answer.",
			Queries: []Query{{perSecond("port", "selvage_port_transmit_packets_total"), "{{port}}", ""}}},
		{Title: "Bytes from ports", Width: 8, Unit: "Bps", Description: "Bytes from guests into the overlay.",
			Queries: []Query{{perSecond("port", "selvage_port_receive_bytes_total"), "{{port}}", ""}}},
		{Title: "Bytes to ports", Width: 8, Unit: "Bps", Description: "Bytes from the overlay to guests.",
			Queries: []Query{{perSecond("port", "selvage_port_transmit_bytes_total"), "{{port}}", ""}}},
		{Title: "Dropped from ports", Width: 8, Unit: "pps", Description: "Packets from a port that were dropped. The reasons are in the row above: Whose packets are dropped.",
			Queries: []Query{{perSecond("port", "selvage_port_drops_total"), "{{port}}", ""}}},
	}
}

func edgeRemotes() []Panel {
	return []Panel{
		{Kind: Table, Title: "Remotes", Width: 6, States: upOrDown(), Bad: 1, Low: true,
			Description: "Down: no route by an underlay interface, or the next hop does not answer. Ask: selvage teps, ip route get ADDRESS.",
			Columns:     []Column{{"remote", "Remote"}},
			Queries:     []Query{{`selvage_remote_up{` + chosen + `}`, "State", ""}}},
		{Title: "Into tunnels", Width: 9, Unit: "pps", Description: "Packets to each remote. One that is sent to and never heard of has a one-way fault: selvage prove.",
			Queries: []Query{{perSecond("remote", "selvage_remote_transmit_packets_total"), "{{remote}}", ""}}},
		{Title: "Out of tunnels", Width: 9, Unit: "pps", Description: "Packets from each remote. None, while it sends, is a filter of the tunnel's UDP port, or unknown-vni and unknown-remote here.",
			Queries: []Query{{perSecond("remote", "selvage_remote_receive_packets_total"), "{{remote}}", ""}}},
		{Title: "Bytes into tunnels", Unit: "Bps", Description: "Bytes to each remote, with outer headers: what the underlay has to carry.",
			Queries: []Query{{perSecond("remote", "selvage_remote_transmit_bytes_total"), "{{remote}}", ""}}},
		{Title: "Bytes out of tunnels", Unit: "Bps", Description: "Bytes from each remote, without outer headers.",
			Queries: []Query{{perSecond("remote", "selvage_remote_receive_bytes_total"), "{{remote}}", ""}}},
		{Kind: Table, Title: "Paths", Width: 8, States: upOrDown(), Bad: 1, Low: true,
			Description: "Paths between a TEP of this edge and one of a remote. Down: BFD had no answer, or the interface is down. selvage teps -o wide says why.",
			Columns:     []Column{{"local", "From"}, {"remote", "To"}, {"via", "Via"}},
			Queries:     []Query{{`selvage_path_usable{` + chosen + `}`, "State", ""}}},
		{Title: "Packets by path", Width: 8, Unit: "pps", Description: "How flows are divided over paths. Few large flows divide unevenly: a flow stays on one path.",
			Queries: []Query{{perSecond("local, remote, via", "selvage_path_transmit_packets_total"), "{{local}} to {{remote}} {{via}}", ""}}},
		{Title: "Path MTU reports", Width: 8, Unit: "ops", Description: "ICMP messages that a tunnel packet was too big. Many that are refuted or refused are forged, or of a host that is confused.",
			Queries: []Query{{perSecond("outcome", "selvage_path_mtu_reports_total"), "{{outcome}}", ""}}},
	}
}

func edgeFlowCache() []Panel {
	return []Panel{
		{Title: "Look-ups", Unit: "pps", Stacked: true, Description: "Packets by outcome of their look-up. Misses and stale ones take the slow path. Many stale ones: the configuration or routes change all the time.",
			Queries: []Query{{perSecond("result", "selvage_flow_cache_lookups_total"), "{{result}}", ""}}},
		{Title: "Filling", Unit: "percentunit", Full: true, Description: "Decisions in each cache. Full is fine, if nothing is evicted while it still sends.",
			Queries: []Query{{filled("selvage_flow_cache_entries", "selvage_flow_cache_entries_limit"), "{{cache}}", ""}}},
		{Title: "Evictions", Width: 8, Unit: "ops", Description: "Decisions of transit that others replaced. With few hits this is thrashing: raise spec.flowCache.size.",
			Queries: []Query{{perSecond("cache", "selvage_flow_cache_evictions_total"), "{{cache}}", ""}}},
		{Title: "Alarm", Width: 8, Unit: "bool_on_off", Full: true, Description: "Thrashing: active flows evict each other. Off: spec.flowCache.enabled is false, so each packet takes the slow path.",
			Queries: []Query{{`selvage_flow_cache_alarm{` + chosen + `}`, "{{kind}}", ""}}},
		{Title: "Memory", Width: 8, Unit: "bytes", Description: "Memory of the caches, which spec.flowCache.size decides.",
			Queries: []Query{{`selvage_flow_cache_memory_bytes{` + chosen + `}`, "{{cache}}", ""}}},
	}
}

func edgeLimits() []Panel {
	return []Panel{
		{Kind: Bars, Title: "Limits in use", Width: 6, Unit: "percentunit", Full: true, Bad: 0.9,
			Description: "The ten limits of ports and segments that are closest to their maximum. selvage limits lists all.",
			Queries:     []Query{{`topk(10, selvage_limit_used{` + chosen + `} / (selvage_limit_max{` + chosen + `} > 0))`, "{{kind}} {{owner}} {{limit}}", ""}}},
		{Title: "Limits exceeded", Width: 6, Unit: "ops",
			Description: "Entries or packets beyond a limit. No honest guest comes near: see the run-book, \"A limit is exceeded\".",
			Queries:     []Query{{`topk(10, ` + perSecond("kind, owner, limit", "selvage_limit_exceeded_total") + `)`, "{{kind}} {{owner}} {{limit}}", ""}}},
		{Title: "Events of the data path", Width: 6, Unit: "ops", Links: []Link{{"Events", docs + "reference/reasons.md#events"}},
			Description: "What the data path counts beside look-ups and drops. Many moves are two hosts with one address; reorder-timeout is loss on the underlay.",
			Queries:     []Query{{`topk(10, ` + perSecond("event", "selvage_events_total") + `)`, "{{event}}", ""}}},
		{Kind: Table, Title: "Hooks of transit", Width: 6, Links: []Link{{"Interfaces", docs + "reference/commands.md#interfaces"}},
			Description: "Where packets between tunnels and uplinks are taken. xdp costs least; selvage interfaces says what prevents it.",
			Columns:     []Column{{"interface", "Interface"}, {"hook", "Hook"}},
			Queries:     []Query{{`selvage_interface_hook_info{` + chosen + `}`, "There", ""}}},
	}
}
