// Package experiments is the lab's experiments as commands of selvage lab, and a shell to make
// one's own in.
//
// Its one invariant: an experiment leaves nothing behind but its results,
// however it ends; after a SIGKILL the next start or selvage lab restore removes
// the rest. It only joins lab/topo, measure, stats, diagnose and report: do not
// measure, compute or judge here.
package experiments

import (
	"io"

	"github.com/alecthomas/kong"
)

// Commands are the subcommands of selvage lab, as kong reads them: the experiments in their order, and what
// is none. Each has a method Run(context.Context, *Console) error.
type Commands struct {
	kong.Plugins // of the experiments

	Size    Size    `cmd:"" help:"Turn a demand into cores, ports, PCIe slots and edges."`
	Gen     Gen     `cmd:"" help:"Send frames at a rate and count what arrived: the generator alone."`
	Shell   Shell   `cmd:"" help:"Build two hosts with an edge each, open a shell, and remove all when it exits."`
	Report  Report  `cmd:"" help:"Write the report of a result again."`
	Restore Restore `cmd:"" help:"Remove what killed labs left behind."`
}

// NewCommands are all subcommands.
func NewCommands() Commands {
	var c Commands
	for _, e := range All() {
		c.Plugins = append(c.Plugins, e.Command())
	}
	return c
}

// Console is where a command writes and what it is told of the program.
type Console struct {
	Out, Err io.Writer
	// Args is the command line without the program's name, for the record.
	Args []string
	// Version is Selvage's own.
	Version string
}
