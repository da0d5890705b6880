package datapath

import (
	"fmt"

	"github.com/selvage/selvage/internal/overlay"
)

// describe puts a step of a trace into words. What a and b are is where the stage
// calls step() in bpf/.
func (d *Datapath) describe(s edgeTraceStep) string {
	switch s.Stage {
	case edgeStageSTAGE_PARSE:
		if s.B != 0 {
			return "refused: " + d.reason(s.B)
		}
		return fmt.Sprintf("well-formed, IP protocol %d", s.A)
	case edgeStageSTAGE_CACHE:
		return "a valid decision is cached; it is taken again for this trace"
	case edgeStageSTAGE_GUARD:
		return fmt.Sprintf("from %s, segment %s", d.end(s.A), d.segmentName(s.B))
	case edgeStageSTAGE_LEARN:
		return d.learned(s)
	case edgeStageSTAGE_NEIGHBOUR:
		return [...]string{
			"ARP or ND, not for the edge to answer", "ARP or ND, answered by the edge",
			"MAC address of the next hop in segment " + d.segmentName(s.B) + " is not known",
			"MAC address of the next hop in segment " + d.segmentName(s.B) + " is known",
		}[s.A&3]
	case edgeStageSTAGE_ROUTE:
		return fmt.Sprintf("router %s: %s", d.names.routers[s.A], routeWords[edgeRouteKind(s.B)])
	case edgeStageSTAGE_SWITCH:
		if s.B == 0 {
			return "destination MAC is not in the FDB of segment " + d.segmentName(s.A)
		}
		return fmt.Sprintf("destination MAC in segment %s is at %s", d.segmentName(s.A), d.end(s.B))
	case edgeStageSTAGE_POLICE:
		return d.judged(s)
	case edgeStageSTAGE_EGRESS:
		return d.left(s)
	case edgeStageSTAGE_NAT:
		return d.translated(s)
	case edgeStageSTAGE_DECISION:
		return d.decided(s)
	}
	return d.carried(s)
}

// carried is what became of the decision.
func (d *Datapath) carried(s edgeTraceStep) string {
	switch s.Stage {
	case edgeStageSTAGE_FLOOD:
		if s.B != 0 {
			return fmt.Sprintf("no copy to %s: %s", d.end(s.A), d.reason(s.B))
		}
		return "copy to " + d.end(s.A)
	case edgeStageSTAGE_ICMP:
		return fmt.Sprintf("sender is told: type %d, code %d, MTU %d", s.A>>8, s.A&0xff, s.B)
	case edgeStageSTAGE_CLAMP:
		return fmt.Sprintf("lowered to %d", s.A)
	case edgeStageSTAGE_ENCAP:
		return fmt.Sprintf("VNI %d to %s", s.B, d.end(s.A))
	case edgeStageSTAGE_DROP:
		return d.reason(s.A)
	}
	return ""
}

var routeWords = map[edgeRouteKind]string{
	edgeRouteKindROUTE_NONE: "no route", edgeRouteKindROUTE_GROUP: "route found",
	edgeRouteKindROUTE_BLACKHOLE: "blackhole route", edgeRouteKindROUTE_UNREACHABLE: "unreachable route",
	edgeRouteKindROUTE_PROHIBIT: "prohibit route",
}

var actionWords = map[edgeAction]string{
	edgeActionACTION_PORT: "deliver to", edgeActionACTION_TUNNEL: "encapsulate to",
	edgeActionACTION_FLOOD: "flood", edgeActionACTION_HOST: "leave to the host",
	edgeActionACTION_ANSWER: "answer", edgeActionACTION_ASK: "ask for the next hop's MAC address",
	edgeActionACTION_CONSUME: "nothing more: the edge has read it",
}

func (d *Datapath) decided(s edgeTraceStep) string {
	words := actionWords[edgeAction(s.A)]
	if action := edgeAction(s.A); action == edgeActionACTION_PORT || action == edgeActionACTION_TUNNEL {
		words += " " + d.end(s.B)
	}
	return words
}

// judged names the rule that decides. a is its number and, in the highest bit, the
// direction; b the verdict and, above it, that a connection is known.
func (d *Datapath) judged(s edgeTraceStep) string {
	const out, known = 1 << 31, 1 << 8
	direction, by, rule := overlay.In, "", d.ruleName(s.A&^out)
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
	return fmt.Sprintf("%s: rule %s says %s%s", direction, name, verdicts[sweepVerdict(s.B&0xff)], by)
}

// left names the policy by which a packet leaves the overlay. a is its number, b that of
// the next hop to its gateway.
func (d *Datapath) left(s edgeTraceStep) string {
	policy := "policy " + d.egressName(s.A)
	if s.B == 0 {
		return policy + ", translated here"
	}
	var hop edgeHop
	if err := d.objs.Hops.Lookup(s.B, &hop); err != nil {
		return policy + ", by a gateway that is not known"
	}
	return policy + ", by the gateway at " + d.end(uint32(hop.End))
}

// translated says what a packet's source or destination becomes. a is which, and above it
// the egress; b the port.
func (d *Datapath) translated(s edgeTraceStep) string {
	what := "destination"
	if edgeFlowFlags(s.A&0xffff) == edgeFlowFlagsFLOW_SNAT {
		what = "source"
	}
	return fmt.Sprintf("%s is translated by %s, to port %d", what, d.egressName(s.A>>16), s.B)
}

func (d *Datapath) egressName(id uint32) string {
	if name := d.names.egresses[id]; name != "" {
		return name
	}
	return fmt.Sprintf("number %d, which is gone", id)
}

func (d *Datapath) learned(s edgeTraceStep) string {
	switch s.B {
	case 0:
		return "source MAC would be learned at " + d.end(s.A)
	case s.A:
		return "source MAC is known at " + d.end(s.A)
	}
	return fmt.Sprintf("source MAC would move from %s to %s", d.end(s.B), d.end(s.A))
}

// end is a port's name or a remote's address.
func (d *Datapath) end(id uint32) string {
	port, remote := d.endName(id)
	switch {
	case port != "":
		return "port " + port
	case remote.IsValid():
		return "remote " + remote.String()
	}
	return "nobody known"
}

func (d *Datapath) segmentName(id uint32) string {
	if name := d.names.segments[id]; name != "" {
		return name
	}
	return "unknown"
}

func (d *Datapath) reason(why uint32) string {
	if int(why) < len(d.words.reasons) {
		return d.words.reasons[why].name + ", " + d.words.reasons[why].text
	}
	return fmt.Sprintf("reason %d", why)
}
