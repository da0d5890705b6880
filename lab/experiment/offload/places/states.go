package places

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/agent"
)

// States of every run.
const (
	AsFound = "as-found"
	AllOff  = "all-off"
)

// kind is what one state changes together.
type kind struct {
	name, words string
	features    []string // by ethtool -k's kernel names
}

// kinds are all of them. Checksums come first: Linux segments in a device only where that does
// checksums.
func kinds() []kind {
	return []kind{
		{"checksums", "checksums", []string{"tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6", "rx-checksum"}},
		{"tso", "TCP segmentation (TSO)", []string{"tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-tcp-ecn-segmentation"}},
		{"gso", "segmentation by the kernel (GSO)", []string{"tx-generic-segmentation"}},
		{"gro", "coalescing by the kernel (GRO)", []string{"rx-gro"}},
		{"gro-hw", "coalescing by the adapter (GRO)", []string{"rx-gro-hw"}},
		{"lro", "coalescing by the adapter (LRO)", []string{"rx-lro"}},
		{"tunnel-tso", "segmentation in tunnels", []string{
			"tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation", "tx-gre-segmentation", "tx-gre-csum-segmentation",
			"tx-ipxip4-segmentation", "tx-ipxip6-segmentation",
		}},
	}
}

// state is a set of changes to what was found, by role.
type state struct {
	name    string
	changes map[string][]agent.Change
}

// back are the changes of a role that undo it: features with checksums first, settings from the last
// to the first, so that a driver chooses nothing anew before a figure is back.
func (s state) back(role string, a agent.Adapter) []agent.Change {
	var changes []agent.Change
	for _, c := range s.changes[role] {
		if c.Setting != "" {
			c.Value = a.Settings[c.Setting].Value
			changes = slices.Insert(changes, 0, c)
			continue
		}
		c.On = !c.On
		changes = append(changes, c)
	}
	return changes
}

// found is what a run knows of the interface of a role.
type found struct {
	role, iface string
	adapter     agent.Adapter
}

// statesOf are all states that differ from what was found, and what there is not, by kind. all-off is
// made by allOff, of those that work.
func statesOf(ends []found) (states []state, missing []string) {
	add := func(name string, of func(found) []agent.Change) bool {
		s := state{name, map[string][]agent.Change{}}
		for _, e := range ends {
			if changes := of(e); len(changes) > 0 {
				s.changes[e.role] = changes
			}
		}
		if len(s.changes) > 0 {
			states = append(states, s)
		}
		return len(s.changes) > 0
	}
	for _, k := range kinds() {
		off := add(k.name+"-off", func(e found) []agent.Change { return k.turned(e, false) })
		if on := add(k.name+"-on", func(e found) []agent.Change { return k.turned(e, true) }); !off && !on {
			missing = append(missing, k.name+": neither interface can change it")
		}
	}
	for _, k := range settingStates() {
		add(k.name, k.changed)
	}
	for _, e := range ends {
		missing = append(missing, e.lacks()...)
	}
	return states, missing
}

// lacks are the settings that an end has not, a line for each reason.
func (e found) lacks() []string {
	var reasons []string
	settings := map[string][]string{}
	for _, setting := range agent.Settings() {
		why, no := e.adapter.Missing[setting]
		if no && settings[why] == nil {
			reasons = append(reasons, why)
		}
		if no {
			settings[why] = append(settings[why], setting)
		}
	}
	var lines []string
	for _, why := range reasons {
		lines = append(lines, fmt.Sprintf("%s at the %s (%s): %s", strings.Join(settings[why], ", "), e.role, e.iface, why))
	}
	return lines
}

// turned are the changes that turn a kind on or off at an end, where it is not.
func (k kind) turned(e found, on bool) (changes []agent.Change) {
	for _, feature := range k.features {
		if now, can := e.adapter.Features[feature]; can && now != on {
			changes = append(changes, agent.Change{Interface: e.iface, Feature: feature, On: on})
		}
	}
	return changes
}

// changed are the changes to a state at an end, where it has the settings and they are others.
func (k settingState) changed(e found) (changes []agent.Change) {
	for _, setting := range k.settings {
		s, has := e.adapter.Settings[setting]
		if value := k.value(s); has && value != s.Value {
			changes = append(changes, agent.Change{Interface: e.iface, Setting: setting, Value: value})
		}
	}
	return changes
}

func always(value string) func(agent.Setting) string {
	return func(agent.Setting) string { return value }
}

// settingState is a state of settings that are no features, where an adapter has them.
type settingState struct {
	name, words string
	settings    []string
	value       func(agent.Setting) string
}

func settingStates() []settingState {
	return []settingState{
		{"rss-ports", "RSS by UDP ports too", []string{agent.UDPHash4, agent.UDPHash6}, always(agent.HashPorts)},
		{"rss-addresses", "RSS of UDP by addresses alone", []string{agent.UDPHash4, agent.UDPHash6}, always(agent.HashAddresses)},
		{"no-pause", "no frames of flow control", []string{agent.Pauses}, always("off")},
		{"rings-max", "rings of the largest size", []string{agent.RxRing, agent.TxRing}, func(s agent.Setting) string { return s.Most }},
		{"interrupts-at-once", "an interrupt for each frame", []string{agent.AdaptiveRx, agent.RxUsecs}, func(s agent.Setting) string {
			if s.Value == "on" || s.Value == "off" {
				return "off"
			}
			return "0"
		}},
		{"interrupts-adaptive", "interrupts that adapt", []string{agent.AdaptiveRx}, always("on")},
	}
}

// allOff has what is in the states that turn a kind off.
func allOff(states []state) state {
	all := state{AllOff, map[string][]agent.Change{}}
	for _, s := range states {
		if !isOff(s.name) {
			continue
		}
		for role, changes := range s.changes {
			all.changes[role] = append(all.changes[role], changes...)
		}
	}
	return all
}

func isOff(name string) bool {
	return slices.ContainsFunc(kinds(), func(k kind) bool { return name == k.name+"-off" })
}

// wordsOf is a state in words, to follow a figure.
func wordsOf(name string) string {
	switch name {
	case AsFound:
		return "as found"
	case AllOff:
		return "with all offloads off"
	}
	for _, k := range settingStates() {
		if k.name == name {
			return "with " + k.words
		}
	}
	for _, k := range kinds() {
		if of, on, _ := cutLast(name); of == k.name {
			return map[string]string{"on": "with ", "off": "without "}[on] + k.words
		}
	}
	return "in state " + name
}

func cutLast(name string) (before, after string, found bool) {
	at := strings.LastIndexByte(name, '-')
	if at < 0 {
		return name, "", false
	}
	return name[:at], name[at+1:], true
}
