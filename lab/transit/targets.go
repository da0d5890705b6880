package transit

import "github.com/selvage/selvage/lab/stats"

// Targets between a tester's interfaces, besides those of Selvage.
const (
	LimitName  = stats.Limit
	KernelName = stats.Kernel
	RouteName  = "kernel-route"
	OVSName    = "ovs"
	TCName     = "selvage-tc"
)

// Sizes that are not a frame's (RFC 2544 section 9.1): the packet of 1500 bytes is
// in the largest of frames. The smallest that the generator's IPv6 packets fit into is
// larger than Ethernet's.
const (
	MTUPacket = 1500
	MTUFrame  = 1518
	LeastIPv6 = 84
)
