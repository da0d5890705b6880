package doctor

import (
	"fmt"
	"slices"

	"github.com/selvage/selvage/internal/doctor/fix"
)

// bandwidth is Gbit/s each way of a PCIe generation and width.
type bandwidth struct{ theory, typical float64 }

// measuredPCIe is the table of the NSX edge study. Gen4 x8 has its observed limit as the typical one.
func measuredPCIe() map[[2]int]bandwidth {
	return map[[2]int]bandwidth{
		{1, 4}: {8, 7}, {1, 8}: {16, 14.1}, {1, 16}: {32, 28.2},
		{2, 4}: {16, 12.8}, {2, 8}: {32, 25.6}, {2, 16}: {64, 51.2},
		{3, 4}: {32, 22.4}, {3, 8}: {64, 44.8}, {3, 16}: {128, 96.8},
		{4, 8}: {128, 96}, {4, 16}: {256, 209.6},
	}
}

// generation of a lane's rate, 0 for one that is not known.
func generation(gts float64) int {
	return slices.Index([]float64{0, 2.5, 5, 8, 16, 32, 64}, gts)
}

// pcieBandwidth is the table's, or for what it lacks the product less line
// encoding, with 0.75 of it as typical: the table's rows from Gen3 on are 0.70 to 0.82.
func pcieBandwidth(gts float64, lanes int) (b bandwidth, measured bool) {
	gen := generation(gts)
	if b, ok := measuredPCIe()[[2]int{gen, lanes}]; ok {
		return b, true
	}
	encoding := 128.0 / 130
	if gen == 1 || gen == 2 {
		encoding = 0.8
	}
	theory := gts * float64(lanes) * encoding
	return bandwidth{theory, 0.75 * theory}, false
}

// checkPCIe compares slots with the speed of the ports behind them.
func checkPCIe(inv *Inventory) []Finding {
	cards := map[string][]*Link{}
	for _, l := range inv.adapters() {
		if l.PCI == nil || l.PCI.GTs == 0 || l.PCI.Lanes == 0 {
			continue // emulated
		}
		cards[l.card()] = append(cards[l.card()], l)
	}
	var found []Finding
	for _, card := range sorted(cards) {
		found = append(found, slotFindings(card, cards[card])...)
	}
	return found
}

func slotFindings(card string, links []*Link) []Finding {
	p := links[0].PCI
	var names []string
	speed := 0.0
	for _, l := range links {
		names = append(names, l.Name)
		speed += float64(l.NIC.Mbps) / 1000
	}
	b, measured := pcieBandwidth(p.GTs, p.Lanes)
	origin := "the NSX edge study's table"
	if !measured {
		origin = "computed, the NSX edge study's table does not have it"
	}
	slotText := fmt.Sprintf("Gen%d x%d (%g GT/s), %.0f Gbit/s each way in theory and %.4g typically", generation(p.GTs), p.Lanes, p.GTs, b.theory, b.typical)
	f := Finding{
		Check: "pcie", Subject: few(names),
		Evidence: fmt.Sprintf("slot %s: %s (%s); card and slot could do %g GT/s x%d; ports %g Gbit/s in sum", card, slotText, origin, p.GTsMax, p.LanesMax, speed),
		Why: "More cannot cross the slot, whatever the ports say: the limiter of the NSX edge study's 100G runs was a Gen4 x8 slot at about 96 Gbit/s. " +
			"The card sits in too small a slot, or trained down: reseat it, or take a wider slot.",
		Measure: []string{fix.Line("lspci -vv -s %s | grep -E 'LnkCap|LnkSta'", links[0].PCI.Address), "iperf3 -c SERVER -t 10 -P 16  # without the tunnel"},
	}
	switch {
	case speed > b.typical:
		f.Severity = Warning
		f.What = fmt.Sprintf("the slot carries about %.4g Gbit/s, its ports %g", b.typical, speed)
		return []Finding{f}
	case p.GTs < p.GTsMax || p.Lanes < p.LanesMax:
		f.Severity = Note
		f.What = fmt.Sprintf("the slot runs at %g GT/s x%d, the card can do %g GT/s x%d", p.GTs, p.Lanes, p.GTsMax, p.LanesMax)
		return []Finding{f}
	case speed == 0:
		return nil // no carrier: nothing to compare with
	}
	return []Finding{good("pcie", few(names), "%s, for %g Gbit/s of ports", slotText, speed)}
}
