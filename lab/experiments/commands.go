// Package experiments is the lab's experiments as commands of selvage lab.
package experiments

// Commands are the subcommands of selvage lab, as kong reads them. Each has a
// method Run(context.Context) error.
type Commands struct{}
