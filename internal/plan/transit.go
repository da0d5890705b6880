package plan

import (
	"fmt"
	"slices"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// How an interface takes packets that only pass through.
const (
	TransitByNative  = "xdp"
	TransitByGeneric = "xdpgeneric"
	TransitByTC      = "tc"
)

// pageMTU is what fits a page with the room that XDP wants before and behind a frame.
const pageMTU = 3498

// HasTransit reports whether e may have transit programs at all.
func HasTransit(e overlay.Edge) bool {
	switch e.Transit.Mode {
	case overlay.TransitTC:
		return false
	case overlay.TransitNative, overlay.TransitGeneric:
		return true
	}
	return slices.ContainsFunc(e.Routers, func(r overlay.Router) bool { return len(r.Uplinks) > 0 })
}

// TransitHook says how the link takes packets that only pass through, as an underlay
// or uplink of e, and why not by XDP in its driver.
func TransitHook(e overlay.Edge, link host.Link) (hook, why string) {
	if !HasTransit(e) {
		if e.Transit.Mode == overlay.TransitTC {
			return TransitByTC, "transit.mode is tc"
		}
		return TransitByTC, "the edge has no uplinks"
	}
	if e.Transit.Mode == overlay.TransitGeneric {
		return TransitByGeneric, "transit.mode is generic"
	}
	switch {
	case e.Transit.Mode != overlay.TransitNative && link.Kind == "veth":
		return TransitByTC, "XDP would turn off segmentation offload at the veth's other end: set transit.mode to native where that does not matter"
	case !link.XDP.Known:
		return TransitByTC, "the kernel does not report what the driver can do (Linux 6.3 does)"
	case !link.XDP.Takes:
		return TransitByTC, "the driver has no XDP with redirects"
	case link.XDP.HidesTags && !link.XDP.TellsTags:
		return TransitByTC, "the driver may strip 802.1Q tags, so that XDP does not see them: turn that off with `ethtool -K " + link.Name + " rxvlan off`"
	case link.MTU > pageMTU && !link.XDP.TakesJumbo:
		return TransitByTC, fmt.Sprintf("the driver's XDP does not support an MTU of %d", link.MTU)
	}
	return TransitByNative, ""
}

// desiredTransit are the interfaces with a transit program, and those that take
// packets from one.
func desiredTransit(e overlay.Edge, v host.State) (transit []fib.Transit, exits []int, problems []problem.Problem) {
	if !HasTransit(e) {
		return nil, nil, nil
	}
	underlay, uplink := make(map[string]bool), make(map[string]bool)
	names := slices.Clone(e.Underlay.Interfaces)
	for _, name := range names {
		underlay[name] = true
	}
	for _, r := range e.Routers {
		for _, u := range r.Uplinks {
			names, uplink[u.Interface] = append(names, u.Interface), true
		}
	}
	seen := make(map[int]bool)
	for _, name := range names {
		link, ok := v.Links[name]
		if !ok || seen[link.Index] {
			continue
		}
		seen[link.Index] = true
		hook, why := TransitHook(e, link)
		if hook == TransitByGeneric || takesRedirected(link) {
			exits = append(exits, link.Index)
		}
		if hook != TransitByTC {
			transit = append(transit, fib.Transit{
				Ifindex: link.Index, MAC: link.MAC, Underlay: underlay[name], Uplink: uplink[name], Generic: hook == TransitByGeneric,
				CsumPartial: link.XDP.CsumPartial, AsksTags: hook == TransitByNative && link.XDP.HidesTags,
			})
		}
		if e.Transit.Mode == overlay.TransitNative && hook != TransitByNative {
			problems = append(problems, problem.Warning("interface %s: transit.mode is native, but %s: transit packets are handled by tc", name, why))
		}
	}
	return transit, exits, problems
}

func takesRedirected(link host.Link) bool {
	return link.XDP.Sends && (link.MTU <= pageMTU || link.XDP.SendsJumbo)
}
