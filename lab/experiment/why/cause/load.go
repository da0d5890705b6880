package cause

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/result"
)

// Load is what an end counted while the slow path was under load.
type Load struct {
	NoRoom map[string]int64 // of interfaces: packets that the receive ring had no room for
	Pauses map[string]int64 // of interfaces: frames of flow control
	Lost   map[string]int64 // packets of each counter of losses that grew
	Steal  float64          // the largest share of CPU time that a hypervisor gave to others, 0 … 1
	// Cores are the packets that each core took in from networks while several streams ran.
	Cores []int64
}

// Add adds what was seen in a time.
func (l *Load) Add(w agent.Watched) {
	if l.NoRoom == nil {
		l.NoRoom, l.Pauses, l.Lost = map[string]int64{}, map[string]int64{}, map[string]int64{}
	}
	full := map[string][2]int64{} // by the kernel's counters, and by the driver's, which may be of the same packets
	for _, d := range w.Lost() {
		l.Lost[strings.Join(slices.DeleteFunc([]string{d.Stage, d.Where, d.Counter}, func(s string) bool { return s == "" }), " ")] += d.Packets
		n := full[d.Where]
		switch room := noRoom(d); room {
		case kernelCounter, driverCounter:
			n[room] += d.Packets
		}
		full[d.Where] = n
	}
	for name, n := range full {
		if most := max(n[kernelCounter], n[driverCounter]); most > 0 {
			l.NoRoom[name] += most
		}
	}
	for name, n := range w.Pauses {
		l.Pauses[name] += n
	}
	l.Steal = max(l.Steal, w.CPU.Steal)
}

// AddCores adds the packets that each core took in.
func (l *Load) AddCores(w agent.Watched) {
	for i, s := range w.Softnet {
		if i == len(l.Cores) {
			l.Cores = append(l.Cores, 0)
		}
		l.Cores[i] += s.Processed
	}
}

// Who counts packets without room.
const (
	kernelCounter = iota
	driverCounter
	otherCounter
)

// noRoom says whether a counter is of packets that a receive ring had no room for.
func noRoom(d result.Drop) int {
	switch name := strings.ToLower(d.Counter); {
	case d.Stage != agent.StageNIC:
		return otherCounter
	case name == "rx_over_errors" || name == "rx_fifo_errors" || name == "rx_missed_errors":
		return kernelCounter
	case strings.Contains(name, "oob") || strings.Contains(name, "out_of_buf") || strings.Contains(name, "no_buf") || strings.Contains(name, "nobuf") || strings.Contains(name, "no_desc"):
		return driverCounter
	}
	return otherCounter
}

// most are the largest counters of losses, as text.
func (l Load) most() string {
	names := slices.SortedFunc(maps.Keys(l.Lost), func(a, b string) int {
		if l.Lost[a] != l.Lost[b] {
			return int(l.Lost[b] - l.Lost[a])
		}
		return strings.Compare(a, b)
	})
	var all []string
	for _, name := range names[:min(len(names), 3)] {
		all = append(all, fmt.Sprintf("%s %d", name, l.Lost[name]))
	}
	return strings.Join(all, ", ")
}

// leastPackets are so few that one core may have taken them all in by chance.
const leastPackets = 1000

// oneCore is the share of packets that the busiest core took in, and whether that is nearly all of many. Several streams ran then.
func (l Load) oneCore() (share float64, one bool) {
	var sum, most int64
	for _, n := range l.Cores {
		sum, most = sum+n, max(most, n)
	}
	if sum < leastPackets || len(l.Cores) < 2 {
		return 0, false
	}
	share = float64(most) / float64(sum)
	return share, share >= 0.9
}

// leastNoRoom are fewer than what a link that is idle otherwise loses as a load begins.
const leastNoRoom = 10

