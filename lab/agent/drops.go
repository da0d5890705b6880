package agent

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/ethtool"
	"github.com/selvage/selvage/lab/result"
)

// Stages at which a packet can be lost, from the wire up.
const (
	StageNIC       = "NIC"
	StageInterface = "interface"
	StageTunnel    = "tunnel"
	StageSoftnet   = "softnet"
	StageQdisc     = "qdisc"
	StageProtocol  = "protocol"
	StageReason    = "reason"
)

// Lost are the places where packets were lost, of what grew in a time, and what was not read.
func (w Watched) Lost() []result.Drop {
	drops := slices.Clone(w.Drops)
	for core, s := range w.Softnet {
		drops = add(drops, StageSoftnet, fmt.Sprintf("core %d", core), "dropped", s.Dropped)
	}
	for _, name := range lossCounters() {
		drops = add(drops, StageProtocol, "", name, w.Protocols[name])
	}
	return drops
}

func add(drops []result.Drop, stage, where, counter string, packets int64) []result.Drop {
	if packets <= 0 {
		return drops
	}
	return append(drops, result.Drop{Stage: stage, Where: where, Counter: counter, Packets: packets})
}

// lossCounters are those of protocols that count packets which nobody got.
func lossCounters() []string {
	return []string{
		"Ip.InHdrErrors", "Ip.InAddrErrors", "Ip.InDiscards", "Ip.OutDiscards", "Ip.OutNoRoutes", "Ip.ReasmFails", "Ip.FragFails", "IpExt.InCsumErrors",
		"Ip6InHdrErrors", "Ip6InTooBigErrors", "Ip6InDiscards", "Ip6OutDiscards", "Ip6OutNoRoutes", "Ip6ReasmFails", "Ip6FragFails",
		"Tcp.InErrs", "Tcp.InCsumErrors", "TcpExt.TCPBacklogDrop", "TcpExt.TCPRcvQDrop", "TcpExt.RcvPruned", "TcpExt.OfoPruned", "TcpExt.TCPZeroWindowDrop",
		"TcpExt.ListenOverflows", "TcpExt.ListenDrops", "TcpExt.TCPReqQFullDrop", "TcpExt.IPReversePathFilter",
		"Udp.RcvbufErrors", "Udp.SndbufErrors", "Udp.InCsumErrors", "Udp.MemErrors", "Udp6RcvbufErrors", "Udp6SndbufErrors", "Udp6InCsumErrors",
	}
}

// dropKey says of what a number is, for differences.
type dropKey struct{ stage, where, counter string }

// dropsSince is what grew.
func dropsSince(now, then []result.Drop) []result.Drop {
	before := map[dropKey]int64{}
	for _, d := range then {
		before[dropKey{d.Stage, d.Where, d.Counter}] += d.Packets
	}
	var grown []result.Drop
	for _, d := range now {
		grown = add(grown, d.Stage, d.Where, d.Counter, d.Packets-before[dropKey{d.Stage, d.Where, d.Counter}])
	}
	return grown
}

// readDrops reads the counters of losses that interfaces, their drivers and their qdiscs have, and of frames of flow control.
func readDrops() (drops []result.Drop, pauses map[string]int64, err error) {
	links, err := dump("interfaces", unix.RTM_GETLINK, unix.SizeofIfInfomsg)
	if err != nil {
		return nil, nil, err
	}
	names := map[int32]string{}
	for _, m := range links {
		if m.Header.Type != unix.RTM_NEWLINK || len(m.Data) < unix.SizeofIfInfomsg {
			continue
		}
		attrs := attributes(m.Data, unix.SizeofIfInfomsg)
		name := unix.ByteSliceToString(attrs[unix.IFLA_IFNAME])
		names[int32(binary.NativeEndian.Uint32(m.Data[4:]))] = name
		drops = append(drops, linkDrops(name, attrs)...)
	}
	qdiscs, err := dump("qdiscs", unix.RTM_GETQDISC, sizeofTcmsg)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range qdiscs {
		if m.Header.Type != unix.RTM_NEWQDISC || len(m.Data) < sizeofTcmsg {
			continue
		}
		name := names[int32(binary.NativeEndian.Uint32(m.Data[4:]))]
		attrs := attributes(m.Data, sizeofTcmsg)
		// struct gnet_stats_queue: qlen, backlog, drops, requeues, overlimits.
		if queue := attributes(attrs[tcaStats2], 0)[tcaStatsQueue]; len(queue) >= 12 {
			kind := unix.ByteSliceToString(attrs[unix.TCA_KIND])
			drops = append(drops, result.Drop{Stage: StageQdisc, Where: name + " " + kind, Counter: "dropped", Packets: int64(binary.NativeEndian.Uint32(queue[8:]))})
		}
	}
	lost, pauses := driverCounters(names)
	return append(drops, lost...), pauses, nil
}

