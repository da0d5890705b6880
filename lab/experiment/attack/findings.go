package attack

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// verdict answers which attacks the subject withstands, what the others take, and how that is with
// the targets beside it.
func verdict(r result.Result) result.Verdict {
	e := evidence{diagnose.Gather(r, summarise, "")}
	v := result.Verdict{Findings: e.findings()}
	if len(e.cases(e.DUT)) == 0 {
		v.Refuse("the result holds no attacks", "")
		return v
	}
	for _, caseName := range e.cases(e.DUT) {
		if why := refuse(r, e.DUT, caseName); why != "" {
			v.Refuse(fmt.Sprintf("of %s of %s, %s", caseName, e.DUT, why), "")
			return v
		}
	}
	v.Headline, v.Explanation = e.answer()
	return v
}

// evidence is a result of the attack experiment.
type evidence struct{ diagnose.Evidence }

// cases are the attacks on a target, also those that failed.
func (e evidence) cases(name string) []string {
	return slices.DeleteFunc(stats.Cases(e.Result), func(caseName string) bool {
		return !slices.ContainsFunc(e.Samples, func(s result.Sample) bool { return s.Target == name && s.Case == caseName })
	})
}

// made are the attacks on a target that has what is attacked; the run does not tell whether it
// withstood those that are open.
func (e evidence) made(name string) (made, withstood, open []string) {
	for _, caseName := range e.cases(name) {
		outcome := OutcomeOf(e.Result, name, caseName)
		if !outcome.Made() {
			continue
		}
		made = append(made, caseName)
		switch outcome {
		case Held:
			withstood = append(withstood, caseName)
		case AttackUnclear:
			open = append(open, caseName)
		}
	}
	return made, withstood, open
}

// answer is the verdict when there is one.
func (e evidence) answer() (headline, explanation string) {
	made, withstood, open := e.made(e.DUT)
	headline = fmt.Sprintf("%s withstands %d of %d attacks", diagnose.UpperFirst(e.Title(e.DUT)), len(withstood), len(made)) + stillOpen(open)
	for _, name := range stats.Names(e.Result) {
		if name == e.DUT {
			continue
		}
		made, withstood, open := e.made(name)
		headline += fmt.Sprintf("; %s %d of %d", e.Title(name), len(withstood), len(made)) + stillOpen(open)
	}
	var lost []string
	for _, caseName := range made {
		if !slices.Contains(withstood, caseName) && !slices.Contains(open, caseName) {
			lost = append(lost, caseName+" ("+e.taken(e.DUT, caseName)+")")
		}
	}
	if len(lost) > 0 {
		explanation = diagnose.UpperFirst(e.Title(e.DUT)) + " loses by " + strings.Join(lost, ", ") + "."
	}
	return headline + ".", explanation
}

func stillOpen(open []string) string {
	if len(open) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d unclear)", len(open))
}

// taken is what an attack took of a target, in a few words.
func (e evidence) taken(name, caseName string) string {
	var words []string
	for _, loss := range Losses(e.Result, name, caseName) {
		words = append(words, LossWords(loss))
	}
	return strings.Join(words, "; ")
}

// LossWords is a loss in a few words.
func LossWords(loss Loss) string {
	figure := stats.Figure(loss.Row.Median)
	if loss.Unit == "packets" || loss.Unit == "count" {
		figure = stats.In(loss.Row.Median, "count")
	}
	switch loss.Metric {
	case Crossed:
		return figure + " packets crossed"
	case KeptTCP:
		return "TCP keeps " + figure + " ×"
	case KeptRR:
		return "round trips take " + figure + " ×"
	case KeptConnections:
		return "new connections keep " + figure + " ×"
	case LostConnections:
		return figure + " connections lost"
	}
	if loss.Patience > 0 && loss.Row.Median >= loss.Patience {
		return "not normal after " + figure + " s"
	}
	return "normal after " + figure + " s"
}

// findings are what each attack took of each target, and what to do.
func (e evidence) findings() []result.Finding {
	var findings []result.Finding
	for _, caseName := range stats.Cases(e.Result) {
		for _, name := range stats.Names(e.Result) {
			if refuse(e.Result, name, caseName) != "" || len(Losses(e.Result, name, caseName)) == 0 {
				continue
			}
			found := result.Finding{Topic: caseName, Text: fmt.Sprintf("%s: %s.", diagnose.UpperFirst(e.Title(name)), e.taken(name, caseName))}
			if advice := e.advice(name, caseName); advice != "" {
				found = found.And(" " + advice)
			}
			findings = append(findings, found)
		}
	}
	return findings
}

