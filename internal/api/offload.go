package api

import (
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/offload"
)

// OffloadInfo is what probing the offloads of a path found.
type OffloadInfo struct {
	// Mode is the best for tunnels on this path, "" while nothing is known.
	Mode    string           `json:"mode"`
	Changes []offload.Change `json:"changes"` // of the interface as the operator has it
	Why     string           `json:"why"`
	Wrong   bool             `json:"wrong"`   // not even this one is right
	Applied bool             `json:"applied"` // the interface has what this mode changes
	When    time.Time        `json:"when,omitzero"`
	// Pending: a probe is asked for, or runs, or what it found is not set yet. Failed is why
	// the last found nothing.
	Pending  bool             `json:"pending"`
	Failed   string           `json:"failed,omitempty"`
	Identity offload.Identity `json:"identity"`
	Trials   []offload.Trial  `json:"trials"`
}

// pollProbes is how often a client looks whether probes have ended.
const pollProbes = 300 * time.Millisecond

// ProbeOffloads has the edge probe the paths to a remote, all for "", and waits until it has.
func (c *Client) ProbeOffloads(ctx context.Context, remote string) ([]TEPInfo, error) {
	list, err := post[[]TEPInfo](ctx, c, "teps/probe?"+url.Values{ArgRemote: {remote}}.Encode(), nil)
	for err == nil && slices.ContainsFunc(list, isProbed) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pollProbes):
		}
		list, err = c.TEPs(ctx)
	}
	return list, err
}

func isProbed(t TEPInfo) bool {
	return slices.ContainsFunc(t.Paths, func(p PathInfo) bool { return p.Offload != nil && p.Offload.Pending })
}
