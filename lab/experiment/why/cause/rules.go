package cause

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/lab/agent"
)

// Settings are what --may names, with what each means.
func Settings() []Setting {
	return []Setting{
		{"offload", "checksum and segmentation offloads of the interfaces on the path"},
		{"gro", "generic receive offload of the interfaces on the path"},
		{"mtu", "MTU of the interfaces that the path begins at"},
		{"rss", "what receive queues hash of tunnel packets"},
		{"qdisc", "rate limits (TBF) of the interfaces on the path"},
		{"netfilter", "rules of nftables, which the measured packets pass by"},
		{"bridge-netfilter", "the sysctls net.bridge.bridge-nf-call-*"},
		{"conntrack", "rules of nftables, by which netfilter does not track the measured packets"},
		{"ring", "receive rings that overflow"},
		{"pause", "flow control of links on which it stopped an end"},
		{"governor", "the governor of CPU frequencies"},
	}
}

// Setting is something that may be flipped.
type Setting struct{ Name, Words string }

// Names of causes that are no setting.
const lossSetting = "loss"

func itoa(n int) string { return strconv.Itoa(n) }

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// feature is a flip of an offload at an end.
func feature(role string, i *facts.Interface, name string, on bool) Flip {
	return Flip{
		Role: role, Change: agent.Change{Interface: i.Name, Feature: name, On: on}, Back: agent.Change{Interface: i.Name, Feature: name, On: !on},
	}
}

// can says whether a feature is as given and may be changed.
func can(i *facts.Interface, name string, on bool) bool {
	f, known := i.Features[name]
	return known && !f.Fixed && f.On == on
}

// hole is a path on which less arrives than the sender believes in.
func hole(e Evidence) []Cause {
	o := e.Overlay
	if o.MTU == 0 || o.MTU >= o.SentMTU {
		return nil
	}
	c := Cause{
		Setting: "mtu", Object: "overlay", Likelihood: 0.95,
		Why: fmt.Sprintf("packets of at most %d bytes arrive, and the interface that they leave by has an MTU of %d", o.MTU, o.SentMTU),
	}
	if n := o.with(o.MTU); n < len(o.Flows) {
		c.Why += fmt.Sprintf("; so it is from %d of %d source ports: one of several paths", n, len(o.Flows))
	}
	for _, role := range e.roles() {
		end := e.Ends[role]
		if i, ok := end.Facts.Interface(end.Device); ok && i.MTU > o.MTU {
			c.Flips = append(c.Flips, Flip{Role: role, Change: agent.Change{Interface: i.Name, MTU: o.MTU}, Back: agent.Change{Interface: i.Name, MTU: i.MTU}})
		}
	}
	return []Cause{c}
}

// with is how many flows have a largest packet of that size.
func (f Figures) with(largest int) (n int) {
	for _, flow := range f.Flows {
		if flow.Largest == largest {
			n++
		}
	}
	return n
}

// sendOffloads are on wherever a device has them, unless somebody turned them off.
var sendOffloads = []string{"tx-scatter-gather", "tx-checksum-ip-generic", "tx-generic-segmentation", "tx-tcp-segmentation"}

// offloadsOff are send offloads of the sender that somebody turned off, of each interface together: some need others.
func offloadsOff(e Evidence) (all []Cause) {
	for _, i := range e.Ends[Client].devices() {
		var names []string
		c := Cause{Setting: "offload", Object: Client + ":" + i.Name, Likelihood: 0.8}
		for _, name := range sendOffloads {
			if can(i, name, false) {
				names, c.Flips = append(names, name), append(c.Flips, feature(Client, i, name, true))
			}
		}
		if names != nil {
			c.Why = strings.Join(names, ", ") + " of " + i.Name + " off: the kernel does for each packet what it could do for 64 kB, or the adapter"
			all = append(all, c)
		}
	}
	return all
}

// muchSlower is a slowdown that a tunnel's headers and look-ups do not explain.
const muchSlower = 1.5

// receiveOffloadOff is GRO of the receiver that is off. Veths come so, and mostly get segments from their peers.
func receiveOffloadOff(e Evidence) (all []Cause) {
	for _, i := range e.Ends[Server].devices() {
		if !can(i, "rx-gro", false) || i.Kind == "veth" && e.Slowdown() < muchSlower {
			continue
		}
		likelihood := 0.6
		if i.Kind == "veth" {
			likelihood = 0.15
		}
		all = append(all, Cause{
			Setting: "gro", Object: Server + ":" + i.Name, Likelihood: likelihood, Flips: []Flip{feature(Server, i, "rx-gro", true)},
			Why: "rx-gro of " + i.Name + " is off: each packet goes up the stack alone",
		})
	}
	return all
}

