package datapath

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
)

const (
	// policyFirewall and policyEgress are enum policies of bpf/abi/abi.h.
	policyFirewall = uint32(0)
	policyEgress   = uint32(1)
	// egressVports is EGRESS_QUERY_VPORTS of bpf/abi: MAX_ROUTERS.
	egressVports = 1024
	// noEgress is the number of rules that lead to no egress: MAX_EGRESS.
	noEgress = 1024
)

// egressRules are the rules that Apply puts into force.
type egressRules struct {
	policy  *policy.Policy
	numbers policy.Numbers
	// late: they go when the routes have gone.
	late    bool
	swapped bool
}

// planEgressRules numbers the rules of t. Rules of policies that go are replaced late,
// unless there are new ones, which have to be there early.
func (ep *egressPolicies) planEgressRules(t fib.Tables) (r egressRules, err error) {
	if t.EgressRules == nil {
		return egressRules{late: true}, nil
	}
	r.policy = t.EgressRules
	r.numbers = policy.Numbers{Policy: 1, Vports: ep.egressPlaces(t), Segments: map[string]uint16{}}
	for name, id := range ep.numbers.names.segIDs {
		r.numbers.Segments[name] = uint16(id)
	}
	now := egressNames(ep.rules)
	next := egressNames(r.policy)
	for _, rule := range r.policy.Rules() {
		number := uint32(noEgress)
		if rule.Verdict == overlay.Allow {
			var ok bool
			if number, ok = ep.numbers.names.egressIDs[rule.Name]; !ok {
				return r, fmt.Errorf("rules of egress: there is no egress %q", rule.Name)
			}
		}
		r.numbers.Rules = append(r.numbers.Rules, number)
	}
	r.late = len(next) < len(now) && !slices.ContainsFunc(next, func(name string) bool { return !slices.Contains(now, name) })
	return r, nil
}

// egressPlaces are the numbers of routers and, above them, of ports.
func (ep *egressPolicies) egressPlaces(t fib.Tables) map[string]uint16 {
	vports := map[string]uint16{}
	for _, port := range t.Ports {
		if !port.Uplink {
			vports[port.Name] = egressVports + uint16(ep.numbers.names.portIDs[port.Name])
		}
	}
	for id, name := range ep.numbers.names.routers {
		vports[nat.PlaceName(name)] = uint16(id)
	}
	return vports
}

// egressNames are the policies that rules lead to; nil has none.
func egressNames(p *policy.Policy) (names []string) {
	if p == nil {
		return nil
	}
	for _, rule := range p.Rules() {
		if rule.Verdict == overlay.Allow {
			names = append(names, rule.Name)
		}
	}
	return names
}

// putEgressRules puts the planned rules into force where others are, and plans new
// decisions about all that is routed.
func (ep *egressPolicies) putEgressRules(p *plan) error {
	r := &p.nat.rules
	var swapped bool
	err := ep.numbers.beside(func() (err error) {
		swapped, err = ep.swapEgressRules(r)
		return err
	})
	if err != nil {
		return err
	}
	ep.rules, ep.inForce, r.swapped = r.policy, r.numbers, swapped
	for id := range ep.numbers.names.routers {
		if swapped {
			p.rerouted[id] = true
		}
	}
	return nil
}

func (ep *egressPolicies) swapEgressRules(r *egressRules) (swapped bool, err error) {
	if r.policy == nil {
		err := ep.prog.objs.Policy.Delete(policyEgress)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return false, fmt.Errorf("remove the rules of egress: %w", err)
		}
		return err == nil, nil
	}
	n := ep.inForce
	if ep.rules == r.policy && slices.Equal(n.Rules, r.numbers.Rules) && maps.Equal(n.Vports, r.numbers.Vports) && maps.Equal(n.Segments, r.numbers.Segments) {
		return false, nil
	}
	compiled, err := r.policy.Compiled(r.numbers)
	if err != nil {
		return false, fmt.Errorf("rules of egress: %w", err)
	}
	if same, err := ep.prog.hasCompiled(policyEgress, compiled); same || err != nil {
		return false, err
	}
	return true, ep.prog.loadCompiled(policyEgress, compiled)
}

// hasCompiled reports whether the image is in force, as after a restart.
func (pr *programs) hasCompiled(which uint32, compiled policy.Compiled) (bool, error) {
	var id ebpf.MapID
	if err := pr.objs.Policy.Lookup(which, &id); err != nil {
		return false, ignoreMissing(err)
	}
	lines, err := pr.kernel.Loader.MapByID(id)
	if err != nil {
		return false, fmt.Errorf("open the rules in force: %w", err)
	}
	defer lines.Close()
	if int(lines.MaxEntries())*policy.LineWords != len(compiled) {
		return false, nil
	}
	now := make([][policy.LineWords]uint32, lines.MaxEntries())
	if err := readArray(lines, now); err != nil {
		return false, err
	}
	for i := range now {
		if !slices.Equal(now[i][:], compiled[i*policy.LineWords:(i+1)*policy.LineWords]) {
			return false, nil
		}
	}
	return true, nil
}