// advice is why an attack takes something of a path, and what to do.
func (e evidence) advice(name, caseName string) string {
	crossed := slices.ContainsFunc(Losses(e.Result, name, caseName), func(l Loss) bool { return l.Metric == Crossed })
	special := attackAdvice()[caseName][diagnose.Path(name)]
	switch {
	case isGuarded(caseName) && crossed && !e.Parameters.Bool("bare"):
		return "The port is guarded, and its guard does not see this: keep to guests that do not, or tell who makes the data path."
	case special != "" && (crossed || ofTables(caseName)):
		return special
	case crossed:
		return "What must not arrive does: filter it at the port that it comes from."
	case diagnose.Path(name) == "ovs":
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
		diagnose.Kernel:  "Bind the port to its addresses (nftables in family bridge, as libvirt's filter clean-traffic).",
		"ovs":            "Bind the port to its addresses (OVN's port security).",
		diagnose.Selvage: "Give the port allowed.macs and allowed.addresses.",
	}
	return map[string]map[string]string{
		"mac-flood": {
			diagnose.Kernel:  "Every address of the flood is learned, and each costs memory and time: set fdb_max_learned on the bridge, or guard the port.",
			"ovs":            "Every new address is a new flow that the switch has to make: guard the port, or lower other_config:mac-table-size.",
			diagnose.Selvage: "The port's quota of MAC addresses decides what it can take: selvage ports -o wide shows it; guard the port where its guest has one address.",
		},
		"arp-nd-spoof": guard, "ra-redirect": guard, "rogue-dhcp": guard,
		"vlan-hopping":     {diagnose.Kernel: "Drop tagged frames at ports of guests, or let the bridge filter VLANs.", "ovs": "Make the port an access port (tag, vlan_mode=access).", diagnose.Selvage: "A segment lets tags pass by vlanTransparent alone: leave that out where guests are."},
		"tunnel-in-tunnel": {diagnose.Kernel: "Drop UDP 4789 in the host's input chain from anywhere but the underlay.", "ovs": "Keep guests from routes to the underlay.", diagnose.Selvage: "Keep routers of guests from routes to the underlay."},
		"forged-tep":       {diagnose.Kernel: "The vxlan device takes packets from anybody: let nftables take them from the other endpoints alone.", "ovs": "Give tunnel ports remote_ip, not flow.", diagnose.Selvage: "Tunnel packets are taken from remotes alone: look at selvage drops."},
		"forged-icmp":      {diagnose.Kernel: "Linux believes any “fragmentation needed” for ten minutes: drop them on the underlay where its MTU is known, or set net.ipv4.ip_no_pmtu_disc.", "ovs": "Drop “fragmentation needed” on the underlay where its MTU is known.", diagnose.Selvage: "A message may only start a probe: look at selvage teps -o wide for what was believed."},
		"syn-flood":        {diagnose.Kernel: "All tenants share one table of connections: limit connections by source (ct count), or track by zone.", "ovs": "Limit the zone (dpctl/ct-set-limits).", diagnose.Selvage: "The port's share of half-open connections decides: see limits.halfOpen."},
		"udp-dialogues":    {diagnose.Kernel: "All tenants share one table of connections: limit connections by source (ct count).", "ovs": "Limit the zone (dpctl/ct-set-limits).", diagnose.Selvage: "The port's share of connections decides: see selvage ports -o wide."},
		"nat-exhaustion":   {diagnose.Kernel: "All tenants share ports and table: limit connections by source (ct count).", diagnose.Selvage: "Limit a source's sessions: nat.limit of the uplink, limit of the policy."},
		"bum-storm":        {diagnose.Kernel: "Limit broadcast, multicast and unknown unicast at each port; nftables cannot see the last: turn the bridge port's flood off.", "ovs": "Meters limit broadcast and multicast; for unknown unicast limit the port.", diagnose.Selvage: "Lower the port's limits of broadcast, multicast and unknown unicast."},
		"route-flood":      {diagnose.Kernel: "FRR takes what a neighbour tells: filter by route map, and limit the neighbour.", diagnose.Selvage: "Limit what the neighbour may tell by a route policy."},
		"bfd-forgery":      {"ovs": "BFD in the tunnel has no authentication: keep strangers from the underlay.", diagnose.Selvage: "BFD has no authentication: keep strangers from the underlay (RFC 5082 helps across routers alone)."},
	}
}

// underTest is the target that a verdict on r is about, "" for none.
func underTest(r result.Result) string { return diagnose.Gather(r, summarise, "").DUT }