// rings are receive rings of the path that overflowed under the load.
func rings(e Evidence) (all []Cause) {
	for _, role := range e.roles() {
		for _, i := range e.Ends[role].devices() {
			lost := e.Ends[role].Load.NoRoom[i.Name]
			if lost < leastNoRoom {
				continue
			}
			c := Cause{
				Setting: "ring", Object: role + ":" + i.Name, Likelihood: 0.8,
				Why: fmt.Sprintf("the receive ring of %s had no room for %d packets while the path was under load", i.Name, lost),
			}
			if r := i.Ring; r != nil && r.Rx > 0 && r.Rx < r.RxMax {
				c.Why += fmt.Sprintf("; it has %d of at most %d descriptors", r.Rx, r.RxMax)
				c.Flips = []Flip{{Role: role, Change: agent.Change{Interface: i.Name, Setting: agent.RxRing, Value: itoa(r.RxMax)}, Back: agent.Change{Interface: i.Name, Setting: agent.RxRing, Value: itoa(r.Rx)}}}
			} else {
				c.Advice = role + ": ethtool -L " + i.Name + ", for more queues; ethtool -S " + i.Name
			}
			all = append(all, c)
		}
	}
	return all
}

// pauses are interfaces of the path that sent or got frames of flow control under the load: one end waited.
func pauses(e Evidence) (all []Cause) {
	for _, role := range e.roles() {
		for _, i := range e.Ends[role].devices() {
			frames := e.Ends[role].Load.Pauses[i.Name]
			if frames == 0 {
				continue
			}
			c := Cause{
				Setting: "pause", Object: role + ":" + i.Name, Likelihood: 0.6,
				Why: fmt.Sprintf("%s counted %d frames of flow control while the path was under load: an end of its link waited", i.Name, frames),
			}
			if p := i.Pause; p != nil && (p.Rx || p.Tx) {
				c.Flips = []Flip{{Role: role, Change: agent.Change{Interface: i.Name, Setting: agent.Pauses, Value: "off"}, Back: agent.Change{Interface: i.Name, Setting: agent.Pauses, Value: agent.PauseValue(p.Autoneg, p.Rx, p.Tx)}}}
				c.Advice = "both: flow control off at the switch's port too"
			} else {
				c.Advice = role + ": ethtool -a " + i.Name + "; flow control at the switch's port"
			}
			all = append(all, c)
		}
	}
	return all
}

// headers of TCP's segments over IPv6, with time stamps, which is the most that a segment lacks of a packet without other options.
const tcpHeaders = 40 + 20 + 12

// smallSegments are of a transfer whose segments are much smaller than packets that arrive: an MSS that somebody clamped.
func smallSegments(e Evidence) []Cause {
	o := e.Overlay
	if o.MSS == 0 || o.MTU == 0 || o.MTU < o.SentMTU || float64(o.MSS+tcpHeaders) >= 0.9*float64(o.MTU) {
		return nil
	}
	return []Cause{{
		Setting: "mss", Object: "overlay", Likelihood: 0.65,
		Why:    fmt.Sprintf("TCP's segments have %d bytes, and packets of %d arrive: a rule, a route or the far end's interface makes them small", o.MSS, o.MTU),
		Advice: "both: ip route get ADDRESS, for advmss; nft list ruleset, iptables-save -t mangle, for maxseg and TCPMSS; ip link, for the MTU",
	}}
}

// slowPaths are paths of equal cost of which some are much slower than the others, or carry nothing.
func slowPaths(e Evidence) []Cause {
	var rtts []float64
	var silent []string
	for _, f := range e.Overlay.Flows {
		if f.RTT > 0 {
			rtts = append(rtts, f.RTT)
		} else if f.Largest == 0 {
			silent = append(silent, itoa(f.Port))
		}
	}
	c := Cause{Setting: "path", Object: "overlay", Likelihood: 0.5}
	advice := func(port string) string {
		return fmt.Sprintf("client: traceroute -U --sport=%s -p %d ADDRESS, on the underlay with the tunnel's source ports; selvage teps, where an edge has the tunnel", port, e.Port)
	}
	if len(rtts) > 0 && silent != nil {
		c.Likelihood, c.Why = 0.9, fmt.Sprintf("from %d of %d source ports nothing arrives: one of several paths carries nothing", len(silent), len(e.Overlay.Flows))
		c.Advice = advice(silent[0])
		return []Cause{c}
	}
	const leastFlows = 8 // of which a quarter is more than one
	if len(rtts) < leastFlows {
		return nil
	}
	slices.Sort(rtts)
	// The fastest quarter are of a good path, also where most are not.
	usual := rtts[len(rtts)/4]
	// A host's own cores differ by some 200 µs, as one wakes for some ports and another for the rest.
	const muchSlower, leastMicros = 2, 500
	var ports []string
	fastest := math.Inf(1)
	for _, f := range e.Overlay.Flows {
		if f.RTT > muchSlower*usual && f.RTT > usual+leastMicros {
			ports, fastest = append(ports, itoa(f.Port)), min(fastest, f.RTT)
		}
	}
	if ports == nil {
		return nil
	}
	c.Why = fmt.Sprintf("round trips from %d of %d source ports take %.3g µs or more, of the others %.3g: one of several paths is slow", len(ports), len(rtts), fastest, usual)
	c.Advice = advice(ports[0])
	return []Cause{c}
}

