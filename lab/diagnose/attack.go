package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// AttackVerdict answers which attacks the subject withstands, what the others take, and how that is with
// the targets beside it.
func AttackVerdict(r result.Result) result.Verdict {
	e := attackEvidence{gather(r, stats.AttackRows, "")}
	v := result.Verdict{Findings: e.findings()}
	if len(e.cases(e.dut)) == 0 {
		v.Refused, v.Sentence = true, "No verdict: the result holds no attacks."
		return v
	}
	for _, caseName := range e.cases(e.dut) {
		if why := stats.RefuseAttack(r, e.dut, caseName); why != "" {
			v.Refused, v.Sentence = true, fmt.Sprintf("No verdict: of %s of %s, %s.", caseName, e.dut, why)
			return v
		}
	}
	v.Sentence = e.sentence()
	return v
}

// attackEvidence is a result of the attack experiment.
type attackEvidence struct{ evidence }

// cases are the attacks on a target, also those that failed.
func (e attackEvidence) cases(name string) []string {
	return slices.DeleteFunc(stats.Cases(e.Result), func(caseName string) bool {
		return !slices.ContainsFunc(e.Samples, func(s result.Sample) bool { return s.Target == name && s.Case == caseName })
	})
}

// made are the attacks on a target that has what is attacked; the run does not tell whether it
// withstood those that are open.
func (e attackEvidence) made(name string) (made, withstood, open []string) {
	for _, caseName := range e.cases(name) {
		outcome := stats.OutcomeOf(e.Result, name, caseName)
		if !outcome.Made() {
			continue
		}
		made = append(made, caseName)
		switch outcome {
		case stats.AttackHeld:
			withstood = append(withstood, caseName)
		case stats.AttackUnclear:
			open = append(open, caseName)
		}
	}
	return made, withstood, open
}

func (e attackEvidence) sentence() string {
	made, withstood, open := e.made(e.dut)
	sentence := fmt.Sprintf("%s withstands %d of %d attacks", upperFirst(e.title(e.dut)), len(withstood), len(made)) + stillOpen(open)
	for _, name := range stats.Names(e.Result) {
		if name == e.dut {
			continue
		}
		made, withstood, open := e.made(name)
		sentence += fmt.Sprintf("; %s %d of %d", e.title(name), len(withstood), len(made)) + stillOpen(open)
	}
	sentence += "."
	var lost []string
	for _, caseName := range made {
		if !slices.Contains(withstood, caseName) && !slices.Contains(open, caseName) {
			lost = append(lost, caseName+" ("+e.taken(e.dut, caseName)+")")
		}
	}
	if len(lost) > 0 {
		sentence += " " + upperFirst(e.title(e.dut)) + " loses by " + strings.Join(lost, ", ") + "."
	}
	return sentence
}

func stillOpen(open []string) string {
	if len(open) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d unclear)", len(open))
}

// taken is what an attack took of a target, in a few words.
func (e attackEvidence) taken(name, caseName string) string {
	var words []string
	for _, loss := range stats.Losses(e.Result, name, caseName) {
		words = append(words, LossWords(loss))
	}
	return strings.Join(words, "; ")
}

// LossWords is a loss in a few words.
func LossWords(loss stats.Loss) string {
	figure := stats.Figure(loss.Row.Median)
	if loss.Unit == "packets" || loss.Unit == "count" {
		figure = stats.In(loss.Row.Median, "count")
	}
	switch loss.Metric {
	case stats.Crossed:
		return figure + " packets crossed"
	case stats.KeptTCP:
		return "TCP keeps " + figure + " ×"
	case stats.KeptRR:
		return "round trips take " + figure + " ×"
	case stats.KeptConnections:
		return "new connections keep " + figure + " ×"
	case stats.LostConnections:
		return figure + " connections lost"
	}
	if loss.Patience > 0 && loss.Row.Median >= loss.Patience {
		return "not normal after " + figure + " s"
	}
	return "normal after " + figure + " s"
}

// findings are what each attack took of each target, and what to do.
func (e attackEvidence) findings() []string {
	var findings []string
	for _, caseName := range stats.Cases(e.Result) {
		for _, name := range stats.Names(e.Result) {
			if stats.RefuseAttack(e.Result, name, caseName) != "" || len(stats.Losses(e.Result, name, caseName)) == 0 {
				continue
			}
			text := fmt.Sprintf("%s: %s: %s.", caseName, upperFirst(e.title(name)), e.taken(name, caseName))
			if advice := e.advice(name, caseName); advice != "" {
				text += " " + advice
			}
			findings = append(findings, text)
		}
	}
	return findings
}

