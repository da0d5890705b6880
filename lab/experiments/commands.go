// Package experiments lists the lab's experiments, and has the commands of selvage lab that are none: the
// sizing of edges, the generator alone, a shell to make experiments of one's own in, reports, and the removal
// of what killed labs left behind.
//
// Its one invariant: a command leaves nothing behind but its results, however it ends; after a SIGKILL the
// next start or selvage lab restore removes the rest. Do not measure, compute or judge here.
package experiments

import (
	"github.com/alecthomas/kong"
)

// Commands are the subcommands of selvage lab, as kong reads them: the experiments in their order, and what
// is none. Each has a method Run(*Console) error, with a
// context before it if it must not be cut short.
type Commands struct {
	kong.Plugins // of the experiments

	Size   Size   `cmd:"" help:"Turn a demand into cores, ports, PCIe slots and edges."`
	Gen    Gen    `cmd:"" help:"Send frames at a rate and count what arrived: the generator alone."`
	Shell  Shell  `cmd:"" help:"Build two hosts with an edge each, open a shell, and remove all when it exits."`
	Report Report `cmd:"" help:"Write the report of a result again."`

	Compare     Compare     `cmd:"" help:"Compare two runs: what is better, worse or no different."`
	Check       Check       `cmd:"" help:"Evaluate conditions on a run, for pipelines."`
	CSV         CSV         `cmd:"" name:"csv" help:"Write rows or samples of runs as CSV."`
	Index       Index       `cmd:"" help:"Write one page over a directory of runs, with trends."`
	Redact      Redact      `cmd:"" help:"Write runs without names of hosts, networks and people, for others to read."`
	OpenMetrics OpenMetrics `cmd:"" name:"openmetrics" help:"Write a run as an OpenMetrics file for Prometheus."`
}

// NewCommands are all subcommands.
func NewCommands() Commands {
	var c Commands
	for _, e := range All() {
		if e.Command != nil { // else another's command has it
			c.Plugins = append(c.Plugins, e.Command())
		}
	}
	return c
}
