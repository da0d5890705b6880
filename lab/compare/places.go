package compare

import (
	"slices"

	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/lab/result"
)

// differencesOfPlaces are what figures depend on and the hosts of places do not share, by role. What a host did not tell
// is none, nor is an interface that one run lacks, unless it is an adapter: those of containers come and go.
func differencesOfPlaces(old, latest result.Result) (all []Difference) {
	var roles []string
	for _, p := range slices.Concat(old.Places, latest.Places) {
		if !slices.Contains(roles, p.Role) {
			roles = append(roles, p.Role)
		}
	}
	for _, role := range roles {
		before, now := hostOf(old, role), hostOf(latest, role)
		if before == nil || now == nil {
			if before != now {
				for _, field := range []string{"kernel", "cpu", "adapters"} {
					all = append(all, Difference{field + "." + role, told(before), told(now)})
				}
			}
			continue
		}
		for _, d := range facts.Drift(before, now) {
			if d.Matters && (d.A.Interface == "" || isAdapter(before, d.A.Interface) || isAdapter(now, d.A.Interface) || inBoth(before, now, d.A.Interface)) {
				all = append(all, Difference{fieldOf(role, d), d.A.Text, d.B.Text})
			}
		}
	}
	return all
}

func hostOf(r result.Result, role string) *facts.Host {
	for _, p := range r.Places {
		if p.Role == role {
			return result.Host(r, p)
		}
	}
	return nil
}

func told(h *facts.Host) string {
	if h == nil {
		return absent
	}
	return "recorded"
}

func isAdapter(h *facts.Host, name string) bool {
	i, there := h.Interface(name)
	return there && i.Kind == ""
}

func inBoth(a, b *facts.Host, name string) bool {
	_, atA := a.Interface(name)
	_, atB := b.Interface(name)
	return atA && atB
}

// fieldOf is what a difference is allowed by, its place, and its interface.
func fieldOf(role string, d facts.Difference) string {
	top := map[string]string{"kernel": "kernel", "memory": "memory", "sysctl": "sysctls", "offloads": "offloads", "mtu": "mtu"}[d.Check]
	switch {
	case top == "" && d.A.Interface == "":
		top = "cpu"
	case top == "":
		top = "adapters"
	}
	field := top + "." + role
	if d.A.Interface != "" {
		field += "." + d.A.Interface
	}
	return field + "." + d.Name
}