// Of linux/rtnetlink.h, pkt_sched.h and gen_stats.h.
const (
	sizeofTcmsg   = 20
	tcaStats2     = 7
	tcaStatsQueue = 3
)

// linkDrops are those of struct rtnl_link_stats64 (linux/if_link.h).
func linkDrops(name string, attrs map[uint16][]byte) (drops []result.Drop) {
	stage := StageInterface
	if kind := unix.ByteSliceToString(attributes(attrs[unix.IFLA_LINKINFO], 0)[unix.IFLA_INFO_KIND]); isTunnel(kind) {
		stage = StageTunnel
	}
	stats := attrs[unix.IFLA_STATS64]
	for field, counter := range map[int]string{
		4: "rx_errors", 5: "tx_errors", 6: "rx_dropped", 7: "tx_dropped", 11: "rx_over_errors", 12: "rx_crc_errors", 14: "rx_fifo_errors",
		15: "rx_missed_errors", 16: "tx_aborted_errors", 17: "tx_carrier_errors", 18: "tx_fifo_errors", 23: "rx_nohandler",
	} {
		at := stage
		if slices.Contains([]string{"rx_over_errors", "rx_crc_errors", "rx_fifo_errors", "rx_missed_errors"}, counter) {
			at = StageNIC // its ring had no room, or the wire was bad
		}
		if len(stats) >= 8*(field+1) {
			drops = append(drops, result.Drop{Stage: at, Where: name, Counter: counter, Packets: int64(binary.NativeEndian.Uint64(stats[8*field:]))})
		}
	}
	return drops
}

func isTunnel(kind string) bool {
	return slices.Contains([]string{
		"vxlan", "geneve", "gre", "gretap", "ip6gre", "ip6gretap", "ipip", "ip6tnl", "sit", "erspan", "ip6erspan", "wireguard", "vti", "vti6", "xfrm", "gtp", "bareudp",
	}, kind)
}

// What drivers call the packets that they lost, and the frames of flow control (IEEE 802.3 annex 31B).
var (
	lostCounter  = regexp.MustCompile(`drop|miss|discard|no_?buf|no_?desc|out_of_buffer|\boob\b|overflow|overrun|ring_?full|csum_err|crc_err|timeout`)
	pauseCounter = regexp.MustCompile(`pause|flow_control|x(on|off)\b`)
)

// driverCounters are the losses that drivers count themselves: a ring without room, a queue that was full; and the frames of
// flow control.
func driverCounters(names map[int32]string) (drops []result.Drop, pauses map[string]int64) {
	pauses = map[string]int64{}
	tool, err := ethtool.Open()
	if err != nil {
		return nil, pauses
	}
	defer tool.Close()
	for _, name := range names {
		stats, err := tool.Stats(name)
		if err != nil {
			continue // most virtual interfaces have none
		}
		for counter, n := range stats {
			switch counter = strings.TrimSpace(counter); {
			case lostCounter.MatchString(strings.ToLower(counter)):
				drops = append(drops, result.Drop{Stage: StageNIC, Where: name, Counter: counter, Packets: int64(n)})
			case pauseCounter.MatchString(strings.ToLower(counter)):
				pauses[name] += int64(n)
			}
		}
	}
	return drops, pauses
}
