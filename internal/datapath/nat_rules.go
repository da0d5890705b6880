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
	return ep.prog.swapEgressImage(compiled)
}

// swapEgressImage puts an image into force, unless it is, as after a restart.
func (pr *programs) swapEgressImage(compiled policy.Compiled) (swapped bool, err error) {
	stamp, err := pr.policyStamp()
	if err != nil {
		return false, err
	}
	sum := compiledSum(compiled)
	if stamp.Packets == sum && pr.hasPolicy(policyEgress) {
		return false, nil
	}
	// Who ends between these steps leaves no stamp of an image that is not in force.
	if err := pr.stampEgress(0); err != nil {
		return false, err
	}
	if err := pr.loadCompiled(policyEgress, compiled); err != nil {
		return false, err
	}
	return true, pr.stampEgress(sum)
}

func (pr *programs) stampEgress(sum uint64) error {
	stamp, err := pr.policyStamp()
	if err != nil {
		return err
	}
	stamp.Packets = sum
	return pr.stampPolicy(stamp)
}
