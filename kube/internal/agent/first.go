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
	family := plan.IPv4
	if address.Is6() {
		family = plan.IPv6
	}
	p, err := plan.Make(plan.Input{
		Node: node, Nodes: []plan.Node{{Name: node, Addresses: []netip.Addr{address}}}, Host: host, Settings: plan.Settings{LinkUp: plan.DefaultLinkPair, TunnelIP: family},
	})
	if err != nil {
		return fmt.Errorf("first file of the edge: %w", err)
	}
	return write(file, p.Edge)
}