// slowChecksum is a tunnel device of the sender that leaves checksums to what is below it, which is slow at it or wrong.
func slowChecksum(e Evidence) (all []Cause) {
	if e.Slowdown() < muchSlower {
		return nil
	}
	for _, i := range e.Ends[Client].devices() {
		if i.VNI != 0 && can(i, "tx-checksum-ip-generic", true) && can(i, "tx-tcp-segmentation", true) {
			all = append(all, Cause{
				Setting: "offload", Object: Client + ":" + i.Name + ":tx-checksum-ip-generic", Likelihood: 0.5,
				Flips: []Flip{feature(Client, i, "tx-checksum-ip-generic", false)},
				Why:   fmt.Sprintf("the overlay carries %.2g times less, and %s leaves inner checksums to what is below it, which some kernels and adapters are slow at, or wrong (projectcalico/calico#11435)", e.Slowdown(), i.Name),
			})
		}
	}
	return all
}

// rateLimits are token bucket filters of the path.
func rateLimits(e Evidence) (all []Cause) {
	for _, role := range e.roles() {
		for _, q := range e.Ends[role].Kernel.Qdiscs {
			if !e.Ends[role].has(q.Interface) {
				continue
			}
			switch {
			case q.TBF != nil:
				gbits := float64(q.TBF.Rate) * 8 / 1e9
				likelihood := 0.3
				if role == Client && e.Overlay.Gbits > 0.6*gbits {
					likelihood = 0.9
				}
				all = append(all, Cause{
					Setting: "qdisc", Object: role + ":" + q.Interface, Likelihood: likelihood,
					Why: fmt.Sprintf("a token bucket filter limits what leaves %s to %.3g Gbit/s", q.Interface, gbits),
					Flips: []Flip{{Role: role, Switch: agent.Switch{
						On:  "tc qdisc del dev " + q.Interface + " root",
						Off: "tc qdisc replace dev " + q.Interface + " root " + q.TBF.Args(),
					}}},
				})
			case facts.Shapes(q.Kind):
				all = append(all, Cause{
					Setting: "qdisc", Object: role + ":" + q.Interface, Likelihood: 0.4, Why: q.Kind + " at " + q.Interface + " may limit what leaves it",
					Advice: role + ": tc -s qdisc show dev " + q.Interface,
				})
			}
		}
	}
	return all
}

// has says whether an interface is on the path.
func (e End) has(name string) bool {
	for _, i := range e.devices() {
		if i.Name == name {
			return true
		}
	}
	return false
}

// manyRules take longer than what a packet costs otherwise: some 10 to 30 ns each.
const manyRules = 50

// mark is the comment of rules by which measured packets pass by the others.
const mark = "selvage-lab-why"

// rules are long chains of nftables.
func rules(e Evidence) (all []Cause) {
	for _, role := range e.roles() {
		for _, c := range e.Ends[role].Kernel.Chains {
			if c.Linear < manyRules || c.Family == "bridge" || c.Family == "arp" || c.Family == "netdev" {
				continue
			}
			all = append(all, Cause{
				Setting: "netfilter", Object: role + ":" + c.String(), Likelihood: 0.7,
				Why:    fmt.Sprintf("a packet may be compared with %d rules, one after another, in the hook %s", c.Linear, c.Hook),
				Flips:  []Flip{{Role: role, Switch: passBy(c, e.Port)}},
				Advice: role + ": use sets or verdict maps in " + c.String() + ", and accept established connections first",
			})
		}
	}
	return all
}

// passBy has the packets of the measurement, and of tunnels, accepted by the first rules of a chain.
func passBy(c agent.Chain, port int) agent.Switch {
	var on []string
	for _, match := range []string{
		fmt.Sprintf("meta l4proto { tcp, udp } th dport { %d, %d }", port, port+1), fmt.Sprintf("meta l4proto { tcp, udp } th sport { %d, %d }", port, port+1),
		"udp dport { 4789, 6081, 8472 }",
	} {
		on = append(on, fmt.Sprintf("nft insert rule %s %s accept comment '\"%s\"'", c, "'"+match+"'", mark))
	}
	return agent.Switch{
		On: strings.Join(on, " && "),
		Off: fmt.Sprintf(`nft list ruleset >/dev/null || exit 1; for handle in $(nft -a list chain %s 2>/dev/null | sed -n 's/.*comment "%s" # handle \([0-9]*\)$/\1/p'); do nft delete rule %s handle $handle || exit 1; done`,
			c, mark, c),
	}
}

