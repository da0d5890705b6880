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

	Current           kernel.Map `ebpf:"current"`
	NeighbourRequests kernel.Map `ebpf:"neighbour_requests"`
	Policy            kernel.Map `ebpf:"policy"`
	Rules             kernel.Map `ebpf:"rules"`
	Stamped           kernel.Map `ebpf:"stamped"`
}

// assign gives loaded maps and programs to the fields of structs that have their names as tags.
func assign(loaded *kernel.Objects, into ...any) {
	for _, fields := range into {
		v := reflect.ValueOf(fields).Elem()
		for i := range v.NumField() {
			name := v.Type().Field(i).Tag.Get("ebpf")
			if m, ok := loaded.Maps[name]; ok {
				v.Field(i).Set(reflect.ValueOf(m))
			}
			if p, ok := loaded.Programs[name]; ok {
				v.Field(i).Set(reflect.ValueOf(p))
			}
		}
	}
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
