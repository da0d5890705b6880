package apiserver

import (
	"fmt"
	"net/url"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/metrics"
)

func (d documents) drops() ([]api.DropInfo, error) {
	return read(d.o.Edge, "drops", func(e *State) ([]api.DropInfo, error) {
		drops, err := e.DataPath.Drops.Drops()
		if err != nil {
			return nil, err
		}
		list := make([]api.DropInfo, 0, len(drops))
		for _, d := range drops {
			list = append(list, api.DropInfo(d))
		}
		return list, nil
	})
}

// ownerKinds are those by which drops are listed.
var ownerKinds = []string{string(datapath.OwnerPort), string(datapath.OwnerSegment), string(datapath.OwnerRemote)}

func (d documents) ownerDrops(v url.Values) ([]api.OwnerDropInfo, error) {
	kind, err := OwnerKindOf(v)
	if err != nil {
		return nil, err
	}
	return read(d.o.Edge, "drops", func(e *State) ([]api.OwnerDropInfo, error) {
		drops, err := e.DataPath.Drops.OwnerDrops(kind)
		return OwnerDropInfos(drops), err
	})
}

// OwnerKindOf reads the kind of owners from a question for their drops.
func OwnerKindOf(v url.Values) (datapath.OwnerKind, error) {
	a := api.Arguments{Values: v}
	kind := a.OneOf(api.ArgBy, ownerKinds)
	if err := a.End(); err != nil {
		return "", err
	}
	if kind == "" {
		return "", api.BadRequest{Err: fmt.Errorf("%s is required: one of %v", api.ArgBy, ownerKinds)}
	}
	return datapath.OwnerKind(kind), nil
}

// OwnerDropInfos are drops as documents have them.
func OwnerDropInfos(drops []datapath.OwnerDrop) []api.OwnerDropInfo {
	list := make([]api.OwnerDropInfo, 0, len(drops))
	for _, d := range drops {
		list = append(list, api.OwnerDropInfo{Kind: string(d.Kind), Owner: d.Owner, DropInfo: api.DropInfo(d.Drop)})
	}
	return list
}

func dropMetrics(p *metrics.Page, drops []datapath.Drop) {
	const packets, bytes = "selvage_drops_total", "selvage_dropped_bytes_total"
	p.Family(metrics.Counter, packets, "Packets that were dropped, by reason.")
	for _, d := range drops {
		p.Count(d.Packets, "reason", d.Reason)
	}
	p.Family(metrics.Counter, bytes, "Bytes of packets that were dropped, by reason.")
	for _, d := range drops {
		p.Count(d.Bytes, "reason", d.Reason)
	}
}
