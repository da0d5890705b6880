package compare

import (
	"slices"

	"github.com/selvage/selvage/internal/doctor"
)

// Checks that this package asks for by name.
const (
	offloads = "offloads"
	mtu      = "mtu"
)

// concern is what a kind of difference means.
type concern struct {
	check    string
	severity doctor.Severity
	why      string
	measure  []string
}

const (
	both = "iperf3 -c SERVER -t 10; iperf3 -c SERVER -t 10 -R  # both directions: a difference shows as one between them"
	load = "mpstat -P ALL 1  # at both hosts, during iperf3 -c SERVER -t 10"
)

// concerns are all kinds of differences that matter, the likeliest cause first.
func concerns() []concern {
	return []concern{
		{mtu, doctor.Warning, "The end with the larger MTU sends what the other, or the way to it, may not take, and a tunnel endpoint must not fragment (RFC 7348 section 4.3). " +
			"The FortiGate study: 9 Mbit/s in bursts with an MTU too large for its tunnel, 546 Mbit/s once it fitted.", []string{"ping -c 3 -M do -s SIZE PEER  # SIZE: the larger MTU less 28", both}},
		{offloads, doctor.Warning, "One end without an offload bounds both. Kernel vxlan with tx off at both ends: 4.4 instead of 15.0 Gbit/s (Selvage's own measurement, veth, 2 cores); " +
			"the EgressGateway study: tunnel checksum offload off 2.5, on 8.9 Gbit/s. On some kernels and adapters, on is slower or corrupts packets: time both.", []string{both, load}},
		{"rss", doctor.Warning, "The end whose hash does not see the ports of outer UDP receives all flows of a remote by one queue (RFC 7348 section 5). " +
			"One queue is one core: the NSX edge study forwarded at most 2.4 to 2.5 Mpps per core.", []string{"iperf3 -c SERVER -t 10 -P 16; iperf3 -c SERVER -t 10 -P 16 -R", load}},
		{"kernel", doctor.Note, "Tunnels, GRO and drivers change with the kernel. On Linux 6.12 and newer, some report 50 to 300 Mbit/s over VXLAN until tx-checksum-ip-generic is off, and more than 9 Gbit/s then " +
			"(github.com/projectcalico/calico/issues/11435).", []string{both}},
		{"driver", doctor.Note, "Offloads of tunnels are the driver's and the firmware's. The QLogic study: they gave +19 % throughput at 10G, and +18 % with 24 % less CPU at 25G.", []string{both}},
		{"mitigations", doctor.Note, "Each entry into the kernel, and with retpolines each indirect call on a packet's way, costs more with some mitigations. No figure of it is known to Selvage.", []string{load}},
		{"interfaces", doctor.Note, "The two ends are not built alike, so that figures of one say nothing of the other.", []string{both}},
		{"speed", doctor.Note, "The slower link bounds both, and a faster sender overruns it in bursts.", []string{both}},
		{"bond", doctor.Note, "Hash policy and mode decide which link a tunnel's flows take: without the outer source port, one. The NSX edge study: 79.8 to 95.7 Gbit/s offered on one link, 189.6 on two.", []string{"iperf3 -c SERVER -t 10 -P 16", "cat /proc/net/bonding/BOND"}},
		{"queues", doctor.Note, "One queue is one core: the NSX edge study forwarded at most 2.4 to 2.5 Mpps per core.", []string{load}},
		{"rings", doctor.Note, "At 2.5 Mpps, what the NSX edge study forwarded per core, 512 descriptors last 205 µs: a longer pause of the core loses packets.", []string{"ethtool -S DEV | grep -iE 'drop|miss|no_buf|fifo'  # before and after iperf3 -c SERVER -u -b 0 -t 10"}},
		{"coalescing", doctor.Note, "The delay before an interrupt is part of every round trip.", []string{"ping -c 100 -i 0.01 PEER"}},
		{"pause", doctor.Note, "One slow receiver that sends pause frames stops the whole link, up to 3.4 ms at 10 Gbit/s (IEEE 802.3 annex 31B).", []string{"ethtool -S DEV | grep -iE 'pause|xo(n|ff)'"}},
		{"interrupts", doctor.Note, "Interrupts are where packets are received: as many cores work as they are on.", []string{load}},
		{"numa", doctor.Note, "Interrupts on another node than the slot's read each packet's memory over the link between sockets, one of the limits that the NSX edge study names on its way to 189.6 Gbit/s.", []string{"numastat  # numa_miss and other_node before and after"}},
		{"pcie", doctor.Note, "The limiter of the NSX edge study's 100G runs was a Gen4 x8 slot at about 96 Gbit/s.", []string{"iperf3 -c SERVER -t 10 -P 16  # without the tunnel"}},
		{"sr-iov", doctor.Note, "Virtual functions share the adapter's queues and bandwidth with it.", []string{both}},
		{"cpu", doctor.Note, "Packets per second scale with the core. The NSX edge study forwarded 2.4 to 2.5 Mpps per core.", []string{load}},
		{"hyper-threading", doctor.Note, "Two threads on one core get less than two cores. The NSX edge study had it off.", []string{load}},
		{"governor", doctor.Note, "Packets per second scale with the clock, and a core that has to speed up first costs latency. The NSX edge study had power saving off.", []string{"ping -c 100 -i 0.01 PEER", load}},
		{"idle", doctor.Note, "A core that sleeps takes the exit time of its state to wake: tens of µs are as much as a round trip.", []string{"ping -c 100 -i 0.01 PEER"}},
		{"memory", doctor.Note, "Each missing channel is memory bandwidth that packets do not get. The NSX edge study counts channels before it measures.", []string{load}},
		{"platform", doctor.Note, "In a virtual machine, its host decides about offloads, queues and time.", []string{both}},
		{"sysctl", doctor.Note, "Buffers, budgets and congestion control of the ends decide what one TCP stream reaches.", []string{both}},
	}
}

func concernOf(check string) concern {
	all := concerns()
	if i := order(check); i < len(all) {
		return all[i]
	}
	return concern{check: check, severity: doctor.Note, why: "The hosts are not alike.", measure: []string{both}}
}

// order is the position among all concerns, the last for one that has none.
func order(check string) int {
	i := slices.IndexFunc(concerns(), func(c concern) bool { return c.check == check })
	if i < 0 {
		return len(concerns())
	}
	return i
}
