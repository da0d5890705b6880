package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/printable"
	"github.com/selvage/selvage/internal/top"
)

type topCmd struct {
	target
	Interval time.Duration `default:"1s" placeholder:"TIME" help:"Time between two readings: ${default} unless given."`
}

// Run shows an edge until the user quits, or SIGTERM. Ctrl-C is a key, and in a command that was started from a line the
// end of that command alone.
func (c *topCmd) Run(ctx context.Context, s *streams) error {
	switch {
	case !s.interactive || !isTerminal(s.out):
		return usageError{errors.New("top needs a terminal; elsewhere give --watch to ports, teps, flows or drops")}
	case c.Interval < api.LeastInterval || c.Interval > api.MostInterval:
		return usageError{fmt.Errorf("--interval: %s is not a time from %s to %s", c.Interval, api.LeastInterval, api.MostInterval)}
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("path of this program: %w", err)
	}
	client, err := c.dial()
	if err != nil {
		return err
	}
	status, err := client.Status(ctx)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM)
	defer stop()
	return top.Run(ctx, top.Options{
		Client: client, Interval: c.Interval, In: s.in, Out: printable.Raw(s.out), Program: program,
		Edge: c.flagsFor(status.Name),
	})
}
