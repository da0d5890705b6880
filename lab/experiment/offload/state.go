package offload

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/topo"
)

// Roles of the interfaces whose offloads are switched.
const (
	rolePorts    = "ports"    // between end systems and hosts, both ends
	roleUnderlay = "underlay" // between the hosts
	roleTunnel   = "tunnel"   // the kernel's tunnel device and bridge
)

// kindOf is the kind of offload that an ethtool feature belongs to, "" for none of those
// that are switched.
func kindOf(feature string) string {
	switch {
	case strings.HasPrefix(feature, "tx-") && strings.Contains(feature, "segmentation"):
		return Segmentation
	case slices.Contains([]string{"rx-gro", "rx-lro", "rx-gro-hw"}, feature):
		return Coalescing
	case slices.Contains([]string{"rx-checksum", "tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"}, feature):
		return Checksums
	}
	return ""
}

// switched is an interface of a role.
type switched struct {
	experiment.HostInterface
	role string
}

// switches are all interfaces of roles in a network.
func switches(n *topo.TwoHosts, devices []string, roles []string) []switched {
	var all []switched
	add := func(role string, h *topo.Host, name string) {
		if slices.Contains(roles, role) {
			all = append(all, switched{experiment.HostInterface{Host: h, Name: name}, role})
		}
	}
	for i, pair := range n.Pairs {
		for _, end := range []struct{ guest, host *topo.Host }{{pair.Client, n.A}, {pair.Server, n.B}} {
			add(rolePorts, end.guest, topo.EndName)
			add(rolePorts, end.host, fmt.Sprintf("p%d", i))
		}
	}
	for _, host := range []*topo.Host{n.A, n.B} {
		add(roleUnderlay, host, topo.UnderlayName)
		for _, name := range devices {
			add(roleTunnel, host, name)
		}
	}
	return all
}

// enterState puts interfaces into a state of the offloads and returns what is in force then, by
// role and kind. It fails when something stays on that should be off. What stays off the
// driver or the kernel's rules forbid: the words say it.
func enterState(ledger *topo.Ledger, all []switched, state string) (map[string]map[string]string, error) {
	inForce := map[string]map[string]string{}
	for _, s := range all {
		features, err := s.Host.Features(s.Name)
		if err != nil {
			return nil, err
		}
		want := map[string]bool{}
		for feature := range features {
			if kind := kindOf(feature); kind != "" {
				want[feature] = isOn(state, kind)
			}
		}
		now, err := ledger.Set(s.Host, s.Name, want)
		if err != nil {
			return nil, err
		}
		for feature, on := range now {
			if on && kindOf(feature) != "" && !want[feature] {
				return nil, fmt.Errorf("state %s: %s of %s/%s stays on", state, feature, s.Host.Name, s.Name)
			}
		}
		if inForce[s.role] == nil {
			inForce[s.role] = map[string]string{}
		}
		for _, kind := range allKinds() {
			inForce[s.role][kind] = joinExtent(inForce[s.role][kind], extent(now, kind))
		}
	}
	return inForce, nil
}

// extent says how much of a kind is on: "on", "off", "partly", or "" where an interface has
// nothing of it.
func extent(now map[string]bool, kind string) string {
	words := ""
	for feature, on := range now {
		if kindOf(feature) != kind {
			continue
		}
		word := "off"
		if on {
			word = "on"
		}
		words = joinExtent(words, word)
	}
	return words
}

// partOfIt is the extent of what is on here and off there.
const partOfIt = "partly"

// joinExtent is the extent of two parts.
func joinExtent(a, b string) string {
	switch {
	case a == "" || a == b:
		return b
	case b == "":
		return a
	}
	return partOfIt
}

// forceWords writes what is in force: "ports: tso on, gro off, csum on; underlay: …".
func forceWords(inForce map[string]map[string]string) string {
	var roles []string
	for _, role := range []string{rolePorts, roleUnderlay, roleTunnel} {
		var kinds []string
		for _, kind := range allKinds() {
			if words := inForce[role][kind]; words != "" {
				kinds = append(kinds, kind+" "+words)
			}
		}
		if len(kinds) > 0 {
			roles = append(roles, role+": "+strings.Join(kinds, ", "))
		}
	}
	return strings.Join(roles, "; ")
}

// partlyOn are what of a state is neither on nor off: "ports tso".
func partlyOn(inForce map[string]map[string]string) result.Texts {
	var partly result.Texts
	for _, role := range []string{rolePorts, roleUnderlay, roleTunnel} {
		for _, kind := range allKinds() {
			if inForce[role][kind] == partOfIt {
				partly = append(partly, role+" "+kind)
			}
		}
	}
	return partly
}

// noteForce writes down what was in force in a state of a target.
func noteForce(p result.Parameters, target, state string, inForce map[string]map[string]string) {
	p[forceParameter(target, state)] = result.Words(forceWords(inForce))
	if partly := partlyOn(inForce); len(partly) > 0 {
		p[partlyParameter(target, state)] = result.Of(partly)
	}
}

// forceParameter is the name of the parameter that says what was in force in a state of a
// target, and partlyParameter of that which lists what was not all on or all off.
func forceParameter(target, state string) string  { return "in_force_" + target + "_" + state }
func partlyParameter(target, state string) string { return "partly_" + target + "_" + state }

// withoutParameter is the name of the parameter that lists encapsulations which a target lacks.
func withoutParameter(target string) string { return target + "_without" }

// restoreSwitched sets the offloads again that killed experiments had changed. A failure is
// no reason not to measure: networks are new in every run.
func restoreSwitched(ctx context.Context, log io.Writer) {
	names, err := topo.RestoreOffloads(ctx)
	if len(names) > 0 {
		fmt.Fprintf(log, "set offloads as they were before a killed lab: %s\n", strings.Join(names, ", "))
	}
	if err != nil {
		fmt.Fprintf(log, "changed by killed labs and not restored: %v\n", err)
	}
}
