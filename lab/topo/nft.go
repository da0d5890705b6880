package topo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// ClampMSS has the bridges of the host lower the MSS in TCP SYNs to what a path of
// mtu bytes carries: 40 less over IPv4, 60 over IPv6. It never raises one.
func (h *Host) ClampMSS(ctx context.Context, mtu int) error {
	return h.nft(ctx, "clamp", fmt.Sprintf(`table bridge clamp {
	chain forward {
		type filter hook forward priority 0;
		ether type ip tcp flags syn tcp option maxseg size set %d
		ether type ip6 tcp flags syn tcp option maxseg size set %d
	}
}
`, mtu-40, mtu-60))
}

// DropTooBig keeps "too big" messages from the host's own stack, as a careless
// firewall does.
func (h *Host) DropTooBig(ctx context.Context) error {
	return h.nft(ctx, "deaf", `table inet deaf {
	chain input {
		type filter hook input priority 0;
		icmp type destination-unreachable icmp code frag-needed drop
		icmpv6 type packet-too-big drop
	}
}
`)
}

// nft loads a ruleset of nftables; name tells it from the host's others.
func (h *Host) nft(ctx context.Context, name, rules string) error {
	file := filepath.Join(h.lab.Dir, h.Name+"-"+name+".nft")
	if err := os.WriteFile(file, []byte(rules), 0o644); err != nil {
		return fmt.Errorf("rules %s: %w", name, err)
	}
	if _, err := h.Output(ctx, "nft", "-f", file); err != nil {
		return fmt.Errorf("rules %s on %s: %w", name, h.Name, err)
	}
	return nil
}
