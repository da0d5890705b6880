package prove

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/overlay"
)

// State is what a finding means.
type State string

// The states.
const (
	Proven     State = "proven"     // packets of all sizes came through, by all ways
	Partial    State = "partial"    // some did
	Broken     State = "broken"     // none did
	Unprovable State = "unprovable" // there is nothing at the other end that had to answer
)

// Known is what is known of a tunnel without probes.
type Known struct {
	// Remote is how the remote is called.
	Remote string
	// NoWay says why nothing can be sent there, and NoWayFix what to do; "" where there are
	// paths.
	NoWay, NoWayFix string
	// Alive says that liveness has a session with the remote.
	Alive bool
	// Hosts that BGP says are there.
	Hosts int
	// Ours says that the remote is known to be a Selvage edge, which always answers.
	Ours bool
	// Routed says that the remote's router is asked, not hosts of a segment.
	Routed bool
	// Shared says that it is asked from an address that it may have itself, as gateways do.
	Shared bool
}

// Verdict is a finding for an operator.
type Verdict struct {
	State State
	// Cause is what is wrong, or what else was seen, and Cure what to do; "" where all is well.
	Cause, Fix string
}

// Classify says what a finding means.
func Classify(t Tunnel, f Finding, k Known) Verdict {
	switch {
	case k.NoWay != "":
		return Verdict{Broken, k.NoWay, k.NoWayFix}
	case !f.alive():
		return classifySilence(t, f, k)
	}
	if v := classifyWays(t, f, k); v.State != "" {
		return v
	}
	if f.SizeTried && !f.Fits {
		return classifySize(t, f, k)
	}
	if k.Routed {
		return classifyRouter(t, f, k)
	}
	return classifyHosts(t, f, k)
}

// classifySilence is of a tunnel out of which nothing came.
func classifySilence(t Tunnel, f Finding, k Known) Verdict {
	pings, refusal := false, ""
	for _, p := range f.Paths {
		pings = pings || p.Ping == Answers
		if refusal == "" {
			refusal = p.Refusal
		}
	}
	near := !slices.ContainsFunc(t.Targets, func(t Target) bool { return !t.Near })
	switch {
	case refusal != "":
		return Verdict{Broken, "nothing came back; " + refusal, fmt.Sprintf(
			"see that the edge at %s runs and takes %s, and that no filter refuses it", k.Remote, wire(t))}
	case k.Shared && !k.Ours && pings:
		return Verdict{Unprovable, "nothing came back; " + sharedSource, sharedFix}
	case len(t.Targets) == 0 || near && !k.Ours && pings:
		return Verdict{
			Unprovable, "no host is known there that would answer, and a remote that is no Selvage edge answers nothing itself",
			"have a host there say something, or ask from the other end; for a router, give it a loopback address",
		}
	case pings:
		fix := fmt.Sprintf("look for a filter of %s, in both directions, and whether VNI %d is configured there with this edge as a remote", wire(t), t.VNI)
		if !k.Ours {
			fix += "; or whoever was asked is gone: only Selvage edges answer by themselves"
		}
		return Verdict{Broken, fmt.Sprintf("%s answers a plain ping, but nothing comes out of its tunnels%s", k.Remote, k.although()), fix}
	}
	return Verdict{Broken, fmt.Sprintf("neither tunnels nor plain pings are answered by %s%s", k.Remote, k.although()),
		"see that it is up and that the underlay has a way there and back: `selvage teps`"}
}

// although says what looked healthy all the same.
func (k Known) although() string {
	var words []string
	if k.Hosts > 0 {
		words = append(words, fmt.Sprintf("BGP says that %d hosts are there", k.Hosts))
	}
	if k.Alive {
		words = append(words, "BFD, which is not tunnelled, is up")
	}
	if len(words) == 0 {
		return ""
	}
	return ", although " + strings.Join(words, " and ")
}

// wire is how tunnel packets are told apart on the underlay.
func wire(t Tunnel) string {
	if t.Header.Encapsulation == overlay.NVGRE {
		return "GRE (IP protocol 47)"
	}
	return fmt.Sprintf("UDP port %d", t.Header.UDPPort)
}

// classifyWays is of ways that are dead beside others that are not.
func classifyWays(t Tunnel, f Finding, k Known) (v Verdict) {
	for i, p := range f.Paths {
		pair := t.Paths[i].Pair
		switch {
		case len(p.Dead) == 0:
			continue
		case p.Answered == 0:
			v = Verdict{Partial, fmt.Sprintf("the path %s is dead, others work", pair), fmt.Sprintf(
				"look at the underlay between the two, and for a filter of %s", wire(t))}
		default:
			v = Verdict{Partial, fmt.Sprintf("%d of %d ways to %s are dead, so flows are lost by chance", len(p.Dead), p.Ways, k.Remote), fmt.Sprintf(
				"one of the underlay's equal paths, or a member of a bundle, loses packets: look at the one that takes %s from %s to %s with source port %s",
				wire(t), pair.Local, pair.Remote, list(p.Dead))}
		}
		if p.Refusal != "" {
			v.Cause += "; " + p.Refusal
		}
		return v
	}
	return v
}

