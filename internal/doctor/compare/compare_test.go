package compare

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/doctor"
	"github.com/selvage/selvage/internal/doctor/facts"
)

func host(place string) facts.Host {
	return facts.Host{
		Place: place, Name: place, Machine: facts.Machine{Kernel: "6.12", OS: "Debian", CPU: facts.CPU{Threads: 16}},
		Sysctls: map[string]string{"net.core.rmem_max": "212992"},
		Interfaces: []facts.Interface{{
			Name: "eth0", Up: true, MTU: 1500, Addrs: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}, Driver: "ice", Hash4: "sdfn",
			Features: map[string]facts.Feature{"tx-checksum-ip-generic": {On: true}, "rx-gro": {On: true}, "rx-lro": {}},
		}},
	}
}

// one is the finding of a check.
func one(t *testing.T, r Result, check string) Finding {
	t.Helper()
	for _, f := range r.Findings {
		if f.Check == check {
			return f
		}
	}
	t.Fatalf("no finding of %s in %+v", check, r.Findings)
	return Finding{}
}

// What matters comes first, one finding for what belongs together; what does not is folded.
func TestPeers(t *testing.T) {
	a, b := host("ssh:a"), host("ssh:b")
	b.Machine.Kernel, b.Machine.OS, b.Sysctls["net.core.rmem_max"] = "6.13", "Fedora", "1"
	i := &b.Interfaces[0]
	i.MTU, i.Hash4, i.Driver = 1400, "sd", "i40e"
	i.Features = map[string]facts.Feature{"tx-checksum-ip-generic": {}, "rx-gro": {}, "rx-lro": {On: true}}
	r := Peers([]facts.Host{a, b})
	var checks []string
	for _, f := range r.Findings {
		checks = append(checks, string(f.Severity)+" "+f.Check+" "+f.At)
		if f.What == "" || f.Evidence == "" || f.Why == "" || len(f.Measure) == 0 {
			t.Errorf("it leaves something out: %+v", f)
		}
	}
	want := []string{"warning mtu ", "warning offloads ssh:b", "warning offloads ", "warning rss ", "note kernel ", "note driver ", "note sysctl "}
	if diff := cmp.Diff(want, checks); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if len(r.Folded) != 1 || r.Folded[0].Name != "operating system" {
		t.Errorf("folded: %+v", r.Folded)
	}
	f := one(t, r, "offloads")
	if f.What != "at ssh:a / at ssh:b: rx-gro: on / off; tx-checksum-ip-generic: on / off" || f.Subject != "ssh:a eth0, ssh:b eth0" ||
		f.Evidence != "ethtool -k eth0, at ssh:a and at ssh:b" {
		t.Errorf("offloads: %+v", f)
	}
	if diff := cmp.Diff([]string{"ethtool -K eth0 rx-gro on  # at ssh:b", "ethtool -K eth0 tx-checksum-ip-generic on  # at ssh:b"}, f.Change); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if len(f.Fixes) != 2 || f.Fixes[0].Undo.String() != "ethtool -K eth0 rx-gro off" || f.Fixes[0].Interface != "eth0" {
		t.Errorf("fixes: %+v", f.Fixes)
	}
	// Which MTU is right is not known, and no script sets it.
	if f := one(t, r, "mtu"); f.What != "MTU: 1500 at ssh:a, 1400 at ssh:b" || len(f.Fixes) > 0 || f.Change[0] != "ip link set dev eth0 mtu 1500  # at ssh:b, to be as at ssh:a" {
		t.Errorf("MTU: %+v", f)
	}
}

func TestAlike(t *testing.T) {
	a, b := host("ssh:a"), host("ssh:b")
	b.Interfaces[0].Addrs = []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")}
	if r := Peers([]facts.Host{a, b, a}); len(r.Findings) > 0 || len(r.Folded) > 0 {
		t.Errorf("hosts that are alike differ: %+v", r)
	}
}

// What has changed is set back to what it was.
func TestDrift(t *testing.T) {
	before, now := host("ssh:a"), host("ssh:a")
	now.Interfaces[0].MTU, now.Sysctls["net.core.rmem_max"] = 9000, "1"
	r := Drift(&before, &now)
	f := one(t, r, "mtu")
	if f.What != "MTU: 1500 in the profile, 9000 now" || f.At != "ssh:a" || len(f.Fixes) != 1 || f.Fixes[0].Do.String() != "ip link set dev eth0 mtu 1500" ||
		f.Fixes[0].Undo.String() != "ip link set dev eth0 mtu 9000" {
		t.Errorf("MTU: %+v", f)
	}
	if f := one(t, r, "sysctl"); f.Fixes[0].Do.String() != "sysctl -w net.core.rmem_max=212992" || f.Subject != "ssh:a" {
		t.Errorf("sysctl: %+v", f)
	}
}

func TestPath(t *testing.T) {
	p := Path{From: "ssh:a", To: "ssh:b", Addr: netip.MustParseAddr("2001:db8::2"), Interface: "eth0", MTU: 9000, FarMTU: 9000, Largest: 9000}
	if f, ok := p.Finding(); !ok || f.Severity != doctor.OK {
		t.Errorf("all arrives: %+v", f)
	}
	p.Largest, p.Reported, p.FarMTU = 1504, 1500, 1500
	f, ok := p.Finding()
	if !ok || f.Severity != doctor.Fault || f.At != "ssh:a" || !strings.Contains(f.Evidence, "1504 bytes arrived, 1505 did not; a router reported 1500") ||
		!strings.HasPrefix(f.Change[0], "ip link set dev eth0 mtu 1500 ") || !strings.Contains(f.Measure[0], "-s 8952 2001:db8::2") {
		t.Errorf("large ones do not: %+v", f)
	}
	for _, p := range []Path{{Error: "no answer", MTU: 1500, Largest: 1400}, {MTU: 1500}} {
		if f, ok := p.Finding(); ok {
			t.Errorf("of what is not known it says %+v", f)
		}
	}
}

// Every check that facts have is known here: a difference without a reason would be no finding.
func TestEveryCheckHasAReason(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range concerns() {
		if seen[c.check] || c.why == "" || len(c.measure) == 0 || c.severity == "" {
			t.Errorf("%s: twice, or something is left out", c.check)
		}
		seen[c.check] = true
	}
	for _, check := range facts.Checks() {
		if !seen[check] {
			t.Errorf("%s has no reason", check)
		}
	}
}
