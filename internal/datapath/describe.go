package datapath

import (
	"fmt"

	"github.com/selvage/selvage/internal/overlay"
)

// describe puts a step of a trace into words. What a and b are is where the stage
// calls step() in bpf/.
func (tr *Tracer) describe(s bpfTraceStep) string {
	switch s.Stage {
	case bpfStageSTAGE_PARSE:
		if s.B != 0 {
			return "refused: " + tr.reason(s.B)
		}
		return fmt.Sprintf("well-formed, IP protocol %d", s.A)
	case bpfStageSTAGE_CACHE:
		return "a valid decision is cached; it is taken again for this trace"
	case bpfStageSTAGE_GUARD:
		return fmt.Sprintf("from %s, segment %s", tr.numbers.vport(s.A), tr.numbers.segmentName(s.B))
	case bpfStageSTAGE_LEARN:
		return tr.learned(s)
	case bpfStageSTAGE_NEIGHBOUR:
		return [...]string{
			"ARP or ND, not for the edge to answer", "ARP or ND, answered by the edge",
			"MAC address of the next hop in segment " + tr.numbers.segmentName(s.B) + " is not known",
			"MAC address of the next hop in segment " + tr.numbers.segmentName(s.B) + " is known",
		}[s.A&3]
	case bpfStageSTAGE_ROUTE:
		return fmt.Sprintf("router %s: %s", tr.numbers.names.routers[s.A], routeWords[bpfRouteKind(s.B)])
	case bpfStageSTAGE_SWITCH:
		if s.B == 0 {
			return "destination MAC is not in the FDB of segment " + tr.numbers.segmentName(s.A)
		}
		return fmt.Sprintf("destination MAC in segment %s is at %s", tr.numbers.segmentName(s.A), tr.numbers.vport(s.B))
	case bpfStageSTAGE_FIREWALL:
		return tr.firewallText(s)
	case bpfStageSTAGE_EGRESS:
		return tr.left(s)
	case bpfStageSTAGE_NAT:
		return tr.translated(s)
	case bpfStageSTAGE_DECISION:
		return tr.decided(s)
	}
	return tr.carried(s)
}

// carried is what became of the decision.
func (tr *Tracer) carried(s bpfTraceStep) string {
	switch s.Stage {
	case bpfStageSTAGE_FLOOD:
		if s.B != 0 {
			return fmt.Sprintf("no copy to %s: %s", tr.numbers.vport(s.A), tr.reason(s.B))
		}
		return "copy to " + tr.numbers.vport(s.A)
	case bpfStageSTAGE_ICMP:
		return fmt.Sprintf("ICMP to the sender: type %d, code %d, MTU %d", s.A>>8, s.A&0xff, s.B)
	case bpfStageSTAGE_CLAMP:
		return fmt.Sprintf("lowered to %d", s.A)
	case bpfStageSTAGE_FRAGMENT:
		return fmt.Sprintf("%d bytes in fragments of %d", s.A, s.B)
	case bpfStageSTAGE_ENCAP:
		return fmt.Sprintf("VNI %d to %s", s.B, tr.numbers.vport(s.A))
	case bpfStageSTAGE_DROP:
		return tr.reason(s.A)
	}
	return ""
}

var routeWords = map[bpfRouteKind]string{
	bpfRouteKindROUTE_NONE: "no route", bpfRouteKindROUTE_GROUP: "route found",
	bpfRouteKindROUTE_BLACKHOLE: "blackhole route", bpfRouteKindROUTE_UNREACHABLE: "unreachable route",
	bpfRouteKindROUTE_PROHIBIT: "prohibit route",
}

var actionWords = map[bpfAction]string{
	bpfActionACTION_PORT: "deliver to", bpfActionACTION_TUNNEL: "encapsulate to",
	bpfActionACTION_FLOOD: "flood", bpfActionACTION_HOST: "leave to the host",
	bpfActionACTION_PROXY_REPLY: "answer", bpfActionACTION_RESOLVE: "ask for the next hop's MAC address",
	bpfActionACTION_LOCAL: "nothing more: the edge has read it",
}

func (tr *Tracer) decided(s bpfTraceStep) string {
	words := actionWords[bpfAction(s.A)]
	if action := bpfAction(s.A); action == bpfActionACTION_PORT || action == bpfActionACTION_TUNNEL {
		words += " " + tr.numbers.vport(s.B)
	}
	return words
}

// judged names the rule that decides. a is its number and, in the highest bit, the
// direction; b the verdict and, above it, that a connection is known.
func (tr *Tracer) firewallText(s bpfTraceStep) string {
	const out, known = 1 << 31, 1 << 8
	direction, by, rule := overlay.In, "", tr.firewall.ruleName(s.A&^out)
	if s.A&out != 0 {
		direction = overlay.Out
	}
	if s.B&known != 0 {
		by = ", as it did about the connection, which is known"
	}
	name := rule.Section + "/" + rule.Name
	if rule == (RuleName{}) {
		name = fmt.Sprintf("number %d, which is no longer in the policy", s.A&^out)
	}
	return fmt.Sprintf("%s: rule %s says %s%s", direction, name, verdicts[bpfVerdict(s.B&0xff)], by)
}

// left names the policy by which a packet leaves the overlay. a is its number, b that of
// the next hop to its gateway.
func (tr *Tracer) left(s bpfTraceStep) string {
	policy := "policy " + tr.numbers.egressName(s.A)
	if s.B == 0 {
		return policy + ", translated here"
	}
	var hop bpfNexthop
	if err := tr.routes.maps.Nexthops.Lookup(s.B, &hop); err != nil {
		return policy + ", by a gateway that is not known"
	}
	return policy + ", by the gateway at " + tr.numbers.vport(uint32(hop.Vport))
}

// translated says what a packet's source or destination becomes. a is which, and above it
// the egress; b the port.
func (tr *Tracer) translated(s bpfTraceStep) string {
	what := "destination"
	if bpfFlowFlags(s.A&0xffff) == bpfFlowFlagsFLOW_SNAT {
		what = "source"
	}
	return fmt.Sprintf("%s is translated by %s, to port %d", what, tr.numbers.egressName(s.A>>16), s.B)
}

func (nu *numbers) egressName(id uint32) string {
	if name := nu.names.egresses[id]; name != "" {
		return name
	}
	return fmt.Sprintf("number %d, which is gone", id)
}

func (tr *Tracer) learned(s bpfTraceStep) string {
	switch s.B {
	case 0:
		return "source MAC would be learned at " + tr.numbers.vport(s.A)
	case s.A:
		return "source MAC is known at " + tr.numbers.vport(s.A)
	}
	return fmt.Sprintf("source MAC would move from %s to %s", tr.numbers.vport(s.B), tr.numbers.vport(s.A))
}

// vport is a port's name or a remote's address.
func (nu *numbers) vport(id uint32) string {
	port, remote := nu.vportName(id)
	switch {
	case port != "":
		return "port " + port
	case remote.IsValid():
		return "remote " + remote.String()
	}
	return "unknown"
}

func (nu *numbers) segmentName(id uint32) string {
	if name := nu.names.segments[id]; name != "" {
		return name
	}
	return "unknown"
}

func (tr *Tracer) reason(why uint32) string {
	if int(why) < len(tr.prog.words.reasons) {
		return tr.prog.words.reasons[why].name + ", " + tr.prog.words.reasons[why].text
	}
	return fmt.Sprintf("reason %d", why)
}
