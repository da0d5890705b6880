package apiserver

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
func (d documents) interfaces() ([]api.InterfaceInfo, error) {
	return read(d.o.Edge, "interfaces", func(e *State) ([]api.InterfaceInfo, error) {
		list := []api.InterfaceInfo{}
		add := func(name, role string) {
			i := slices.IndexFunc(list, func(o api.InterfaceInfo) bool { return o.Name == name })
			if i < 0 {
				i = len(list)
				list = append(list, interfaceInfo(e, name))
			}
			if !slices.Contains(list[i].Roles, role) {
				list[i].Roles = append(list[i].Roles, role)
			}
		}
		for _, name := range e.Config.Underlay.Interfaces {
			add(name, roleUnderlay)
		}
		for _, a := range plan.Attachments(e.Config) {
			if a.Router != "" {
				add(a.Interface, roleUplink)
			}
		}
		tables, _ := plan.Desired(e.Config, e.Host, e.Paths.InForce())
		for i, info := range list {
			list[i].TakesRedirected = slices.Contains(tables.TxDevices, info.Ifindex)
			if link, ok := e.Host.Links[info.Name]; ok && plan.HasTransit(e.Config) && !list[i].TakesRedirected {
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

// interfaceInfo is all but the roles and what depends on others.
func interfaceInfo(e *State, name string) api.InterfaceInfo {
	link := e.Host.Links[name]
	info := api.InterfaceInfo{Name: name, Ifindex: link.Index, Roles: []string{}, MTU: link.MTU}
	info.Hook, info.HookWhy = transitHook(e, name)
	return info
}

// transitHook says where packets that pass through an interface of the underlay or an
// uplink are taken, and why not by XDP in its driver.
func transitHook(e *State, name string) (hook, why string) {
	link, ok := e.Host.Links[name]
	if !ok {
		return "", "the interface does not exist"
	}
	if e.TablesFailed {
		return "", "not known, because the last change of the data path failed: see `selvage status`"
	}
	if refusal, ok := e.DataPath.Links.Refused()[link.Index]; ok {
		return hookTCX, "the driver refused the program: " + refusal
	}
	hook, why = plan.TransitHook(e.Config, link)
	if hook == plan.TransitByTC {
		hook = hookTCX
	}
	return hook, why
}
