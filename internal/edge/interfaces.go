package edge

import (
	"fmt"
	"slices"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/plan"
)

// Roles of interfaces that packets may pass through.
const roleUnderlay, roleUplink = "underlay", "uplink"

// interfaceDocuments lists those of the underlay, then uplinks; one that is both is
// listed once.
func (e *edge) interfaceDocuments() ([]api.InterfaceInfo, error) {
	return read(e, "interfaces", func() ([]api.InterfaceInfo, error) {
		list := []api.InterfaceInfo{}
		add := func(name, role string) {
			i := slices.IndexFunc(list, func(o api.InterfaceInfo) bool { return o.Name == name })
			if i < 0 {
				i = len(list)
				list = append(list, e.interfaceInfo(name))
			}
			if !slices.Contains(list[i].Roles, role) {
				list[i].Roles = append(list[i].Roles, role)
			}
		}
		for _, name := range e.config.Underlay.Interfaces {
			add(name, roleUnderlay)
		}
		for _, a := range plan.Attachments(e.config) {
			if a.Router != "" {
				add(a.Interface, roleUplink)
			}
		}
		tables, _ := plan.Desired(e.config, e.hostState, e.pathSelector.inForce().pathPolicies)
		for i, info := range list {
			list[i].TakesRedirected = slices.Contains(tables.TxDevices, info.Ifindex)
			if link, ok := e.hostState.Links[info.Name]; ok && plan.HasTransit(e.config) && !list[i].TakesRedirected {
				list[i].RedirectWhy = redirectWhy(link)
			}
		}
		return list, nil
	})
}

// redirectWhy says why transit programs cannot send through the link.
func redirectWhy(link host.Link) string {
	switch {
	case !link.XDP.Known:
		return "the kernel does not report whether it accepts redirected packets (Linux 6.3 does)"
	case !link.XDP.Sends:
		return "it does not accept redirected packets (a veth does while its peer has GRO or an XDP program), so tc sends those that leave here"
	}
	return fmt.Sprintf("it does not accept redirected frames with an MTU of %d, so tc sends those that leave here", link.MTU)
}

// interfaceInfo is all but the roles and what depends on others. mu is held.
func (e *edge) interfaceInfo(name string) api.InterfaceInfo {
	link := e.hostState.Links[name]
	info := api.InterfaceInfo{Name: name, Ifindex: link.Index, Roles: []string{}, MTU: link.MTU}
	info.Hook, info.HookWhy = e.transitHook(name)
	return info
}

// applyTables names the fault of tables that are not in force.
const applyTables = "apply to the data path"

// transitHook says where packets that pass through an interface of the underlay or an
// uplink are taken, and why not by XDP in its driver. mu is held.
func (e *edge) transitHook(name string) (hook, why string) {
	link, ok := e.hostState.Links[name]
	if !ok {
		return "", "the interface does not exist"
	}
	if e.faults.of(applyTables) != nil {
		return "", "not known, because the last change of the data path failed: see `selvage status`"
	}
	if refusal, ok := e.dp.Links.Refused()[link.Index]; ok {
		return hookTCX, "the driver refused the program: " + refusal
	}
	hook, why = plan.TransitHook(e.config, link)
	if hook == plan.TransitByTC {
		hook = hookTCX
	}
	return hook, why
}
