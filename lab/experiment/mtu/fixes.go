package mtu

import (
	"fmt"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Fix is one thing that ends a black hole, and how it is done.
type Fix struct {
	Case  string // of the samples that were taken with it, "" without any
	Short string // for a list of figures
	Title string
	Where string // the commands have to run
	// Commands are exact for what was measured; names of devices are the lab's.
	Commands []string
	Note     string // what it does not do
}

// Fixes are those that the MTU experiment tries, with the commands for the sizes of r.
func Fixes(r result.Result) []Fix {
	mtu, inner := r.Parameters.Int(pathMTUParameter(stats.Kernel)), r.Parameters.Int(guestMTU)
	if mtu == 0 {
		mtu = r.Environment.MTU["inner"]
	}
	need := inner + r.Parameters.Int(underlayMTU) - mtu
	return []Fix{
		{
			Case: "guest-mtu", Short: "a guest MTU of " + stats.Figure(float64(mtu)), Title: "Guests use the MTU of the path", Where: "in every guest",
			Commands: []string{fmt.Sprintf("ip link set dev eth0 mtu %d", mtu)},
			Note:     "Fixes all protocols, but one forgotten guest is enough to bring the hole back. DHCP option 26 and the MTU option of router advertisements tell guests.",
		},
		{
			Case: "clamp", Short: "a clamped MSS", Title: "The hosts clamp the MSS of SYNs", Where: "on both hosts",
			Commands: []string{
				"nft add table bridge clamp",
				"nft 'add chain bridge clamp forward { type filter hook forward priority 0; }'",
				fmt.Sprintf("nft add rule bridge clamp forward ether type ip tcp flags syn tcp option maxseg size set %d", mtu-40),
				fmt.Sprintf("nft add rule bridge clamp forward ether type ip6 tcp flags syn tcp option maxseg size set %d", mtu-60),
			},
			Note: "Fixes TCP alone: QUIC, DNS with large answers and tunnels inside the tunnel stay in the hole. Selvage does it by default (clampMSS).",
		},
		{
			Case: "messages", Short: "too-big messages", Title: "Whoever drops a packet reports it", Where: "on both hosts",
			Commands: []string{fmt.Sprintf("ip link set dev vxlan0 mtu %d", inner)},
			Note:     "The bridge then hands everything to the vxlan device, which finds what does not fit and answers the sender (Linux 5.9 or newer). Fixes everything that obeys ICMP; a guest whose firewall drops it stays in the hole. Selvage does it by default.",
		},
		{
			Short: "a larger underlay", Title: "The underlay carries more", Where: "on every hop between the hosts, switches too",
			Commands: []string{fmt.Sprintf("ip link set dev u0 mtu %d", need)},
			Note:     fmt.Sprintf("Changes nothing in the guests and gives them all %s bytes, once tunnel device and bridge have that MTU. Leave 200 bytes of headroom for Geneve options: %s.", stats.Figure(float64(inner)), stats.Figure(float64(inner+200))),
		},
	}
}
