package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"

	"github.com/selvage/selvage/kube/internal/plan"
)

// First writes the file of a node's edge as it is without any policy, where there is none: edge and agent start in any order then.
func First(file, node string, address netip.Addr) error {
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	host, err := Host(address)
	if err != nil {
		return err
	}
	p, err := nothing(node, address, host)
	if err != nil {
		return err
	}
	return write(file, p.Edge)
}

// nothing is the plan of a node without any policy, and with no other node.
func nothing(node string, address netip.Addr, host plan.Host) (plan.Plan, error) {
	family := plan.IPv4
	if address.Is6() {
		family = plan.IPv6
	}
	p, err := plan.Make(plan.Input{
		Node: node, Nodes: []plan.Node{{Name: node, Addresses: []netip.Addr{address}}}, Host: host, Settings: plan.Settings{LinkUp: plan.DefaultLinkPair, TunnelIP: family},
	})
	if err != nil {
		return p, fmt.Errorf("file of an edge without policies: %w", err)
	}
	return p, nil
}