// tracking is netfilter that tracks connections at an end of the path, the measured ones too.
func tracking(e Evidence) (all []Cause) {
	for _, role := range e.roles() {
		if n := e.Ends[role].Kernel.Tracked; n > 0 {
			all = append(all, Cause{
				Setting: "conntrack", Object: role, Likelihood: 0.2, Flips: []Flip{{Role: role, Switch: untracked(e.Port)}},
				Why:    fmt.Sprintf("netfilter tracks connections, %d now: each packet is looked up, and each new connection allocated", n),
				Advice: role + ": rules with notrack for what needs no state, such as the tunnel's own UDP port",
			})
		}
	}
	return all
}

// untracked has the packets of the measurement pass without a connection.
func untracked(port int) agent.Switch {
	table := "inet " + strings.ReplaceAll(mark, "-", "_")
	var chains []string
	for _, hook := range []string{"prerouting", "output"} {
		chains = append(chains, fmt.Sprintf("chain %s { type filter hook %s priority raw; meta l4proto { tcp, udp } th dport { %d, %d } notrack; meta l4proto { tcp, udp } th sport { %d, %d } notrack; }",
			hook, hook, port, port+1, port, port+1))
	}
	return agent.Switch{
		On:  fmt.Sprintf("nft 'table %s { %s }'", table, strings.Join(chains, " ")),
		Off: fmt.Sprintf("nft 'table %s { }' && nft delete table %s", table, table),
	}
}

// performance is the governor that does not wait for load.
const performance = "performance"

// governors are CPU frequency governors that follow the load.
func governors(e Evidence) (all []Cause) {
	for _, role := range e.roles() {
		cpu := e.Ends[role].Facts.Machine.CPU
		others := maps.Clone(cpu.Governors)
		delete(others, performance)
		if len(others) == 0 {
			continue
		}
		names := slices.Sorted(maps.Keys(others))
		c := Cause{
			Setting: "governor", Object: role, Likelihood: 0.25,
			Why: fmt.Sprintf("the frequency of CPUs follows their load (governor %s, %s): short work runs slowly", strings.Join(names, ", "), cpu.FreqDriver),
		}
		if len(cpu.Governors) == 1 {
			c.Flips = []Flip{{Role: role, Switch: agent.Switch{On: governor(performance), Off: governor(names[0])}}}
		} else {
			c.Advice = role + ": cpupower frequency-set -g " + performance
		}
		all = append(all, c)
	}
	return all
}

// governor is a command that gives all CPUs one.
func governor(name string) string {
	return "for f in /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor; do echo " + name + " >$f || exit 1; done"
}

// leastSteal is a share of CPU time that shows in figures.
const leastSteal = 0.05

// steal is a hypervisor that gives the CPUs to others.
func steal(e Evidence) (all []Cause) {
	for _, role := range e.roles() {
		if s := e.Ends[role].Load.Steal; s >= leastSteal {
			all = append(all, Cause{
				Setting: "steal", Object: role, Likelihood: min(0.3+s, 0.9),
				Why:    fmt.Sprintf("the hypervisor gave %.0f %% of the CPUs' time to others while the path was under load", 100*s),
				Advice: role + ": mpstat 1, for %steal; fewer virtual CPUs on that host, or pinned ones",
			})
		}
	}
	return all
}

// queuesOf are how many receive queues an interface has, 0 where it is not known.
func queuesOf(i *facts.Interface) int {
	if i.Channels == nil {
		return 0
	}
	queues, _ := i.Channels.Receive()
	return queues
}
