package edge

import (
	"fmt"
	"reflect"
	"runtime/debug"
	"sync"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/policy"
)

// ruled is a configuration's policies. Its zero value is of one without a firewall and
// egress policies.
type ruled struct {
	policy *policy.Policy
	places []policy.Place
	// shadows are found when somebody asks: for many rules it takes long.
	shadows func() []policy.Shadow

	egress       *policy.Policy // nil without egress policies
	egressRules  overlay.Firewall
	egressPlaces []policy.Place
}

// compile makes the policies of next. Each is the former itself when nothing of it changed,
// so that the data path need not load it again.
func compile(was overlay.Edge, previous ruled, next overlay.Edge) (r ruled, err error) {
	if err := r.compileEgress(previous, next); err != nil || next.Firewall == nil {
		return r, err
	}
	r.places = plan.Places(next)
	if previous.policy != nil && reflect.DeepEqual(was.Firewall, next.Firewall) && reflect.DeepEqual(previous.places, r.places) {
		r.policy, r.shadows = previous.policy, previous.shadows
		return r, nil
	}
	if r.policy, err = policy.Compile(*next.Firewall, r.places); err != nil {
		return ruled{}, fmt.Errorf("spec.firewall: %w", err)
	}
	r.shadows = sync.OnceValue(r.policy.Shadowed)
	return r, nil
}

func (r *ruled) compileEgress(previous ruled, next overlay.Edge) (err error) {
	if next.Egress == nil || len(next.Egress.Policies) == 0 {
		return nil
	}
	r.egressRules, r.egressPlaces = plan.EgressRules(next)
	if previous.egress != nil && reflect.DeepEqual(previous.egressRules, r.egressRules) && reflect.DeepEqual(previous.egressPlaces, r.egressPlaces) {
		r.egress = previous.egress
		return nil
	}
	if r.egress, err = policy.Compile(r.egressRules, r.egressPlaces); err != nil {
		return fmt.Errorf("spec.egress: %w", err)
	}
	return nil
}

// manyRules take more memory to read and compile than the runtime should keep for itself.
const manyRules = 10_000

// freeMemory gives that memory back, when one of the configurations has that many.
func freeMemory(configs ...overlay.Edge) {
	for _, c := range configs {
		if c.Firewall != nil && len(c.Firewall.Rules) >= manyRules {
			debug.FreeOSMemory()
			return
		}
	}
}
