// Package measure holds the lab's instruments: TCP throughput, request/response
// latency, small-packet rate, CPU time, and the record of the environment.
//
// Its one invariant: an instrument returns a result.Sample whose figures all
// come from one and the same run, in the units of docs/reference/experiments.md, or an
// error, never a figure that a run did not finish. It does not build networks
// (lab/topo) and does not judge (lab/stats).
package measure

import (
	"net/netip"
	"time"

	"github.com/selvage/selvage/lab/cores"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/topo"
)

// Ends are where an instrument's two processes run.
type Ends struct {
	Client, Server *topo.Host
	Addr           netip.Addr // the server's
}

// EndsOf are the end systems of the standard topology on the family, 4 or 6.
func EndsOf(n *topo.TwoHosts, family int) Ends {
	return Ends{Client: n.Client, Server: n.Server, Addr: n.ServerAddr(family)}
}

// EndsOfPair are a client and its server on the family, 4 or 6.
func EndsOfPair(p topo.Pair, family int) Ends {
	return Ends{Client: p.Client, Server: p.Server, Addr: p.ServerAddr(family)}
}

// Metrics are named as in result.json.
const (
	TCPThroughput = result.TCPThroughput
	TCPSent       = "tcp_sent"     // Gbit/s of payload sent
	Retransmits   = "retransmits"  // TCP segments
	CPUPerGB      = "cpu_per_gb"   // busy CPU seconds per 10⁹ bytes received
	MSS           = "mss"          // bytes, in use in mid-run
	RTT           = "rtt"          // µs, TCP's smoothed estimate in mid-run
	Cwnd          = "cwnd"         // segments, in mid-run
	RRP1          = "rr_p1"        // µs, of the fastest hundredth: what nothing held up
	RRP50         = "rr_p50"       // µs
	RRP99         = "rr_p99"       // µs
	RRP999        = "rr_p999"      // µs
	RRP9999       = "rr_p9999"     // µs
	RRByRate      = "rr_rtt"       // µs, one by the rate: what netperf's figures are
	RRMean        = "rr_mean"      // µs
	RRRate        = "rr_rate"      // transactions a second
	CRRRate       = "crr_rate"     // connections a second, each for one transaction, one at a time
	CRRP50        = "crr_p50"      // µs to connect, ask, be answered and see the end
	CRRP99        = "crr_p99"      // µs
	ConnRate      = "conn_rate"    // connections a second, many at once
	ConnFailed    = "conn_failed"  // connections that were refused, reset or not answered in time
	UDPRate       = "udp_pps"      // kpps received
	UDPSentRate   = "udp_sent_pps" // kpps sent
	UDPLoss       = "udp_loss"     // share of the sent packets, 0 … 1
	UDPLossPPM    = "udp_loss_ppm" // of a million sent packets
	CPUSteal      = result.CPUSteal
	Streams       = "streams"        // TCP connections at a time
	PathMTU       = "path_mtu"       // bytes, what TCP believes at the end
	LargestSize   = "largest_size"   // bytes of the largest IP packet that arrives, of the worst flow
	LargestBest   = "largest_best"   // the same of the best flow
	ReportedMTU   = "reported_mtu"   // bytes: the MTU that a "too big" message named, 0 without one
	BelievedMTU   = "believed_mtu"   // bytes, of the path by its sender's kernel before the search
	ReportedFlows = "reported_flows" // flows that got such a message
	Flows         = "flows"          // source ports that were tried
)

// Series have one value an interval, which is a second with iperf3; LargestSeries
// and ReportedSeries have one a flow.
const (
	TCPSeries        = result.TCPSeries   // received
	WrittenSeries    = "tcp_written_gbps" // by the sending program
	RetransmitSeries = "retransmits"
	LargestSeries    = "largest_size"
	ReportedSeries   = "reported_mtu"
)

// Pin is the cores of an instrument's two processes; Unpinned leaves one
// to the scheduler.
type Pin struct{ Client, Server int }

// Unpinned stands for any core.
const Unpinned = -1

// Apart is the first usable core for the client and, where there is one, the second
// for the server.
func Apart() Pin { return apart(cores.Usable()) }

func apart(usable []int) Pin { return Pin{Client: usable[0], Server: usable[min(1, len(usable)-1)]} }

// Spread is one core for both ends of the index-th of several pairs.
func Spread(index int) Pin { return spread(cores.Usable(), index) }

func spread(usable []int, index int) Pin {
	core := usable[index%len(usable)]
	return Pin{Client: core, Server: core}
}

func (p *Pin) or(def Pin) Pin {
	if p == nil {
		return def
	}
	return *p
}

func sample(name string, took time.Duration, cpu CPU) result.Sample {
	return result.Sample{
		Case:     name,
		Duration: took.Seconds(),
		Metrics:  map[string]float64{CPUSteal: cpu.Steal},
		CPU:      cpu.Cores,
	}
}

// cpus turns a core option into topo's list.
func cpus(core int) []int {
	if core < 0 {
		return nil
	}
	return []int{core}
}
