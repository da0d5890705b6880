// Package attacker is the attacks of selvage lab attack: what each sends, from where, and what of it must
// not arrive where.
//
// Its one invariant: traffic leaves from interfaces of a network.Network alone, at a bounded rate and
// number, and what crossed is counted at the victims' interfaces, never by what is attacked. Do not
// use it outside of a lab.
package attacker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/selvage/selvage/lab/experiment/attack/network"
	"github.com/selvage/selvage/lab/topo"
)

// Need is what a data path must have for an attack to have an object.
type Need string

// The needs; an attack without one is for all.
const (
	Router Need = "router"
	NAT    Need = "NAT"
	BFD    Need = "BFD between tunnel endpoints"
	BGP    Need = "BGP"
)

// Attack is one of the catalogue.
type Attack struct {
	Name, Title string
	// From is where it is sent: by a guest with a guarded port or an unguarded one, or from the underlay.
	From string
	Need Need // "" for none
	// Rate is frames a second, Most is frames at all.
	Rate, Most int
	// Outside has the honest pairs talk to what is outside, by NAT.
	Outside bool
	// Routes has FRR at the stranger tell of Most routes, instead of frames.
	Routes bool
	// Newcomer has an honest guest with a new MAC address appear in the other segment meanwhile.
	Newcomer bool

	streams func(b testbed) []stream
	crossed func(b testbed) []watched
}

// watched is where frames are counted as crossed: at which guests, and how many a second are no crossing.
type watched struct {
	roles   []string
	clauses []clause
	// allowance is a rate that may pass, for storm control.
	allowance int
}

// Interfaces of others than guests, as roles.
const (
	roleStranger = "stranger"
	roleOutside0 = "outside/eth0"
	roleOutside1 = "outside/eth1"
)

// Where an attack comes from.
const (
	FromGuarded   = "guest at a guarded port"
	FromUnguarded = "guest at an unguarded port"
	FromUnderlay  = "host of the underlay"
	FromBGP       = "neighbour in BGP"
)

// burst is how many seconds' worth of an allowance may come at once.
const burst = 1

// Names lists the attacks in their order.
func Names() []string {
	var names []string
	for _, a := range All() {
		names = append(names, a.Name)
	}
	return names
}

// Find is the attack of a name.
func Find(name string) (Attack, bool) {
	i := slices.IndexFunc(All(), func(a Attack) bool { return a.Name == name })
	if i < 0 {
		return Attack{}, false
	}
	return All()[i], true
}

// Quick names the five attacks of a quick run: one of each kind of harm.
func Quick() []string {
	return []string{"mac-flood", "arp-nd-spoof", "forged-icmp", "udp-dialogues", "bum-storm"}
}

// Watch counts what an attack must not make arrive.
type Watch struct {
	taps       []*Tap
	allowances []int
}

// Watch opens the taps of an attack.
func (a Attack) Watch(n *network.Network) (*Watch, error) {
	w := &Watch{}
	for _, at := range a.crossed(newTestbed(n)) {
		for _, role := range at.roles {
			host, name := place(n, role)
			t, err := listen(host, name, at.clauses)
			if err != nil {
				w.Close()
				return nil, err
			}
			w.taps, w.allowances = append(w.taps, t), append(w.allowances, at.allowance)
		}
	}
	return w, nil
}

// place is the interface of a role.
func place(n *network.Network, role string) (*topo.Host, string) {
	switch role {
	case roleStranger:
		return n.Stranger, topo.UnderlayName
	case roleOutside0:
		return n.Outside, "eth0"
	case roleOutside1:
		return n.Outside, "eth1"
	}
	return n.Guest(role).Host, topo.EndName
}

// Crossed is how many packets arrived since it was asked last, during a time, beyond what may pass.
func (w *Watch) Crossed(during time.Duration) (int, error) {
	sum := 0
	var errs []error
	for i, t := range w.taps {
		count, err := t.Count()
		errs = append(errs, err)
		sum += max(0, count-int(float64(w.allowances[i])*(during.Seconds()+burst)))
	}
	return sum, errors.Join(errs...)
}

// Close closes the taps.
func (w *Watch) Close() {
	for _, t := range w.taps {
		t.Close()
	}
}

// Start begins an attack that sends frames, from a core.
func (a Attack) Start(ctx context.Context, n *network.Network, core int) (*Sender, error) {
	for _, role := range []string{network.RoleAttacker, network.RoleLoose} { // else what they say to each other is flooded at first
		if err := once(n.Guest(role), ether(broadcast(), n.Guest(role).MAC, etherExperiment, nil)); err != nil {
			return nil, err
		}
	}
	if err := pause(ctx, newcomerTime); err != nil {
		return nil, err
	}
	return send(ctx, a.streams(newTestbed(n)), a.Rate, a.Most, core)
}
