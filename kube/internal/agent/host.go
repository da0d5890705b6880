package agent

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/selvage/selvage/kube/internal/plan"
)

// Host looks at the interfaces of the network namespace that it is called in: the one with the node's address, and the
// addresses of all.
func Host(endpoint netip.Addr) (plan.Host, error) {
	h := plan.Host{Uplinks: map[string][]netip.Prefix{}}
	list, err := net.Interfaces()
	if err != nil {
		return h, fmt.Errorf("interfaces of the node: %w", err)
	}
	for _, i := range list {
		addrs, err := i.Addrs()
		if err != nil {
			continue // it has just gone
		}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err != nil || p.Addr().IsLinkLocalUnicast() || p.Addr().IsLoopback() {
				continue
			}
			if p.Addr() == endpoint {
				h.Underlay = i.Name
			}
			h.Uplinks[i.Name] = append(h.Uplinks[i.Name], p)
		}
	}
	if h.Underlay == "" {
		return h, fmt.Errorf("no interface of the node has its address %s", endpoint)
	}
	return h, nil
}
