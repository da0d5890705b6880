// Package cause proposes why a path is slower than it could be, from evidence that was read before anything was
// changed, the likeliest first.
//
// Its one invariant: it is pure. It reads no host and changes none: evidence is read by lab/agent, and a cause is proved
// by lab/experiment/why, which flips the setting and measures.
package cause

import (
	"cmp"
	"slices"

	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/measure"
)

// Most is how many causes are proposed: each costs a run.
const Most = 5

// Roles of the ends.
const (
	Client = "client"
	Server = "server"
)

// Evidence is what is known before anything is flipped.
type Evidence struct {
	Ends map[string]End // by role
	// Overlay is the path that is slow, Plain one beside it: nil where there is none.
	Overlay Figures
	Plain   *Figures
	// Port is the server's, which the measured packets have: TCP and UDP.
	Port int
}

// End is what was read at one end of the path.
type End struct {
	Facts facts.Host
	// Device is the interface that the path leaves by.
	Device string
	Kernel agent.Evidence
	// Load is what it counted while the slow path was under load.
	Load Load
}

// Figures are the medians of a path's slices before anything was flipped. What was not measured is 0.
type Figures struct {
	Gbits    float64            // TCP, one stream, of its payload
	RRMicros float64            // median of a round trip
	LossPPM  float64            // UDP datagrams that did not arrive, in millionths
	Sent     float64            // such datagrams
	MTU      int                // largest IP packet that arrives, bytes
	SentMTU  int                // of the interface that it leaves by
	MSS      int                // of that stream, bytes
	Flows    []measure.FlowSize // UDP from several source ports, which paths of equal cost are chosen by
}

// Flip is what changes a setting at one end. It is a change with the one that takes it back, or a switch whose On flips.
type Flip struct {
	Role         string
	Change, Back agent.Change
	Switch       agent.Switch
}

// Command is what a user would run.
func (f Flip) Command() string {
	if f.Switch.On != "" {
		return f.Switch.On
	}
	switch c := f.Change; {
	case c.Sysctl != "":
		return "sysctl -w " + c.String()
	case c.MTU != 0:
		return "ip link set dev " + c.Interface + " mtu " + itoa(c.MTU)
	case c.Setting == "":
		return "ethtool -K " + c.Interface + " " + c.Feature + " " + onOff(c.On)
	case c.Setting == agent.RxRing:
		return "ethtool -G " + c.Interface + " rx " + c.Value
	case c.Setting == agent.Pauses && c.Value == "off":
		return "ethtool -A " + c.Interface + " autoneg off rx off tx off"
	case c.Setting == agent.UDPHash4 && c.Value == agent.HashPorts:
		return "ethtool -N " + c.Interface + " rx-flow-hash udp4 sdfn"
	default:
		return c.String()
	}
}

// Cause is what may slow a path.
type Cause struct {
	Setting string // one of Settings, which --may names
	Object  string // what it is a setting of
	// Likelihood orders causes, 0 … 1.
	Likelihood float64
	// Why is the evidence, with its figures.
	Why string
	// Flips are made together to prove it. None: it cannot be flipped, and Advice says what to try.
	Flips  []Flip
	Advice string
}

// Commands are those that flip it by hand.
func (c Cause) Commands() (all []string) {
	for _, f := range c.Flips {
		all = append(all, f.Role+": "+f.Command())
	}
	if c.Advice != "" {
		all = append(all, c.Advice)
	}
	return all
}

// Propose returns what may be the matter, at most Most, the likeliest first.
func Propose(e Evidence) []Cause {
	var all []Cause
	for _, rule := range []func(Evidence) []Cause{
		hole, offloadsOff, receiveOffloadOff, slowChecksum, rateLimits, rules, bridgeNetfilter, hashOfTunnels, losses,
		rings, pauses, smallSegments, slowPaths, tracking, governors, steal,
	} {
		all = append(all, rule(e)...)
	}
	slices.SortStableFunc(all, func(a, b Cause) int { return cmp.Compare(b.Likelihood, a.Likelihood) })
	return all[:min(len(all), Most)]
}

// roles are the ends that there are, in order.
func (e Evidence) roles() (roles []string) {
	for _, role := range []string{Client, Server} {
		if _, ok := e.Ends[role]; ok {
			roles = append(roles, role)
		}
	}
	return roles
}

// LeastGbits is what a path is taken to carry that carries less: one that stalls carries nothing.
const LeastGbits = 1e-3

// Slowdown is how many times more the plain path carries; 1 where it is not known.
func (e Evidence) Slowdown() float64 {
	if e.Plain == nil || e.Plain.Gbits <= 0 {
		return 1
	}
	return e.Plain.Gbits / max(e.Overlay.Gbits, LeastGbits)
}

// devices are the interfaces of the path at an end, topmost first: what it leaves by, the tunnels that are ports of that
// bridge, what is below these, and the underlays. A veth leads to a bridge of the same host, as far as is known.
func (e End) devices() (all []*facts.Interface) {
	add := func(name string) {
		i, ok := e.Facts.Interface(name)
		if ok && !slices.Contains(all, i) {
			all = append(all, i)
		}
	}
	add(e.Device)
	for n := 0; n < len(all); n++ { // which grows
		for j := range e.Facts.Interfaces {
			if i := &e.Facts.Interfaces[j]; i.VNI != 0 && (i.Master == all[n].Name || n == 0 && all[n].Kind == "veth" && i.Master != "") {
				add(i.Name)
			}
		}
		add(all[n].Lower)
	}
	for j := range e.Facts.Interfaces {
		if i := &e.Facts.Interfaces[j]; i.Role == "underlay" && i.Up {
			add(i.Name)
		}
	}
	return all
}

// HasQueues says whether an adapter of the path has several receive queues.
func (e End) HasQueues() bool {
	return slices.ContainsFunc(e.devices(), func(i *facts.Interface) bool { return i.Kind == "" && queuesOf(i) > 1 })
}

// isBridged says whether the path goes over a bridge at the end.
func (e End) isBridged() bool {
	return slices.ContainsFunc(e.devices(), func(i *facts.Interface) bool { return i.Kind == "bridge" || i.Master != "" })
}
