package transaction

import (
	"context"
	"maps"

	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
)

// followAliases is the problem of ports by patterns that are not in force.
const followAliases = "have interfaces that match spec.portPatterns be ports"

// following are interfaces that match patterns, while they become ports. Of the loop alone.
type following struct {
	found   map[string]string // by name: the alias
	running bool
}

// Begin has interfaces that match patterns be ports from the first on, and returns the configuration with them.
func (t *Transactions) Begin(found map[string]string) (overlay.Edge, plan.Policies, error) {
	next, err := t.current().found(found)
	if err != nil {
		return overlay.Edge{}, plan.Policies{}, err
	}
	t.mu.Lock()
	t.inForce = next
	t.mu.Unlock()
	t.aliases.found = found
	return next.Edge, next.Policies, nil
}

// FollowAliases has the interfaces that match patterns be ports, and no others. What is not a port, as its alias is wrong,
// is a problem. Of the loop alone; it waits for nothing.
func (t *Transactions) FollowAliases(found map[string]string) {
	if maps.Equal(t.aliases.found, found) {
		return
	}
	t.aliases.found = found
	if t.aliases.running {
		return
	}
	t.aliases.running = true
	go func() { // ends with the loop, which takes what it has made, or has ended
		if t.turn.take(context.Background(), t.loop.Ended()) != nil {
			return
		}
		defer t.turn.pass()
		for again := true; again; {
			next, err := t.current().found(found)
			if ended := t.loop.Do(func() { found, again = t.followed(next, found, err) }); ended != nil {
				return
			}
		}
	}()
}

// followed ends that in the loop, or says what to follow then.
func (t *Transactions) followed(next Candidate, found map[string]string, err error) (latest map[string]string, again bool) {
	if err == nil {
		err = t.take(next) // what of it cannot be attached, as it has gone again, is a problem and keeps no other from it
	}
	t.o.Report(followAliases, err)
	if err != nil { // tried again when the host is looked at again
		t.aliases = following{}
		return nil, false
	}
	t.o.Log.Info("ports by patterns", "ports", len(next.alias.Objects()), "not", len(next.alias.Wrong()))
	if !maps.Equal(found, t.aliases.found) {
		return t.aliases.found, true
	}
	t.aliases.running = false
	return nil, false
}

// found is c with ports for other interfaces.
func (c Candidate) found(found map[string]string) (Candidate, error) {
	base := c.Source.Base()
	if base == nil {
		return c, config.ErrNoBase
	}
	next := c
	next.alias = base.Aliases(found, c.live.Objects(), c.alias)
	edge, err := base.With(nil)
	if err != nil {
		return c, err
	}
	next.Edge = edge
	if err := next.join(c.left); err != nil {
		return c, err
	}
	return next.compile(c)
}
