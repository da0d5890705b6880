package cli

import (
	"context"
	"errors"

	"github.com/alecthomas/kong"

	"github.com/selvage/selvage/internal/doctor"
	"github.com/selvage/selvage/internal/observe"
)

type doctorCmd struct {
	runtimeDir
	Host      bool   `xor:"what" help:"Examine the whole host (the default)."`
	Interface string `xor:"what" placeholder:"IF" help:"Examine only this interface and the tunnels over it."`
	Output    string `short:"o" enum:"table,json" default:"table" help:"Print text or JSON: ${enum}."`

	doctor.HostFlags
}

// Help says what kong's flags do not.
func (*doctorCmd) Help() string {
	return "It only reads, and needs no edge: it examines tunnels of the kernel, of Open vSwitch and of Selvage. " +
		"Each finding has its evidence, why it matters, the command that fixes it, and how to measure again. " +
		"With --hosts it examines other hosts, and what they differ by. " +
		"The exit status is 0 with or without findings, 1 when a host could not be read, 2 for wrong usage, and 3 when --verify found drift. " +
		"Without root, edges and Open vSwitch do not answer."
}

// Validate checks what belongs together.
func (c *doctorCmd) Validate() error {
	if len(c.Hosts) > 0 && (c.Host || c.Interface != "") {
		return errors.New("--hosts is of other hosts, --host and --interface of this one: choose one of them")
	}
	return c.Check()
}

// Run examines the host, or other hosts, and prints what was found.
func (c *doctorCmd) Run(ctx context.Context, s *streams, line *kong.Context) error {
	if len(c.Hosts) > 0 { // the ways to other hosts are the lab's
		return startLab(line.Args)
	}
	report, err := doctor.Examine(ctx, doctor.Options{Interface: c.Interface, RuntimeDir: c.RuntimeDir})
	var unknown *doctor.UnknownInterfaceError
	switch {
	case errors.As(err, &unknown):
		return usageError{unknown}
	case err != nil:
		return err
	case c.Output == "json":
		return observe.JSON(s.out, report)
	}
	return doctor.Text(s.out, report)
}
