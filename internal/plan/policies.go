package plan

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
)

// Policies are what the rules of a configuration are compiled to. The zero value is of one without a firewall and
// egress policies.
type Policies struct {
	Firewall *policy.Policy // nil without a firewall
	// Shadows are found when somebody asks, as that takes long for many rules; nil without a firewall.
	Shadows func() []policy.Shadow
	Egress  *policy.Policy // nil without egress policies

	places       []policy.Place
	egressRules  overlay.Firewall
	egressPlaces []policy.Place
}

// CompilePolicies compiles the rules of next, when previous are those of was. Each policy is the previous one itself
// when nothing of it changed, so that the data path need not load it again. Errors name the field.
func CompilePolicies(was overlay.Edge, previous Policies, next overlay.Edge) (p Policies, err error) {
	if err := p.compileEgress(previous, next); err != nil || next.Firewall == nil {
		return p, err
	}
	p.places = Places(next)
	if previous.Firewall != nil && reflect.DeepEqual(was.Firewall, next.Firewall) && reflect.DeepEqual(previous.places, p.places) {
		p.Firewall, p.Shadows = previous.Firewall, previous.Shadows
		return p, nil
	}
	if p.Firewall, err = policy.Compile(*next.Firewall, p.places); err != nil {
		return Policies{}, fmt.Errorf("spec.firewall: %w", err)
	}
	p.Shadows = sync.OnceValue(p.Firewall.Shadowed)
	return p, nil
}

func (p *Policies) compileEgress(previous Policies, next overlay.Edge) (err error) {
	if next.Egress == nil || len(next.Egress.Policies) == 0 {
		return nil
	}
	p.egressRules, p.egressPlaces = EgressRules(next)
	if previous.Egress != nil && reflect.DeepEqual(previous.egressRules, p.egressRules) && reflect.DeepEqual(previous.egressPlaces, p.egressPlaces) {
		p.Egress = previous.Egress
		return nil
	}
	if p.Egress, err = policy.Compile(p.egressRules, p.egressPlaces); err != nil {
		return fmt.Errorf("spec.egress: %w", err)
	}
	return nil
}
