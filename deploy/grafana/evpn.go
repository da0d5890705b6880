package grafana

func evpn() Dashboard {
	return Dashboard{
		Name: "evpn", Title: "Selvage / EVPN",
		Description: "BGP sessions, routes and why some are not used, hosts that move, and how fast routes reach the data path. Empty for edges without spec.bgp.",
		Rows: []Row{
			{"Sessions", []Panel{
				{Kind: Table, Title: "Neighbours", Width: 6, States: upOrDown(), Bad: 1, Low: true,
					Description: "Without a session its routes are stale, and go after gracefulRestart.stale. selvage bgp neighbours NAME has the cause.",
					Columns:     []Column{{"instance", "Address"}, {"neighbour", "Neighbour"}},
					Queries:     []Query{{`selvage_bgp_neighbour_up{` + chosen + `}`, "Session", ""}}},
				{Title: "Sessions lost", Width: 6, Unit: "short", Description: "In an hour. Several: look at the hold time, at the load of both ends, and at the path between them.",
					Queries: []Query{{`increase(selvage_bgp_neighbour_flaps_total{` + chosen + `}[1h])`, "{{instance}} {{neighbour}}", ""}}},
				{Title: "Malformed routes", Width: 6, Unit: "short", Description: "In an hour. The neighbour sends what no RFC allows: keep selvage support, and ask its vendor.",
					Queries: []Query{{`increase(selvage_bgp_neighbour_malformed_routes_total{` + chosen + `}[1h])`, "{{instance}} {{neighbour}}", ""}}},
				{Title: "Sessions ended by the edge", Width: 6, Unit: "short", Description: "In an hour: too many updates waited for the data path. The neighbour sends faster than the tables are written.",
					Queries: []Query{{`increase(selvage_bgp_neighbour_overflows_total{` + chosen + `}[1h])`, "{{instance}} {{neighbour}}", ""}}},
			}},
			{"Routes", []Panel{
				{Title: "Routes", Unit: "short", Description: "Routes that are used, unused and advertised. Most unused routes are no problem: selvage bgp routes --unused says why.",
					Queries: []Query{{`sum by (instance, state) (selvage_bgp_routes{` + chosen + `})`, "{{instance}} {{state}}", ""}}},
				{Title: "Prefixes by neighbour", Unit: "short", Description: "By family and direction. A neighbour whose number falls withdrew routes, or its policy changed.",
					Queries: []Query{{`sum by (instance, neighbour, family, direction) (selvage_bgp_neighbour_prefixes{` + chosen + `})`, "{{instance}} {{neighbour}} {{family}} {{direction}}", ""}}},
				{Title: "Routes that need a look", Unit: "short",
					Description: "No room: raise the sizes in spec.tables. Stale: a session is lost. Problems: configurations differ. Frozen: a MAC address moved too often.",
					Queries: []Query{
						{`sum by (instance) (selvage_bgp_no_room_routes{` + chosen + `})`, "{{instance}} no room", ""},
						{`sum by (instance) (selvage_bgp_stale_routes{` + chosen + `})`, "{{instance}} stale", ""},
						{`sum by (instance) (selvage_bgp_problem_routes{` + chosen + `})`, "{{instance}} problems", ""},
						{`sum by (instance) (selvage_bgp_frozen_macs{` + chosen + `})`, "{{instance}} frozen", ""},
					}},
				{Title: "Changes of routes", Unit: "ops", Description: "Routes that neighbours advertised or withdrew. A constant rate is a host or link that flaps.",
					Queries: []Query{{perSecond("instance", "selvage_bgp_route_changes_total"), "{{instance}}", ""}}},
			}},
			{"Hosts and speed", []Panel{
				{Title: "Hosts that moved", Unit: "ops", Description: "To this edge or away. One migration is one move; many of one host are two hosts with one address: selvage bgp moves.",
					Queries: []Query{{perSecond("instance", "selvage_bgp_mac_moves_total"), "{{instance}}", ""}}},
				{Title: "From a route to the data path", Unit: "s", Bad: 1,
					Description: "Time from the receipt of a route until packets follow it: half of the routes, and 99 of 100. A second and more: the host is overloaded.",
					Queries: []Query{
						{`histogram_quantile(0.5, sum by (instance, le) (rate(selvage_bgp_fib_update_seconds_bucket{` + chosen + `}[10m])))`, "{{instance}} half", ""},
						{`histogram_quantile(0.99, sum by (instance, le) (rate(selvage_bgp_fib_update_seconds_bucket{` + chosen + `}[10m])))`, "{{instance}} 99 %", ""},
					}},
			}},
		},
	}
}