// bridgeNetfilter is a bridge on the path whose frames pass netfilter.
func bridgeNetfilter(e Evidence) (all []Cause) {
	for _, role := range e.roles() {
		end := e.Ends[role]
		if !end.isBridged() {
			continue
		}
		c := Cause{Setting: "bridge-netfilter", Object: role, Likelihood: 0.25, Why: "frames on bridges pass the hooks of netfilter"}
		for _, name := range []string{"net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables"} {
			if end.Kernel.Sysctls[name] == "1" {
				c.Flips = append(c.Flips, Flip{Role: role, Change: agent.Change{Sysctl: name, Value: "0"}, Back: agent.Change{Sysctl: name, Value: "1"}})
			}
		}
		for _, chain := range end.Kernel.Chains {
			if chain.Linear >= manyRules {
				c.Likelihood, c.Why = 0.75, fmt.Sprintf("frames on bridges pass the hooks of netfilter, %s with %d rules", chain, chain.Linear)
			}
		}
		if c.Flips != nil {
			all = append(all, c)
		}
	}
	return all
}

// SeveralStreams are those that are to spread over queues.
const SeveralStreams = 8

// hashOfTunnels is an adapter of the receiver with several queues that hashes addresses alone, which tunnels between two
// hosts do not vary.
func hashOfTunnels(e Evidence) (all []Cause) {
	for _, i := range e.Ends[Server].devices() {
		if queuesOf(i) < 2 {
			continue
		}
		c := Cause{Setting: "rss", Object: Server + ":" + i.Name, Likelihood: 0.35}
		share, one := e.Ends[Server].Load.oneCore()
		counted := ""
		if one {
			c.Likelihood, counted = 0.75, fmt.Sprintf("one core took in %.0f %% of the packets of %d streams", 100*share, SeveralStreams)
		}
		switch {
		case i.Hash4 != "" && !strings.ContainsAny(i.Hash4, "fn"):
			c.Why = i.Name + " hashes addresses of UDP packets, so that one core receives all tunnels of two hosts"
			if counted != "" {
				c.Why += ": " + counted
			}
			c.Flips = []Flip{{
				Role: Server, Change: agent.Change{Interface: i.Name, Setting: agent.UDPHash4, Value: agent.HashPorts},
				Back: agent.Change{Interface: i.Name, Setting: agent.UDPHash4, Value: agent.HashAddresses},
			}}
		case i.Hash4 == "" && one && i.Kind == "":
			c.Why = fmt.Sprintf("%s, which has %d receive queues, does not tell what it hashes, and %s", i.Name, queuesOf(i), counted)
			c.Advice = fmt.Sprintf("%s: echo MASK >/sys/class/net/%s/queues/rx-0/rps_cpus, so that the kernel spreads them over the cores of MASK", Server, i.Name)
		default:
			continue
		}
		all = append(all, c)
	}
	return all
}

// leastLost is fewer than a working path loses of so many datagrams by chance.
const leastLost = 4

// Loses says whether a path loses more datagrams than a working one.
func Loses(f Figures) bool { return f.LossPPM*f.Sent/1e6 >= leastLost }

// losses are datagrams that the overlay loses and the plain path does not.
func losses(e Evidence) []Cause {
	if !Loses(e.Overlay) || e.Plain != nil && e.Overlay.LossPPM < 3*e.Plain.LossPPM {
		return nil
	}
	var counted string
	for _, role := range e.roles() {
		if most := e.Ends[role].Load.most(); most != "" {
			counted += fmt.Sprintf("; the %s counted %s", role, most)
		}
	}
	return []Cause{{
		Setting: lossSetting, Object: "overlay", Likelihood: 0.85,
		Why:    fmt.Sprintf("%.0f of %.0f datagrams were lost, %.3g in a million%s", e.Overlay.LossPPM*e.Overlay.Sent/1e6, e.Overlay.Sent, e.Overlay.LossPPM, counted),
		Advice: "both: selvage doctor, for drops by adapter, ring and queue; ethtool -S on the underlay, for errors on the wire",
	}}
}
