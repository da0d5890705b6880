package gateway

import (
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/overlay"
)

// Claims are the addresses that an edge may answer for, and what is known of other hosts that have them.
type Claims struct {
	wake func() // has the gateways judged anew

	mu       sync.Mutex
	config   overlay.Edge        // of the tables in force
	owned    map[Place]bool      // that this edge answers for
	had      map[Place]bool      // that it has ever answered for
	withheld map[Place]bool      // that another host has. Replaced, never changed
	left     map[Place]bool      // of these, that it would answer for
	stale    bool                // withheld is another than the tables obey
	goesOn   bool                // until tables are written: a former process may have answered for them
	served   map[netip.Addr]bool // gateways that have ever served
}

func newClaims(wake func()) *Claims {
	return &Claims{wake: wake, had: map[Place]bool{}, served: map[netip.Addr]bool{}}
}

// Withhold has this edge answer for none of these addresses, which other hosts have.
func (c *Claims) Withhold(places map[Place]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if maps.Equal(places, c.withheld) {
		return
	}
	c.withheld, c.stale = places, true
	c.wake()
}

// All are the addresses that this edge answers for, or would if no other host had them.
func (c *Claims) All() map[Place]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[Place]bool, len(c.owned)+len(c.left))
	maps.Copy(all, c.owned)
	maps.Copy(all, c.left)
	return all
}

func hasAddress(e overlay.EgressPolicy, p Place) bool {
	return slices.ContainsFunc(e.Pool, func(a overlay.AddrRange) bool { return a.First.Compare(p.Addr) <= 0 && p.Addr.Compare(a.Last) <= 0 })
}

// begin says whether a former process's data path goes on.
func (c *Claims) begin(goesOn bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.goesOn = goesOn
}

// isStale reports whether tables have to be written for what is withheld.
func (c *Claims) isStale() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stale
}

// note remembers who has ever served, and returns what is withheld.
func (c *Claims) note(f Facts) (withheld map[Place]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for pair, result := range f.Results {
		if result.State == bfd.Up && result.Service != bfd.OutOfService && (pair.Via == overlay.Via{}) {
			c.served[f.Config.Remote(pair.Remote).Addrs[0]] = true
		}
	}
	return c.withheld
}

// take takes over what tables obey by now.
func (c *Claims) take(d Decision, owned map[Place]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.config, c.owned, c.left, c.stale, c.goesOn = d.config, owned, map[Place]bool{}, !maps.Equal(d.withheld, c.withheld), false
	for p, is := range d.left {
		if is {
			c.left[p] = true
		}
	}
	if !c.stale && len(c.left) < len(c.withheld) { // the rest is another gateway's by now
		c.withheld = c.left
	}
	maps.Copy(c.had, owned)
}

// isUnproven reports whether an address of a policy is one that neither this edge nor another gateway of the group is known to have had: only a
// gateway that has served since before the address was configured can have.
func (c *Claims) isUnproven(p Place, policy string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.had[p] || c.goesOn {
		return false
	}
	if c.config.Egress == nil {
		return true
	}
	for _, e := range c.config.Egress.Policies {
		if e.Name == policy && hasAddress(e, p) {
			return !slices.ContainsFunc(groupMembers(c.config, policy), func(m netip.Addr) bool { return m != Self(c.config) && c.served[m] })
		}
	}
	return true
}
