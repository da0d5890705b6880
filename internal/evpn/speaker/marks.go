package speaker

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/osrg/gobgp/v4/api"
)

// mark is what is written on a route: that a neighbour gets it, and how, by number.
type mark struct{ neighbour, outcome uint32 }

// outcome is how a neighbour gets a route; its zero value as it is.
type outcome struct {
	nextHop              netip.Addr
	localPref, med       uint32
	hasLocalPref, hasMED bool
	communities          string
	prepend              uint8
}

// mark returns that of an outcome.
func (x *exports) mark(n netip.Addr, out outcome) mark {
	number, known := x.outcomes[out]
	if !known {
		number = uint32(len(x.outcomes) + 1)
		x.outcomes[out] = number
	}
	m := mark{x.numbers[n], number}
	if _, known := x.known[m]; !known {
		x.known[m], x.stale = out, true
	}
	return m
}

const (
	ownPolicy    = "own"    // into GoBGP's table goes what is announced alone
	markedPolicy = "marked" // and out of it what the marks say
)

// setPolicies gives GoBGP a statement for each mark. None goes while it runs: routes that
// are replaced are asked once more what became of them.
func (x *exports) setPolicies() error {
	request := &api.SetPoliciesRequest{}
	for a, n := range x.numbers {
		request.DefinedSets = append(request.DefinedSets, &api.DefinedSet{
			DefinedType: api.DefinedType_DEFINED_TYPE_NEIGHBOR, Name: neighbourSet(n),
			List: []string{netip.PrefixFrom(a.WithZone(""), a.BitLen()).String()},
		})
	}
	marked := &api.Policy{Name: markedPolicy}
	for m, out := range x.known {
		set := fmt.Sprintf("mark%d-%d", m.neighbour, m.outcome)
		request.DefinedSets = append(request.DefinedSets, &api.DefinedSet{
			DefinedType: api.DefinedType_DEFINED_TYPE_LARGE_COMMUNITY, Name: set,
			List: []string{fmt.Sprintf("^0:%d:%d$", m.neighbour, m.outcome)},
		})
		marked.Statements = append(marked.Statements, &api.Statement{
			Name: set,
			Conditions: &api.Conditions{
				NeighborSet:       &api.MatchSet{Type: api.MatchSet_TYPE_ANY, Name: neighbourSet(m.neighbour)},
				LargeCommunitySet: &api.MatchSet{Type: api.MatchSet_TYPE_ANY, Name: set},
			},
			Actions: actions(out, x.as),
		})
	}
	own := &api.Policy{Name: ownPolicy, Statements: []*api.Statement{{
		Name:       ownPolicy,
		Conditions: &api.Conditions{RouteType: api.Conditions_ROUTE_TYPE_LOCAL},
		Actions:    &api.Actions{RouteAction: api.RouteAction_ROUTE_ACTION_ACCEPT},
	}}}
	request.Policies = []*api.Policy{own, marked}
	if err := x.bgp.SetPolicies(context.Background(), request); err != nil {
		return fmt.Errorf("policies: %w", err)
	}
	for name, direction := range map[string]api.PolicyDirection{
		ownPolicy:    api.PolicyDirection_POLICY_DIRECTION_IMPORT,
		markedPolicy: api.PolicyDirection_POLICY_DIRECTION_EXPORT,
	} {
		if err := x.bgp.SetPolicyAssignment(context.Background(), &api.SetPolicyAssignmentRequest{Assignment: &api.PolicyAssignment{
			Direction: direction, Policies: []*api.Policy{{Name: name}}, DefaultAction: api.RouteAction_ROUTE_ACTION_REJECT,
		}}); err != nil {
			return fmt.Errorf("policy %s: %w", name, err)
		}
	}
	x.stale = false
	return nil
}

func neighbourSet(n uint32) string { return fmt.Sprintf("neighbour%d", n) }

// actions are those of an outcome, and the end of all marks.
func actions(out outcome, as uint32) *api.Actions {
	a := &api.Actions{
		RouteAction:    api.RouteAction_ROUTE_ACTION_ACCEPT,
		LargeCommunity: &api.CommunityAction{Type: api.CommunityAction_TYPE_REPLACE},
	}
	if out.nextHop.IsValid() {
		a.Nexthop = &api.NexthopAction{Address: out.nextHop.String()}
	}
	if out.hasLocalPref {
		a.LocalPref = &api.LocalPrefAction{Value: out.localPref}
	}
	if out.hasMED {
		a.Med = &api.MedAction{Type: api.MedAction_TYPE_REPLACE, Value: int64(out.med)}
	}
	if out.communities != "" {
		a.Community = &api.CommunityAction{Type: api.CommunityAction_TYPE_ADD, Communities: strings.Fields(out.communities)}
	}
	if out.prepend != 0 {
		a.AsPrepend = &api.AsPrependAction{Asn: as, Repeat: uint32(out.prepend)}
	}
	return a
}
