package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/observe"
)

type proveCmd struct {
	query
	Timeout time.Duration `default:"2s" help:"How long to wait for an answer."`
	What    string        `arg:"" optional:"" placeholder:"SEGMENT|PREFIX" help:"Test only the remotes of this segment (NAME-l3 for a router), or the next hops of this prefix or address."`
}

// Help says what kong's flags do not.
func (*proveCmd) Help() string {
	return "It sends small and full-sized packets through the tunnels, on several ECMP paths of the underlay, and reports which are answered. " +
		"It tests what packets do, whatever BGP says, and works with static remotes too. " +
		"The exit status is 1 when a remote does not answer, or not on all paths, or not to large packets."
}

// Run proves remotes, and fails when one does not forward.
func (c *proveCmd) Run(ctx context.Context, s *streams) error {
	if c.Timeout <= 0 {
		return usageError{fmt.Errorf("--timeout: %s is no time to wait; give one such as 2s", c.Timeout)}
	}
	var tally api.ProofTally
	question := func(client *api.Client, ctx context.Context) (api.ProveInfo, error) {
		info, err := client.Prove(ctx, api.ProveQuery{What: c.What, Timeout: c.Timeout})
		tally = info.Tally
		return info, err
	}
	if err := show(ctx, c.query, s.out, question, observe.Prove); err != nil {
		return err
	}
	if bad := tally.Broken + tally.Partial; bad > 0 {
		return fmt.Errorf("%d of %d do not forward as they should", bad, bad+tally.Proven+tally.Unprovable)
	}
	return nil
}
