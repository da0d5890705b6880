// Package experiments is the lab's experiments as commands of selvage lab, and a shell to make
// one's own in.
//
// Its one invariant: an experiment leaves nothing behind but its results,
// however it ends; after a SIGKILL the next start or selvage lab restore removes
// the rest. It only joins lab/topo, measure, stats, diagnose and report: do not
// measure, compute or judge here.
package experiments

import "io"

// Commands are the subcommands of selvage lab, as kong reads them. Each has a
// method Run(context.Context, *Console) error.
type Commands struct {
	Ab       Ab       `cmd:"" help:"Measure what an overlay costs: several data paths, interleaved, in one run."`
	Mtu      Mtu      `cmd:"" help:"Find where oversized packets disappear, what fixes it, and what limits the rate."`
	Rfc2544  Rfc2544  `cmd:"" name:"rfc2544" help:"Measure transit between uplinks and tunnels by RFC 2544: rates without loss and with little, latency, loss."`
	Latency  Latency  `cmd:"" help:"Measure what a firewall adds to a round trip, a connection and a packet, by number of rules."`
	Offload  Offload  `cmd:"" help:"Measure what offloads gain by write size, in several states and data paths."`
	Failover Failover `cmd:"" help:"Kill gateways, tunnel endpoints or edges, and measure what flows lose."`
	Converge Converge `cmd:"" help:"Move hosts and fail edges, links and route reflectors in an EVPN fabric, and measure when packets flow again."`
	Egress   Egress   `cmd:"" help:"Measure egress: node to node, tunnel to tunnel, workload to gateway to target, with and without NAT."`
	Attack   Attack   `cmd:"" help:"Attack data paths from a port, the underlay and by BGP, and measure what others lose."`
	Cache    Cache    `cmd:"" help:"Measure what the flow cache saves, by flows and routes."`
	Size     Size     `cmd:"" help:"Turn a demand into cores, ports, PCIe slots and edges."`
	Gen      Gen      `cmd:"" help:"Send frames at a rate and count what arrived: the generator alone."`
	Shell    Shell    `cmd:"" help:"Build two hosts with an edge each, open a shell, and remove all when it exits."`
	Report   Report   `cmd:"" help:"Write the report of a result again."`
	Restore  Restore  `cmd:"" help:"Remove what killed labs left behind."`
}

// Console is where a command writes and what it is told of the program.
type Console struct {
	Out, Err io.Writer
	// Args is the command line without the program's name, for the record.
	Args []string
	// Version is Selvage's own.
	Version string
}
