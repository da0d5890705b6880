package datapath

import (
	"reflect"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// objects are the loaded maps and programs that have a name here.
type objects struct {
	*kernel.Objects // all of them

	FromGro      kernel.Program `ebpf:"from_gro"`
	FromPort     kernel.Program `ebpf:"from_port"`
	FromUnderlay kernel.Program `ebpf:"from_underlay"`

	AllowedAddrs      kernel.Map `ebpf:"allowed_addrs"`
	AllowedMacs       kernel.Map `ebpf:"allowed_macs"`
	CtEstablished     kernel.Map `ebpf:"ct_established"`
	CtHalfOpen        kernel.Map `ebpf:"ct_half_open"`
	Current           kernel.Map `ebpf:"current"`
	Drops             kernel.Map `ebpf:"drops"`
	EgressPolicies    kernel.Map `ebpf:"egress_policies"`
	Events            kernel.Map `ebpf:"events"`
	Fdb               kernel.Map `ebpf:"fdb"`
	Flows             kernel.Map `ebpf:"flows"`
	Fragments         kernel.Map `ebpf:"fragments"`
	GlobalCounters    kernel.Map `ebpf:"global_counters"`
	HostEventBuckets  kernel.Map `ebpf:"host_event_buckets"`
	HostEvents        kernel.Map `ebpf:"host_events"`
	KnownOptions      kernel.Map `ebpf:"known_options"`
	LimitEntries      kernel.Map `ebpf:"limit_entries"`
	LimitLargest      kernel.Map `ebpf:"limit_largest"`
	LocalAddrs        kernel.Map `ebpf:"local_addrs"`
	Logs              kernel.Map `ebpf:"logs"`
	Members           kernel.Map `ebpf:"members"`
	NatEvents         kernel.Map `ebpf:"nat_events"`
	NatFragments      kernel.Map `ebpf:"nat_fragments"`
	NatHostCounts     kernel.Map `ebpf:"nat_host_counts"`
	NatInbound        kernel.Map `ebpf:"nat_inbound"`
	NatOver           kernel.Map `ebpf:"nat_over"`
	NatReverse        kernel.Map `ebpf:"nat_reverse"`
	NatSessions       kernel.Map `ebpf:"nat_sessions"`
	NeighbourRequests kernel.Map `ebpf:"neighbour_requests"`
	Neighbours        kernel.Map `ebpf:"neighbours"`
	NexthopGroups     kernel.Map `ebpf:"nexthop_groups"`
	Nexthops          kernel.Map `ebpf:"nexthops"`
	OwnerDrops        kernel.Map `ebpf:"owner_drops"`
	OwnerLimits       kernel.Map `ebpf:"owner_limits"`
	OwnerUsages       kernel.Map `ebpf:"owner_usages"`
	PathGroups        kernel.Map `ebpf:"path_groups"`
	PathReports       kernel.Map `ebpf:"path_reports"`
	Policy            kernel.Map `ebpf:"policy"`
	Pool              kernel.Map `ebpf:"pool"`
	PortForwards      kernel.Map `ebpf:"port_forwards"`
	Ports             kernel.Map `ebpf:"ports"`
	Remotes           kernel.Map `ebpf:"remotes"`
	Routers           kernel.Map `ebpf:"routers"`
	Routes            kernel.Map `ebpf:"routes"`
	Rules             kernel.Map `ebpf:"rules"`
	Segments          kernel.Map `ebpf:"segments"`
	Stamped           kernel.Map `ebpf:"stamped"`
	Teps              kernel.Map `ebpf:"teps"`
	Trace             kernel.Map `ebpf:"trace"`
	Traffic           kernel.Map `ebpf:"traffic"`
	TransitCache      kernel.Map `ebpf:"transit_cache"`
	TransitTables     kernel.Map `ebpf:"transit_tables"`
	TxDevmap          kernel.Map `ebpf:"tx_devmap"`
	TxDevmapGeneric   kernel.Map `ebpf:"tx_devmap_generic"`
	Vnis              kernel.Map `ebpf:"vnis"`
	Vports            kernel.Map `ebpf:"vports"`
	XdpInterfaces     kernel.Map `ebpf:"xdp_interfaces"`
}

// assignObjects gives loaded maps and programs their names.
func assignObjects(loaded *kernel.Objects) objects {
	o := objects{Objects: loaded}
	v := reflect.ValueOf(&o).Elem()
	for i := range v.NumField() {
		name, named := v.Type().Field(i).Tag.Lookup("ebpf")
		if m, ok := loaded.Maps[name]; named && ok {
			v.Field(i).Set(reflect.ValueOf(m))
		}
		if p, ok := loaded.Programs[name]; named && ok {
			v.Field(i).Set(reflect.ValueOf(p))
		}
	}
	return o
}

// maps are the data path's by their names in the object file, less data of programs.
func (pr *programs) maps() map[string]kernel.Map {
	all := make(map[string]kernel.Map, len(pr.objs.Maps))
	for name, m := range pr.objs.Maps {
		if name[0] != '.' {
			all[name] = m
		}
	}
	return all
}
