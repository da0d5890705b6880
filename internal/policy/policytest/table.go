package policytest

import (
	"maps"
	"strings"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
)

// Table is a policy for Places in words, with what it has to say about openings.
type Table struct {
	Name     string
	Groups   []string // "name: member,member"
	Rules    []string // see rule
	Default  overlay.Verdict
	Defaults map[string]overlay.Verdict
	Cases    []Case
}

// Case is an opening in words, and the rule that decides: by its name, of a default that
// of the segment or "edge". Behind a "|" is the name of the rule on trial before it.
type Case struct{ Name, Words, Want string }

// Firewall is the table's policy.
func (t Table) Firewall() overlay.Firewall {
	fw := overlay.Firewall{Default: t.Default, NonIP: overlay.Allow, Defaults: maps.Clone(t.Defaults)}
	if fw.Default == "" {
		fw.Default = overlay.Drop
	}
	for _, words := range t.Groups {
		name, list, _ := strings.Cut(words, ": ")
		g := overlay.Group{Name: name}
		if list != "" {
			g.Members = members(list)
		}
		fw.Groups = append(fw.Groups, g)
	}
	for _, words := range t.Rules {
		fw.Rules = append(fw.Rules, rule(words))
	}
	return fw
}

// Query is what the case's words say.
func (c Case) Query() policy.Query { return query(c.Words) }

// Says is a judgement in the words of Want.
func Says(rules []policy.Rule, j policy.Match) string {
	says := rules[j.Rule].Name
	if j.LogOnly >= 0 {
		says += "|" + rules[j.LogOnly].Name
	}
	return says
}

// Tables are policies, each about one thing that rules ask for.
func Tables() []Table {
	return []Table{
		prefixesOfIPv4Table(),
		prefixesOfIPv6Table(),
		familiesTable(),
		rangesTable(),
		severalAddressesTable(),
		groupsTable(),
		macAddressesTable(),
		segmentsTable(),
		portsOfTheEdgeTable(),
		labelsTable(),
		portsOfTCPAndUDPTable(),
		sourcePortsTable(),
		icmpTable(),
		protocolsTable(),
		fragmentsTable(),
		orderTable(),
		equalRulesTable(),
		rulesOnTrialTable(),
		rulesOnTrialBehindTable(),
		noRulesTable(),
		defaultsTable(),
		everythingDecidedTable(),
		manyAtOnceTable(),
		directionsTable(),
		appliedToPortsTable(),
		allThatARuleCanAskForTable(),
	}
}
