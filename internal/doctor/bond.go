package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/doctor/fix"
)

// addRouting notes which routing protocols have routes over a bond. A host without bonds is not asked.
func addRouting(inv *Inventory, n Network) {
	if !slices.ContainsFunc(inv.Links, func(l Link) bool { return l.Bond != nil }) {
		return
	}
	protocols, err := n.RoutingProtocols()
	if err != nil {
		inv.unknown("routing protocols over bonds", "%v", err)
		return
	}
	for i := range inv.Links {
		if bond := &inv.Links[i]; bond.Bond != nil {
			bond.Routing = slices.Clone(protocols[bond.Name])
			for _, l := range inv.Links {
				if l.Lower == bond.Name {
					bond.Routing = append(bond.Routing, protocols[l.Name]...)
				}
			}
			slices.Sort(bond.Routing)
			bond.Routing = slices.Compact(bond.Routing)
		}
	}
}

// card is the part of a PCI address that the ports of a card share, which are its functions.
func (l *Link) card() string {
	if l.PCI == nil {
		return ""
	}
	card, _, _ := strings.Cut(l.PCI.Address, ".")
	return card
}

// checkBonds looks for what the NSX edge study's preflight has of link aggregation: no routing protocol over it, and
// members on different cards.
func checkBonds(inv *Inventory) []Finding {
	var found []Finding
	for i := range inv.Links {
		bond := &inv.Links[i]
		if bond.Bond == nil || inv.Interface != "" && bond.Role == "" {
			continue
		}
		before := len(found)
		if len(bond.Routing) > 0 {
			found = append(found, Finding{
				Check: "bond", Severity: Note, Subject: bond.Name,
				What:     fmt.Sprintf("routes of %s leave by the bond %s", strings.Join(bond.Routing, ", "), bond.Name),
				Evidence: fmt.Sprintf("main routing table; the bond's mode is %s", bond.Bond.Mode),
				Why: "The bond's hash and the protocol's ECMP choose a link one after the other, and a member that fails with its link up is seen by LACP only after 3 s (fast rate) or 90 s " +
					"(IEEE 802.1AX): the adjacency may end first, and with it all links. The NSX edge study's preflight has no routing protocol over a LAG.",
				Measure: []string{fix.Line("ip route show dev %s", bond.Name), fix.Line("cat %s", "/proc/net/bonding/"+bond.Name)},
			})
		}
		if card, names := oneCard(inv, bond); card != "" {
			found = append(found, Finding{
				Check: "bond", Severity: Note, Subject: bond.Name,
				What:     fmt.Sprintf("%d members of the bond are ports of one card: %s", len(names), few(names)),
				Evidence: "PCI slot " + card,
				Why:      "1 card that fails takes all of them, and they share the slot's bandwidth. The NSX edge study's preflight has ports on different cards.",
				Measure:  []string{fix.Line("cat %s", "/proc/net/bonding/"+bond.Name), fix.Line("lspci -s %s", card)},
			})
		}
		if len(found) == before {
			found = append(found, good("bond", bond.Name, "%s, no routing protocol over it, members %s", bond.Bond.Mode, few(inv.members(bond.Name))))
		}
	}
	return found
}

// oneCard is the card that all members of a bond are on, if there are several.
func oneCard(inv *Inventory, bond *Link) (card string, names []string) {
	for _, name := range inv.members(bond.Name) {
		l, ok := inv.link(name)
		if !ok || l.card() == "" || card != "" && l.card() != card {
			return "", nil
		}
		card, names = l.card(), append(names, name)
	}
	if len(names) < 2 {
		return "", nil
	}
	return card, names
}
