package gateway

import (
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
)

// An address that is new here is probed before it is announced. A takeover waits for no probe.
func TestProbedBeforeTheFirstAnnouncement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serving(t)
		first, second := w.nodes[gw1], w.nodes[gw2]
		if first.probed != 1 {
			t.Fatalf("%d addresses are probed, want 1", first.probed)
		}
		second.role.Claims.mu.Lock()
		clear(second.role.Claims.had) // before the two heard each other
		second.role.Claims.mu.Unlock()
		second.probed = 0
		w.connect(gw1, gw2, bfd.Down)
		w.connect(gw1, source, bfd.Down)
		synctest.Wait()
		if w.arp != gw2 || second.probed != 0 {
			t.Errorf("%s has the address after the failure, %d are probed; want a takeover at once", w.arp, second.probed)
		}
	})
}

// An address that another host has is not announced nor answered for until it is free.
func TestWithheld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNetwork(t)
		n := w.nodes[gw1]
		n.taken, w.nodes[gw2].taken = true, true
		for _, n := range w.nodes {
			n.elect()
			n.nextHop = true
		}
		<-time.After(10 * time.Second)
		at := Place{"wan", pool}
		if w.arp.IsValid() || len(n.tables.Owned) > 0 || n.role.Owned()[at] || !n.role.Claims.All()[at] {
			t.Errorf("%s announced it, and it answers for %v", w.arp, n.tables.Owned)
		}
		if !slices.Contains(n.tables.Pool[0], pool) {
			t.Error("its sources are not translated")
		}
		n.role.Claims.Withhold(nil)
		synctest.Wait()
		if w.arp != gw1 || !slices.Contains(n.tables.Owned, pool) || n.probed != 1 {
			t.Errorf("when it is free %s announced it, %v are answered for, %d are probed", w.arp, n.tables.Owned, n.probed)
		}
	})
}

// What is not known to have been this group's is probed.
func TestUnproven(t *testing.T) {
	at := Place{"wan", pool}
	config := configOf(gw2)
	without := config
	without.Egress = &overlay.Egress{Gateways: config.Egress.Gateways, Policies: []overlay.EgressPolicy{{Name: "web", Gateways: "gws", Uplink: "wan"}}}
	for _, c := range []struct {
		name   string
		claims *Claims
		proven bool
	}{
		{"nothing is known", &Claims{}, false},
		{"it had the address", &Claims{had: map[Place]bool{at: true}}, true},
		{"a former process had it", &Claims{goesOn: true}, true},
		{"another gateway has not served", &Claims{config: config}, false},
		{"another gateway serves", &Claims{config: config, served: map[netip.Addr]bool{gw1: true}}, true},
		{"another gateway serves, and the address is new in the file", &Claims{config: without, served: map[netip.Addr]bool{gw1: true}}, false},
	} {
		if got := !c.claims.isUnproven(at, "web"); got != c.proven {
			t.Errorf("%s: it is proven: %v, want %v", c.name, got, c.proven)
		}
	}
}

// What was another host's is taken over as ever when it became another gateway's meanwhile.
func TestWithheldOfAnotherGateway(t *testing.T) {
	c := newClaims(func() {})
	at := Place{"wan", pool}
	c.Withhold(map[Place]bool{at: true})
	if !c.isStale() {
		t.Fatal("tables are as before")
	}
	c.take(Decision{withheld: c.note(Facts{}), left: map[Place]bool{at: true}}, nil)
	if c.isStale() || !c.All()[at] || !c.note(Facts{})[at] {
		t.Errorf("it claims %v", c.All())
	}
	c.take(Decision{withheld: c.note(Facts{})}, nil)
	if c.isStale() || len(c.All()) > 0 || len(c.note(Facts{})) > 0 {
		t.Errorf("another gateway has it, and it claims %v and withholds %v", c.All(), c.note(Facts{}))
	}
}

// A gateway that was gone, or of no group, may have answered for addresses of this one.
func TestReturned(t *testing.T) {
	serving, gone := map[netip.Addr]Status{gw1: {}, gw2: {}}, map[netip.Addr]Status{gw1: {}, gw2: {State: nat.Gone}}
	for name, c := range map[string]struct {
		was, is map[netip.Addr]Status
		want    bool
	}{
		"it serves as before": {serving, serving, false}, "it was gone": {gone, serving, true}, "it goes": {serving, gone, false},
		"it has joined the group": {map[netip.Addr]Status{gw1: {}}, serving, true}, "it has joined, and is gone": {map[netip.Addr]Status{gw1: {}}, gone, false},
	} {
		if got := (&Role{states: c.was}).returned(c.is); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