func list(ports []uint16) string {
	words := make([]string, 0, len(ports))
	for _, p := range ports {
		words = append(words, fmt.Sprint(p))
	}
	return strings.Join(words, ", ")
}

// classifySize is of small packets that come through and large ones that do not.
func classifySize(t Tunnel, f Finding, k Known) Verdict {
	overhead := t.Header.Overhead(t.Remotes[0])
	cause := fmt.Sprintf("small packets pass, full size does not: %d bytes (%d outside of the tunnel)", t.Size, t.Size+overhead)
	if f.Passed > 0 {
		cause += fmt.Sprintf(", %d do", f.Passed)
	}
	underlay, refusal := false, ""
	for _, p := range f.Paths {
		underlay = underlay || p.Ping == Answers && p.LargePing == Silent
		if refusal == "" {
			refusal = p.Refusal
		}
	}
	if refusal != "" {
		cause += "; " + refusal
	}
	fix := "if hosts there have a smaller MTU, that is all; else look for a device on the way with a smaller MTU, or a filter of large or fragmented UDP packets"
	if underlay || refusal != "" {
		fix = "raise the MTU of the underlay on the way"
		if f.Passed > 0 {
			fix += fmt.Sprintf(", or lower that of this host's underlay interface to %d", f.Passed+overhead)
		}
		fix += "; spec.underlay.probeMTU finds it out by itself"
	}
	if underlay {
		cause += fmt.Sprintf("; a plain ping of %s that large is lost too", k.Remote)
	}
	return Verdict{Partial, cause, fix}
}

// beyond says which of those that the edge there has to send packets on for, or be a router for,
// answered, which were silent, and what the router said of the rest.
func beyond(t Tunnel, f Finding) (answered int, silent, refused []string) {
	for i, target := range t.Targets {
		found := f.Targets[i]
		switch {
		case target.Near:
		case found.Answered == 0:
			silent = append(silent, target.Addr.String())
		case found.Refused:
			refused = append(refused, fmt.Sprintf("%s (%s)", target.Addr, found.Answer))
		default:
			answered++
		}
	}
	return answered, silent, refused
}

// classifyHosts is of a segment whose tunnel works.
func classifyHosts(t Tunnel, f Finding, k Known) Verdict {
	answered, silent, _ := beyond(t, f)
	switch {
	case len(silent) == 0:
		return Verdict{State: Proven}
	case answered == 0:
		return Verdict{
			Partial, fmt.Sprintf("the edge %s answers, but no host behind it: %s", k.Remote, strings.Join(silent, ", ")),
			"look there for the hosts' ports; if the hosts are gone, what is known of them is old: `selvage fdb`",
		}
	}
	return Verdict{
		Proven, fmt.Sprintf("the tunnel works, but does not lead to %s: others there answer", strings.Join(silent, ", ")),
		"look at the host: it may be down, or have another address or MAC address than is known here",
	}
}

// checkRouter is of prefixes whose tunnel works.
func classifyRouter(t Tunnel, f Finding, k Known) (v Verdict) {
	answered, silent, refused := beyond(t, f)
	var asked Target
	if i := slices.IndexFunc(t.Targets, func(t Target) bool { return !t.Near }); i >= 0 {
		asked = t.Targets[i]
	}
	switch {
	case len(refused) > 0:
		v = Verdict{
			Broken, "the tunnel works, but the router there has no way on: " + strings.Join(refused, ", "),
			"look there for a route; what is known here of the prefix is wrong or old: `selvage routes`",
		}
	case len(silent) > 0 && k.Shared:
		v = Verdict{Unprovable, fmt.Sprintf("the tunnel works; for %s nothing came back: %s", strings.Join(silent, ", "), sharedSource), sharedFix}
	case len(silent) > 0:
		v = Verdict{
			Broken, fmt.Sprintf("the tunnel works, but the router of %s does not answer for %s", k.Remote, strings.Join(silent, ", ")),
			fmt.Sprintf("see that its router MAC is %s, that it has a way back to %s, and sends ICMP", asked.MAC, asked.From),
		}
	case answered == 0:
		return Verdict{
			Unprovable, "the edge there answers, but there is no address to ask its router from",
			sharedFix,
		}
	default:
		return Verdict{State: Proven}
	}
	if answered > 0 && v.State == Broken {
		v.State = Partial
	}
	return v
}

// Who has only gateways to ask from is told so.
const (
	sharedSource = "the router here has no address but its gateways', which routers there may have too, and then keep what answers to it"
	sharedFix    = "give the router an address of its own by spec.routers[].loopbacks"
)
