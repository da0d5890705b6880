package dut

import (
	"context"
	"fmt"

	"github.com/selvage/selvage/lab/topo"
)

// ClampMSS has the bridges of the host lower the MSS in TCP SYNs to what a path of
// mtu bytes carries: 40 less over IPv4, 60 over IPv6. It never raises one.
func ClampMSS(ctx context.Context, h *topo.Host, mtu int) error {
	return h.Nft(ctx, "clamp", fmt.Sprintf(`table bridge clamp {
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
func DropTooBig(ctx context.Context, h *topo.Host) error {
	return h.Nft(ctx, "deaf", `table inet deaf {
	chain input {
		type filter hook input priority 0;
		icmp type destination-unreachable icmp code frag-needed drop
		icmpv6 type packet-too-big drop
	}
}
`)
}
