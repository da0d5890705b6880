package topo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/selvage/selvage/internal/overlay"
)

// Firewall is a half that can have a stateful firewall before its guests.
type Firewall interface {
	Half
	// Police puts a policy in force where the half is up, in place of the one before, at
	// once; nil is no firewall.
	Police(ctx context.Context, s Site, policy *overlay.Firewall) error
	// Passed is how many packets that open connections were let pass there since it was
	// asked last.
	Passed(ctx context.Context, s Site) (uint64, error)
}

// Police puts a policy in force on all hosts of the path; nil is no firewall.
func (p *Path) Police(ctx context.Context, policy *overlay.Firewall) error {
	for _, one := range p.sides {
		firewall, err := one.firewall()
		if err != nil {
			return err
		}
		if err := firewall.Police(ctx, one.site, policy); err != nil {
			return fmt.Errorf("firewall of %s on %s: %w", p.Name, one.site.Host.Name, err)
		}
	}
	return nil
}

// Passed is how many packets that open connections were let pass since it was asked last,
// on the host where these were fewest.
func (p *Path) Passed(ctx context.Context) (uint64, error) {
	least := uint64(math.MaxUint64)
	for _, one := range p.sides {
		firewall, err := one.firewall()
		if err != nil {
			return 0, err
		}
		passed, err := firewall.Passed(ctx, one.site)
		if err != nil {
			return 0, fmt.Errorf("counters of %s on %s: %w", p.Name, one.site.Host.Name, err)
		}
		least = min(least, passed)
	}
	return least, nil
}

func (s side) firewall() (Firewall, error) {
	firewall, ok := s.half.(Firewall)
	if !ok {
		return nil, fmt.Errorf("the %s path has no firewall", s.half.Name())
	}
	return firewall, nil
}

// Answers says whether a TCP SYN to a port gets an answer within the time, if only
// "refused". Firewalls that drop it leave it without.
func (h *Host) Answers(pair Pair, port int, within time.Duration) (answered bool, err error) {
	err = h.Do(func() error {
		err := knock(pair.ServerAddr(4), port, within)
		answered = err == nil
		if errors.Is(err, errSilent) {
			return nil
		}
		return err
	})
	return answered, err
}
