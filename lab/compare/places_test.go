package compare

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/lab/result"
)

// between is a run between two places with hosts of their own.
func between(change func(server *facts.Host)) result.Result {
	r := run(1, 10, 1, 1, 0)
	for _, role := range []string{"client", "server"} {
		h := facts.Host{Place: "ssh:" + role, Machine: facts.Machine{Kernel: "6.18.5", CPU: facts.CPU{Model: "x", Threads: 2, Microcode: "1"}}, Interfaces: []facts.Interface{
			{Name: "eth0", Driver: "mlx5_core", Firmware: "16.1", Mbps: 25000, Features: map[string]facts.Feature{"rx-gro": {On: true}, "loopback": {}}},
			{Name: "vx0", Kind: "vxlan", MTU: 1450}, {Name: "veth17", Kind: "veth"},
		}}
		if role == "server" {
			change(&h)
		}
		r.Preflight = append(r.Preflight, h)
		r.Places = append(r.Places, result.Place{Role: role, Name: h.Place})
	}
	return r
}

// The host of each place has to be as it was, as far as figures depend on it.
func TestPlaces(t *testing.T) {
	for want, change := range map[string]func(h *facts.Host){
		"": func(h *facts.Host) {
			h.Machine.CPU.Microcode, h.Machine.OS, h.Interfaces[0].Features = "2", "other", map[string]facts.Feature{"rx-gro": {On: true}, "loopback": {On: true}}
			h.Interfaces[2].Name = "veth18"
		},
		"kernel.server.kernel: 6.18.5, then 6.1":                      func(h *facts.Host) { h.Machine.Kernel = "6.1" },
		"cpu.server.CPU: x, then y":                                   func(h *facts.Host) { h.Machine.CPU.Model = "y" },
		"adapters.server.eth0.driver: mlx5_core, then i40e":           func(h *facts.Host) { h.Interfaces[0].Driver = "i40e" },
		"adapters.server.eth0.firmware: 16.1, then 16.2":              func(h *facts.Host) { h.Interfaces[0].Firmware = "16.2" },
		"adapters.server.eth0.speed: 25000 Mbit/s, then 10000 Mbit/s": func(h *facts.Host) { h.Interfaces[0].Mbps = 10000 },
		"adapters.server.eth1.interface eth1: missing, then there":    func(h *facts.Host) { h.Interfaces = append(h.Interfaces, facts.Interface{Name: "eth1"}) },
		"offloads.server.eth0.rx-gro: on, then off":                   func(h *facts.Host) { h.Interfaces[0].Features = map[string]facts.Feature{"rx-gro": {}} },
		"mtu.server.vx0.MTU: 1450, then 1400":                         func(h *facts.Host) { h.Interfaces[1].MTU = 1400 },
		"kernel.server: recorded, then not recorded":                  func(h *facts.Host) { h.Place = "elsewhere" },
	} {
		old, latest := between(func(*facts.Host) {}), between(change)
		latest.Places[1].Name = "ssh:server"
		all := Differences(old, latest)
		if (len(all) == 0) != (want == "") || want != "" && !slices.ContainsFunc(all, func(d Difference) bool { return d.String() == want }) {
			t.Errorf("%v, want %q", all, want)
		}
		if want == "" {
			continue
		}
		top, _, _ := strings.Cut(want, ".")
		allow := []string{top, "adapters", "cpu"}
		report, err := Results(old, latest, Options{Metric: find, Allow: allow})
		if err != nil || len(report.Allowed) == 0 {
			t.Errorf("%q allowed: %v", want, err)
		}
		if _, err := Results(old, latest, Options{Metric: find}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		_, err = Results(old, latest, Options{Metric: find, Allow: allow, Absolute: true})
		if other := strings.HasPrefix(fmt.Sprint(err), "--absolute"); other != slices.ContainsFunc(all, func(d Difference) bool { return strings.HasPrefix(d.Field, "cpu.") }) {
			t.Errorf("%q, absolute: %v", want, err)
		}
	}
}
