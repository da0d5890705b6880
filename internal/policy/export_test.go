package policy

import (
	"github.com/selvage/selvage/internal/overlay"
)

// Plan is a way to compile.
type Plan = plan

// Plans are those of Compile, and such as merge what need not be merged.
func Plans() []Plan {
	return append(plans(1000), plan{addressLimit: 2, members: 1, entries: maxEntries}, plan{addressLimit: 3, members: 1, split: true, entries: maxEntries})
}

// CompileBy is Compile by one plan alone.
func CompileBy(fw overlay.Firewall, places []Place, how Plan) (*Policy, error) {
	rules, err := listRules(fw)
	if err != nil {
		return nil, err
	}
	p := &Policy{rules: rules}
	return p, p.compile(fw, places, how)
}

// ShadowedByAll is Shadowed without candidates.
func (p *Policy) ShadowedByAll() []Shadow {
	s := shadower{Policy: p, whole: make([][2]*set, len(p.asked))}
	var found []Shadow
	for i := range p.asked {
		if s.all(uint32(i), 0).empty() || s.all(uint32(i), 1).empty() || s.nowhere(uint32(i)) {
			continue
		}
		for by := range i {
			if s.covers(uint32(by), uint32(i)) {
				same := s.covers(uint32(i), uint32(by)) && p.rules[i].Verdict == p.rules[by].Verdict
				found = append(found, Shadow{Rule: i, By: by, Duplicate: same})
				break
			}
		}
	}
	return found
}

// nowhere reports whether no place has the rule.
func (s *shadower) nowhere(rule uint32) bool {
	places := s.scopes.known[s.asked[rule].scope].places
	return places != anySet && len(s.sets.sets[places].places) == 0
}

// Size is that of the image without the numbers, in bytes.
func Size(p *Policy) int { return 4 * len(p.compiled) }

// Shared are numbers by their names in bpf/.
func Shared() map[string]uint64 {
	return map[string]uint64{
		"POLICY_FORMAT": compiledFormat, "TREE_BIT": treeBit, "TREE_DEPTH_SHIFT": depthShift, "TREE_MAX_DEPTH": maxDepth, "LEAF_KEYS": leafKeys,
		"NODE_KEYS": nodeKeys, "PAIR_BIT": pairBit, "LIST_COUNT_BITS": countBits, "MAX_SETS": wideLimit + 3*otherLimit, "MAX_PROBES": maxProbes,
		"SERVICE_PROTOCOL_SHIFT": protocolShift, "SERVICE_PORTED": portedBit, "RULE_NUMBER": maxNumber, "RULE_VERDICT_SHIFT": verdictShift,
		"RULE_LOG": logBit, "HASH_FACTOR": hashFactor, "MAX_RULES": MaxRules,
	}
}
