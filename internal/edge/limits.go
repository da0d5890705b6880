package edge

import (
	"fmt"
	"net/url"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
)

// portLimits are those of ports, by name. mu is held.
func (e *edge) portLimits() (map[string][]api.LimitInfo, error) {
	all, err := alarm.ReadLimits(e.dp.Limits)
	limits := map[string][]api.LimitInfo{}
	for _, l := range all {
		if l.Kind == string(datapath.OwnerPort) {
			limits[l.Owner] = append(limits[l.Owner], l)
		}
	}
	return limits, err
}

func (e *edge) limitDocuments() ([]api.LimitInfo, error) {
	return read(e, "limits", func() ([]api.LimitInfo, error) {
		list, err := alarm.ReadLimits(e.dp.Limits)
		return append([]api.LimitInfo{}, list...), err
	})
}

// ownerKinds are those by which drops are listed.
var ownerKinds = []string{string(datapath.OwnerPort), string(datapath.OwnerSegment), string(datapath.OwnerRemote)}

func (e *edge) ownerDropDocuments(v url.Values) ([]api.OwnerDropInfo, error) {
	a := api.Arguments{Values: v}
	kind := a.OneOf(api.ArgBy, ownerKinds)
	if err := a.End(); err != nil {
		return nil, err
	}
	if kind == "" {
		return nil, api.BadRequest{Err: fmt.Errorf("%s is required: one of %v", api.ArgBy, ownerKinds)}
	}
	return read(e, "drops", func() ([]api.OwnerDropInfo, error) {
		drops, err := e.dp.Drops.OwnerDrops(datapath.OwnerKind(kind))
		list := make([]api.OwnerDropInfo, 0, len(drops))
		for _, d := range drops {
			list = append(list, api.OwnerDropInfo{Kind: string(d.Kind), Owner: d.Owner, DropInfo: api.DropInfo(d.Drop)})
		}
		return list, err
	})
}

// limitMetrics have series of what is used, or was exceeded: they are as many as there is to see.
func (e *edge) limitMetrics(p *page) error {
	limits, err := alarm.ReadLimits(e.dp.Limits)
	if err != nil {
		return err
	}
	const used, most, exceeded, raised = "selvage_limit_used", "selvage_limit_max", "selvage_limit_exceeded_total", "selvage_limit_alarm"
	isUsed := func(l api.LimitInfo) bool { return l.Used > 0 }
	isExceeded := func(l api.LimitInfo) bool { return l.Exceeded > 0 }
	for _, m := range []struct {
		kind, name, help string
		shown            func(api.LimitInfo) bool
		value            func(api.LimitInfo) uint64
	}{
		{gauge, used, "Entries that a port or segment has of what has a limit.", isUsed, func(l api.LimitInfo) uint64 { return uint64(l.Used) }},
		{gauge, most, "The limit of a port or segment of which some is used.", isUsed, func(l api.LimitInfo) uint64 { return uint64(l.Max) }},
		{counter, exceeded, "Entries and packets above the limit of a port or segment.", isExceeded, func(l api.LimitInfo) uint64 { return l.Exceeded }},
		{gauge, raised, "1 while a port or segment exceeds the limit.", isExceeded, func(l api.LimitInfo) uint64 {
			return flag(e.alarms.limits.IsExceeded(l))
		}},
	} {
		p.family(m.kind, m.name, m.help)
		for _, l := range limits {
			if m.shown(l) {
				p.sample(m.name, m.value(l), "kind", l.Kind, "owner", l.Owner, "limit", l.Limit)
			}
		}
	}
	return nil
}

// ownerDropMetrics have a series for each owner and reason that has drops.
func (e *edge) ownerDropMetrics(p *page) error {
	const name = "selvage_owner_drops_total"
	p.family(counter, name, "Packets of a port, segment or remote that were dropped, by reason.")
	for _, kind := range ownerKinds {
		drops, err := e.dp.Drops.OwnerDrops(datapath.OwnerKind(kind))
		if err != nil {
			return err
		}
		for _, d := range drops {
			if d.Owner != "" {
				p.sample(name, d.Packets, "kind", kind, "owner", d.Owner, "reason", d.Reason)
			}
		}
	}
	return nil
}
