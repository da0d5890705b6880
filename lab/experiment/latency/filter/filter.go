// Package filter is the firewalls that the experiment latency compares: data paths that can have a policy before
// their guests, and the policy in the words of each.
//
// Its one invariant: what a firewall cannot say is an error, never left out. Do not use it to judge a policy: that is
// internal/policy.
package filter

import (
	"context"
	"fmt"
	"math"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
)

// Firewall is a half that can have a stateful firewall before its guests.
type Firewall interface {
	topo.Half
	// Police puts a policy in force where the half is up, in place of the one before, at
	// once; nil is no firewall.
	Police(ctx context.Context, s topo.Site, policy *overlay.Firewall) error
	// Passed is how many packets that open connections were let pass there since it was
	// asked last.
	Passed(ctx context.Context, s topo.Site) (uint64, error)
}

// Police puts a policy in force on all hosts of the path; nil is no firewall.
func Police(ctx context.Context, p *topo.Path, policy *overlay.Firewall) error {
	for _, one := range p.Sides() {
		firewall, err := firewallOf(one)
		if err != nil {
			return err
		}
		if err := firewall.Police(ctx, one.Site, policy); err != nil {
			return fmt.Errorf("firewall of %s on %s: %w", p.Name, one.Site.Host.Name, err)
		}
	}
	return nil
}

// Passed is how many packets that open connections were let pass since it was asked last,
// on the host where these were fewest.
func Passed(ctx context.Context, p *topo.Path) (uint64, error) {
	least := uint64(math.MaxUint64)
	for _, one := range p.Sides() {
		firewall, err := firewallOf(one)
		if err != nil {
			return 0, err
		}
		passed, err := firewall.Passed(ctx, one.Site)
		if err != nil {
			return 0, fmt.Errorf("counters of %s on %s: %w", p.Name, one.Site.Host.Name, err)
		}
		least = min(least, passed)
	}
	return least, nil
}

func firewallOf(s topo.Side) (Firewall, error) {
	firewall, ok := s.Half.(Firewall)
	if !ok {
		return nil, fmt.Errorf("the %s path has no firewall", s.Half.Name())
	}
	return firewall, nil
}
