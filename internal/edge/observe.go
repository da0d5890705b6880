package edge

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/plan"
)

// observed is what was seen of the host last, and what was looked at.
type observed struct {
	want  host.Want
	state host.State
	ok    bool
}

// observer looks at the host for an edge.
type observer struct{ e *edge }

// all looks at all that is wanted.
func (o observer) all(want host.Want) (host.State, error) {
	state, err := o.e.host.Observe(want)
	o.e.observed = observed{want, state, err == nil}
	return state, err
}

// more looks at what was not looked at last. What changed of the rest comes with its event.
func (o observer) more(want host.Want) (host.State, error) {
	const most = 16 // beyond these one look at all takes less
	last := o.e.observed
	if !last.ok || !slices.Equal(last.want.Patterns, want.Patterns) || !reflect.DeepEqual(last.want.TEPs, want.TEPs) || !reflect.DeepEqual(last.want.Pairs, want.Pairs) {
		return o.all(want)
	}
	known := make(map[string]bool, len(last.want.Interfaces))
	for _, name := range last.want.Interfaces {
		known[name] = true
	}
	more := slices.DeleteFunc(slices.Clone(want.Interfaces), func(name string) bool { return known[name] })
	if len(more) > most {
		return o.all(want)
	}
	state := last.state
	if len(more) > 0 {
		links, err := o.e.host.Links(more)
		if err != nil {
			return host.State{}, err
		}
		state.Links = maps.Clone(last.state.Links)
		maps.Copy(state.Links, links)
	}
	last.want.Interfaces = slices.Concat(last.want.Interfaces, more)
	o.e.observed = observed{last.want, state, true}
	return state, nil
}

// beginPorts has the interfaces that match patterns be ports before the first tables: those of a running data path stay.
func (o observer) beginPorts(hostState *host.State) error {
	if len(hostState.Aliases) == 0 {
		return nil
	}
	next, policies, err := o.e.transactions.Begin(hostState.Aliases)
	if err != nil {
		return fmt.Errorf("ports by patterns: %w", err)
	}
	o.e.state.mu.Lock()
	o.e.state.configured, o.e.state.config, o.e.state.policies = next, next, policies
	o.e.state.mu.Unlock()
	if *hostState, err = o.e.host.Observe(plan.Want(next)); err != nil {
		return fmt.Errorf("observe the host: %w", err)
	}
	return nil
}

// followPorts has interfaces that came become ports, and those that went be none.
func (o observer) followPorts(hostState host.State) {
	if len(o.e.state.configured.Patterns) > 0 || len(hostState.Aliases) > 0 {
		o.e.transactions.FollowAliases(hostState.Aliases)
	}
}
