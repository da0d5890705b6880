package datapath

import "github.com/selvage/selvage/internal/datapath/kernel"

// The maps of components: who else needs one goes by the component.
type (
	trafficMaps struct {
		Drops         kernel.Map `ebpf:"drops"`
		Events        kernel.Map `ebpf:"events"`
		OwnerDrops    kernel.Map `ebpf:"owner_drops"`
		Traffic       kernel.Map `ebpf:"traffic"`
		TransitTables kernel.Map `ebpf:"transit_tables"`
	}
	numberMaps struct {
		Routers  kernel.Map `ebpf:"routers"`
		Segments kernel.Map `ebpf:"segments"`
		Vports   kernel.Map `ebpf:"vports"`
	}
	portMaps struct {
		AllowedAddrs kernel.Map `ebpf:"allowed_addrs"`
		AllowedMacs  kernel.Map `ebpf:"allowed_macs"`
		KnownOptions kernel.Map `ebpf:"known_options"`
		Members      kernel.Map `ebpf:"members"`
		Ports        kernel.Map `ebpf:"ports"`
		Remotes      kernel.Map `ebpf:"remotes"`
		Teps         kernel.Map `ebpf:"teps"`
		Vnis         kernel.Map `ebpf:"vnis"`
	}
	pathMaps struct {
		PathGroups  kernel.Map `ebpf:"path_groups"`
		PathReports kernel.Map `ebpf:"path_reports"`
	}
	flowMaps struct {
		FlowSecret     kernel.Map `ebpf:"flow_secret"`
		Flows          kernel.Map `ebpf:"flows"`
		TransitCache   kernel.Map `ebpf:"transit_cache"`
		TransitActions kernel.Map `ebpf:"transit_actions"`
	}
	hostMaps struct {
		Fdb        kernel.Map `ebpf:"fdb"`
		Neighbours kernel.Map `ebpf:"neighbours"`
	}
	hostEventMaps struct {
		HostEvents kernel.Map `ebpf:"host_events"`
		HostWorks  kernel.Map `ebpf:"host_works"`
	}
	limitMaps struct {
		LimitEntries kernel.Map `ebpf:"limit_entries"`
		LimitLargest kernel.Map `ebpf:"limit_largest"`
		OwnerLimits  kernel.Map `ebpf:"owner_limits"`
		OwnerUsages  kernel.Map `ebpf:"owner_usages"`
	}
	routeMaps struct {
		LocalAddrs    kernel.Map `ebpf:"local_addrs"`
		NexthopGroups kernel.Map `ebpf:"nexthop_groups"`
		Nexthops      kernel.Map `ebpf:"nexthops"`
		Routes        kernel.Map `ebpf:"routes"`
	}
	firewallMaps struct {
		CtEstablished kernel.Map `ebpf:"ct_established"`
		CtHalfOpen    kernel.Map `ebpf:"ct_half_open"`
		Fragments     kernel.Map `ebpf:"fragments"`
		Logs          kernel.Map `ebpf:"logs"`
		Rules         kernel.Map `ebpf:"rules"`
	}
	egressMaps struct {
		EgressPolicies kernel.Map `ebpf:"egress_policies"`
		NatFragments   kernel.Map `ebpf:"nat_fragments"`
		NatHostCounts  kernel.Map `ebpf:"nat_host_counts"`
		Pool           kernel.Map `ebpf:"pool"`
	}
	natSessionMaps struct {
		NatEvents    kernel.Map `ebpf:"nat_events"`
		NatInbound   kernel.Map `ebpf:"nat_inbound"`
		NatOver      kernel.Map `ebpf:"nat_over"`
		NatReverse   kernel.Map `ebpf:"nat_reverse"`
		NatSessions  kernel.Map `ebpf:"nat_sessions"`
		PortForwards kernel.Map `ebpf:"port_forwards"`
	}
	changeMaps struct {
		GlobalCounters kernel.Map `ebpf:"global_counters"`
	}
	monitorMaps struct {
		MonitorCores kernel.Map `ebpf:"monitor_cores"`
		MonitorRings kernel.Map `ebpf:"monitor_rings"`
		Monitors     kernel.Map `ebpf:"monitors"`
	}
	traceMaps struct {
		Trace kernel.Map `ebpf:"trace"`
	}
	linkMaps struct {
		TxDevmap        kernel.Map `ebpf:"tx_devmap"`
		TxDevmapGeneric kernel.Map `ebpf:"tx_devmap_generic"`
		XdpInterfaces   kernel.Map `ebpf:"xdp_interfaces"`
	}
)
