package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// MaxRules is the most rules that a policy may have, with the defaults: MAX_RULES of
// bpf/abi/abi.h.
const MaxRules = 131072

// Policy is a compiled firewall. Its methods may be called from several goroutines.
type Policy struct {
	rules    []Rule
	asked    []rule // without the defaults
	sets     *catalogue
	compiled Compiled // without what Numbers say
	layout   layout
	places   []placeRefs // as the places were given
	segments map[string][2]uint32
	entries  []entry  // sorted
	sides    [2]*side // source and destination
	scopes   *scopes
}

// rule is a rule of the firewall in sets.
type rule struct {
	from, to []setID
	scope    setID // of the scopes
	services []box
	logOnly  bool
}

// Compile makes a policy for the places of an edge. The error names the rule or group
// that is wrong, or that makes the policy too large.
func Compile(fw overlay.Firewall, places []Place) (*Policy, error) {
	rules, err := listRules(fw)
	if err != nil {
		return nil, err
	}
	p := &Policy{rules: rules}
	var large *tooLarge
	for _, how := range plans(len(rules)) {
		err = p.compile(fw, places, how)
		if !errors.As(err, &large) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	for _, a := range p.axes() {
		a.forget()
	}
	return p, nil
}

func (p *Policy) axes() [3]*dimension {
	return [3]*dimension{p.sides[0].dimension, p.sides[1].dimension, p.scopes.dimension}
}

// plans are ways to compile a policy of so many rules: the ones with the shortest look-up
// and the smallest image first.
func plans(rules int) []plan {
	return []plan{
		{addressLimit: slimLimit, members: 16, entries: 2*rules + 1<<16},
		{addressLimit: wideLimit, members: 16, entries: 8*rules + 1<<16},
		{addressLimit: wideLimit, members: 4096, split: true, entries: 32*rules + 1<<16},
		{addressLimit: wideLimit, members: 16, entries: maxEntries},
		{addressLimit: wideLimit, members: 4096, split: true, entries: maxEntries},
	}
}

// plan is a way to compile. What is too large by one may be well by the next.
type plan struct {
	addressLimit int  // sets that an address may be in, then they are merged
	members      int  // combinations of members under which a rule is entered, then its own lists are sets
	split        bool // all members into prefixes, so that no address is in more sets than it has bits
	entries      int
}

func (p *Policy) compile(fw overlay.Firewall, places []Place, how plan) error {
	var err error
	if p.sets, err = newCatalogue(fw.Groups, places); err != nil {
		return err
	}
	p.scopes = newScopes(p.sets)
	p.asked = make([]rule, len(fw.Rules))
	for i, r := range fw.Rules {
		if p.asked[i], err = p.translate(r, how); err != nil {
			return fmt.Errorf("rule %s: %w", p.rules[i].name(), err)
		}
	}
	for i, name := range []string{"source", "destination"} {
		a := newDimension(name, len(p.sets.sets), p.uses(i))
		if p.sides[i], err = newSide(a, p.sets, how.addressLimit); err != nil {
			return err
		}
	}
	if err := p.scopes.place(p.asked, len(places)); err != nil {
		return err
	}
	if p.entries, err = p.enter(how.entries); err != nil {
		return err
	}
	return p.write()
}

// uses are the sets that rules name on a side.
func (p *Policy) uses(side int) func(yield func(setID) bool) {
	return func(yield func(setID) bool) {
		for i := range p.asked {
			for _, s := range p.asked[i].side(side) {
				if !yield(s) {
					return
				}
			}
		}
	}
}

func (r *rule) side(i int) []setID {
	if i == 0 {
		return r.from
	}
	return r.to
}

func (p *Policy) translate(r overlay.Rule, how plan) (rule, error) {
	out := rule{logOnly: r.Verdict == overlay.LogOnly}
	var err error
	if out.from, err = p.sets.all(r.From, how.split); err != nil {
		return out, fmt.Errorf("from: %w", err)
	}
	if out.to, err = p.sets.all(r.To, how.split); err != nil {
		return out, fmt.Errorf("to: %w", err)
	}
	for len(out.from)*len(out.to) > how.members {
		if len(out.from) >= len(out.to) {
			out.from = p.sets.union(out.from)
		} else {
			out.to = p.sets.union(out.to)
		}
	}
	if out.services, err = boxesOf(r.Services); err != nil {
		return out, err
	}
	applied, err := p.sets.appliedTo(r.AppliedTo)
	if err != nil {
		return out, fmt.Errorf("applied to: %w", err)
	}
	out.scope, err = p.scopes.id(applied, r.Direction)
	return out, err
}

// entry puts a rule under a combination of sets.
type entry struct {
	key  uint64 // see combination
	rule uint32
}

func combination(from, to, scope setID) uint64 {
	return uint64(from) | uint64(to)<<20 | uint64(scope)<<40
}

// parts takes a combination apart.
func (e entry) parts() (from, to, scope setID) {
	return setID(e.key & (maxSets - 1)), setID(e.key >> 20 & (maxSets - 1)), setID(e.key >> 40)
}

// enter puts all rules under their combinations, the first rules first.
func (p *Policy) enter(most int) ([]entry, error) {
	for _, a := range p.axes() {
		if a.sets() > maxSets {
			return nil, &tooLarge{fmt.Sprintf("there are %d different %ss, and %d can be told apart", a.sets(), a.name, maxSets)}
		}
	}
	entries := make([]entry, 0, len(p.asked)+len(p.asked)/4)
	var from, to, in []setID
	for i := range p.asked {
		r := &p.asked[i]
		from, to = p.sides[0].entered(r.from, from), p.sides[1].entered(r.to, to)
		in = p.scopes.entered([]setID{r.scope}, in)
		if len(entries)+len(from)*len(to)*len(in) > most {
			return nil, &tooLarge{fmt.Sprintf("up to rule %s, the groups overlap in more than %d ways", p.rules[i].name(), most)}
		}
		for _, f := range from {
			for _, t := range to {
				for _, s := range in {
					entries = append(entries, entry{combination(f, t, s), uint32(i)})
				}
			}
		}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		if c := cmp.Compare(a.key, b.key); c != 0 {
			return c
		}
		return cmp.Compare(a.rule, b.rule)
	})
	return entries, nil
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// Rules are the rules in their order, then the defaults. Callers must not change them.
func (p *Policy) Rules() []Rule { return p.rules }