// advice is why an attack takes something of a path, and what to do.
func (e attackEvidence) advice(name, caseName string) string {
	crossed := slices.ContainsFunc(stats.Losses(e.Result, name, caseName), func(l stats.Loss) bool { return l.Metric == stats.Crossed })
	special := attackAdvice()[caseName][path(name)]
	switch {
	case isGuarded(caseName) && crossed && e.Parameters["bare"] != "true":
		return "The port is guarded, and its guard does not see this: keep to guests that do not, or tell who makes the data path."
	case special != "" && (crossed || ofTables(caseName)):
		return special
	case crossed:
		return "What must not arrive does: filter it at the port that it comes from."
	case path(name) == "ovs":
		return "Nothing crossed. One process forwards for all guests, so the attacker's packets take the time of theirs: give it cores of its own, and limit the port's rate (ingress_policing_kpkts_rate)."
	}
	return "Nothing crossed, but the pair had less of its core, its tables or the memory that both cores share: limit the port's rate, and compare with a run on a quiet machine."
}

// isGuarded says whether an attack is what the guard of its port is for.
func isGuarded(caseName string) bool {
	return slices.Contains([]string{"arp-nd-spoof", "ra-redirect", "rogue-dhcp"}, caseName)
}

// ofTables says whether an attack is on what all guests share, so that advice on it holds where nothing
// crosses too.
func ofTables(caseName string) bool {
	return slices.Contains([]string{"mac-flood", "forged-icmp", "syn-flood", "udp-dialogues", "nat-exhaustion", "route-flood", "bfd-forgery"}, caseName)
}

// attackAdvice is by attack and data path.
func attackAdvice() map[string]map[string]string {
	guard := map[string]string{
		kernel:  "Bind the port to its addresses (nftables in family bridge, as libvirt's filter clean-traffic).",
		"ovs":   "Bind the port to its addresses (OVN's port security).",
		selvage: "Give the port allowed.macs and allowed.addresses.",
	}
	return map[string]map[string]string{
		"mac-flood": {
			kernel:  "Every address of the flood is learned, and each costs memory and time: set fdb_max_learned on the bridge, or guard the port.",
			"ovs":   "Every new address is a new flow that the switch has to make: guard the port, or lower other_config:mac-table-size.",
			selvage: "The port's quota of MAC addresses decides what it can take: selvage ports -o wide shows it; guard the port where its guest has one address.",
		},
		"arp-nd-spoof": guard, "ra-redirect": guard, "rogue-dhcp": guard,
		"vlan-hopping":     {kernel: "Drop tagged frames at ports of guests, or let the bridge filter VLANs.", "ovs": "Make the port an access port (tag, vlan_mode=access).", selvage: "A segment lets tags pass by vlanTransparent alone: leave that out where guests are."},
		"tunnel-in-tunnel": {kernel: "Drop UDP 4789 in the host's input chain from anywhere but the underlay.", "ovs": "Keep guests from routes to the underlay.", selvage: "Keep routers of guests from routes to the underlay."},
		"forged-tep":       {kernel: "The vxlan device takes packets from anybody: let nftables take them from the other endpoints alone.", "ovs": "Give tunnel ports remote_ip, not flow.", selvage: "Tunnel packets are taken from remotes alone: look at selvage drops."},
		"forged-icmp":      {kernel: "Linux believes any “fragmentation needed” for ten minutes: drop them on the underlay where its MTU is known, or set net.ipv4.ip_no_pmtu_disc.", "ovs": "Drop “fragmentation needed” on the underlay where its MTU is known.", selvage: "A message may only start a probe: look at selvage teps -o wide for what was believed."},
		"syn-flood":        {kernel: "All tenants share one table of connections: limit connections by source (ct count), or track by zone.", "ovs": "Limit the zone (dpctl/ct-set-limits).", selvage: "The port's share of half-open connections decides: see limits.halfOpen."},
		"udp-dialogues":    {kernel: "All tenants share one table of connections: limit connections by source (ct count).", "ovs": "Limit the zone (dpctl/ct-set-limits).", selvage: "The port's share of connections decides: see selvage ports -o wide."},
		"nat-exhaustion":   {kernel: "All tenants share ports and table: limit connections by source (ct count).", selvage: "Limit a source's sessions: nat.limit of the uplink, limit of the policy."},
		"bum-storm":        {kernel: "Limit broadcast, multicast and unknown unicast at each port; nftables cannot see the last: turn the bridge port's flood off.", "ovs": "Meters limit broadcast and multicast; for unknown unicast limit the port.", selvage: "Lower the port's limits of broadcast, multicast and unknown unicast."},
		"route-flood":      {kernel: "FRR takes what a neighbour tells: filter by route map, and limit the neighbour.", selvage: "Limit what the neighbour may tell by a route policy."},
		"bfd-forgery":      {"ovs": "BFD in the tunnel has no authentication: keep strangers from the underlay.", selvage: "BFD has no authentication: keep strangers from the underlay (RFC 5082 helps across routers alone)."},
	}
}

// AttackDUT is the target that a verdict on r is about, "" for none.
func AttackDUT(r result.Result) string { return gather(r, stats.AttackRows, "").dut }
