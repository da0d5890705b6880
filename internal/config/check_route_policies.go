package config

import "fmt"

// routePolicyChecker checks what chooses and changes routes.
type routePolicyChecker struct {
	file *fileErrors
}

// check returns the names of the policies.
func (c routePolicyChecker) check(path string, list []routePolicy) nameSet {
	seen, complete := unique[objectName]{}, !c.file.failedIn(path, "policies")
	for i, p := range list {
		at := fmt.Sprintf("%s.policies[%d]", path, i)
		seen.add(c.file, p.Name, "", at+".name", fmt.Sprintf("policy %q already exists", p.Name), "names are unique")
		complete = complete && p.Name != ""
		for j, s := range p.Statements {
			c.statement(fmt.Sprintf("%s.statements[%d]", at, j), s, j+1 == len(p.Statements))
		}
	}
	return newNames(each(list, func(p routePolicy) string { return string(p.Name) }), complete)
}

func (c routePolicyChecker) statement(path string, s routeStatement, last bool) {
	if s.Prefixes == nil && s.Communities == nil && !last && !c.file.failed[path] && !c.file.failedIn(path, "prefixes", "communities") {
		c.file.problem(path, "matches every route, so the statements after it are never evaluated", "put it last, or add prefixes or communities")
	}
	if s.Reject {
		for _, field := range []string{"localPref", "med", "addCommunities", "prepend"} {
			if c.file.given(path + "." + field) {
				c.file.problem(path+"."+field, "changes a route that is rejected", "remove it, or reject")
			}
		}
	}
	c.communitiesOnce(path+".communities", s.Communities)
	c.communitiesOnce(path+".addCommunities", s.Add)
	for j, r := range s.Prefixes {
		c.prefixRange(fmt.Sprintf("%s.prefixes[%d]", path, j), r)
	}
}

func (c routePolicyChecker) communitiesOnce(path string, list []community) {
	listed := unique[community]{}
	for j, one := range list {
		listed.add(c.file, one, community{}, fmt.Sprintf("%s[%d]", path, j), fmt.Sprintf("%s is already listed", one), "keep one")
	}
}

func (c routePolicyChecker) prefixRange(path string, r prefixRange) {
	if !r.Prefix.IsValid() || c.file.failed[path] || c.file.failedIn(path, "min", "max") {
		return
	}
	m, most := r.model(), r.Prefix.Addr().BitLen()
	switch {
	case m.Min < r.Prefix.Bits():
		c.file.problem(path+".min", fmt.Sprintf("no prefix in %s has %d bits", r.Prefix, m.Min), fmt.Sprintf("write %d or more", r.Prefix.Bits()))
	case m.Min > most:
		c.file.problem(path+".min", fmt.Sprintf("%d is more than the %d bits of %s", m.Min, most, family(r.Prefix.Addr())), "lower it")
	case m.Max > most:
		c.file.problem(path+".max", fmt.Sprintf("%d is more than the %d bits of %s", m.Max, most, family(r.Prefix.Addr())), "lower it")
	case m.Max < m.Min:
		c.file.problem(path+".max", fmt.Sprintf("%d is less than the minimum of %d bits", m.Max, m.Min), "raise it")
	}
}
