package apiserver

import (
	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/plan"
)

func (d documents) ports() ([]api.PortInfo, error) {
	return read(d.o.Edge, "ports", func(e *State) ([]api.PortInfo, error) {
		counters, err := e.DataPath.Counters.Ports()
		if err != nil {
			return nil, err
		}
		limits, err := portLimits(e)
		if err != nil {
			return nil, err
		}
		attachments := plan.Attachments(e.Config)
		list := make([]api.PortInfo, 0, len(attachments))
		for _, a := range attachments {
			c := counters[a.Name]
			info := api.PortInfo{
				Name: a.Name, Interface: a.Interface, VLAN: a.VLAN, Trunk: a.Trunk, Router: a.Router, Segment: a.Segment,
				State: portState(e.Host, a), Hook: hookTCX,
				RxPackets: c.Rx.Packets, RxBytes: c.Rx.Bytes, TxPackets: c.Tx.Packets, TxBytes: c.Tx.Bytes, Drops: c.Drops,
				Limits: append([]api.LimitInfo{}, limits[a.Name]...),
			}
			if link, ok := e.Host.Links[a.Interface]; ok {
				info.Ifindex, info.MTU, info.Deliver = link.Index, link.MTU, deliverRedirect
				if plan.ByPeer(link) {
					info.Deliver = deliverPeer
				}
			}
			if a.Router != "" {
				info.Hook, info.HookWhy = transitHook(e, a.Interface)
			}
			list = append(list, info)
		}
		return list, nil
	})
}

func portState(v host.State, a plan.Attachment) string {
	link, ok := v.Links[a.Interface]
	switch {
	case !ok:
		return stateAbsent
	case link.Up:
		return stateUp
	}
	return stateDown
}
