package datapath

import (
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// A changed policy is asked about each running connection once, at its next packet: what
// is still allowed goes on, in its state and under its new rule, and what is not ends.
func TestPolicyChange(t *testing.T) {
	for _, cached := range []bool{true, false} {
		fw := openFirewall(true)
		fw.Rules = []overlay.Rule{ruleOf(1, "allow both")}
		w := firewallWorld(t, fw, func(c *Config, _ *fib.Tables) { c.FlowCache.Enabled = cached })
		tcp := func(words string) []byte {
			return pkttest.Frame(alice, bob, "tcp 10.0.1.10:5 > 10.0.1.11:80 "+words)
		}
		back := func(words string) []byte {
			return w.fromRemote(pkttest.Frame(bob, alice, "tcp 10.0.1.11:80 > 10.0.1.10:5 "+words))
		}
		_, udp := queryOf(t, "alice > bob udp 53")
		pass := func(from string, frame []byte, want string) map[string]uint64 {
			t.Helper()
			var why string
			_, events := w.counted(t, func() { why, _ = w.verdictOf(t, from, frame) })
			if why != want {
				t.Errorf("cache %t: %q, want %q", cached, why, want)
			}
			return events
		}
		pass("p0", tcp("syn seq 100"), "")
		pass("u0", back("syn+ack seq 500 acks 101"), "")
		pass("p0", tcp("ack seq 101 acks 501"), "")
		pass("p0", udp, "")

		fw.Rules = []overlay.Rule{ruleOf(2, "drop both svc udp"), ruleOf(3, "allow out svc tcp/80")}
		fw.Default = overlay.Drop
		w.enforce(t, fw)
		for i, events := range []map[string]uint64{
			pass("u0", back("ack seq 501 acks 101 10"), ""), // though no rule would let it open
			pass("p0", tcp("ack seq 101 acks 511 10"), ""),
		} {
			if want := uint64(1 - i); events["conntrack-reevaluated"] != want || events["conntrack-revoked"] != 0 {
				t.Errorf("cache %t, TCP, packet %d: events %v, want %d asked", cached, i+1, events, want)
			}
		}
		if events := pass("p0", udp, "denied"); events["conntrack-revoked"] != 1 {
			t.Errorf("cache %t, UDP: events %v", cached, events)
		}
		if events := pass("p0", udp, "denied"); events["conntrack-reevaluated"] != 0 { // it is no more
			t.Errorf("cache %t, UDP again: events %v", cached, events)
		}
		list := w.connectionsAt(t, "p0")
		if len(list) != 1 {
			t.Errorf("cache %t: %d connections are left", cached, len(list))
		}
		for _, c := range list {
			if tcpStateOf(c) != "established" || c.Rule != w.dp.Firewall.inForce.Rules[1] {
				t.Errorf("cache %t: %s, of rule number %d, want %d", cached, tcpStateOf(c), c.Rule, w.dp.Firewall.inForce.Rules[1])
			}
		}
	}
}

// The rule of the guide lets DHCP pass beside a default that drops: an answer is no reply, since it
// goes to everybody or to an address that the request had not.
func TestDHCPBesideDefaultDrop(t *testing.T) {
	const all = "ff:ff:ff:ff:ff:ff"
	for _, rules := range [][]string{nil, {"allow both svc udp/67,udp/68,udp/546,udp/547"}} {
		w := firewallWorld(t, policyCase{defaults: "drop", rules: rules}.firewall())
		for _, c := range []struct{ name, from, src, dst, words string }{
			{"request", "p0", alice, all, "udp 0.0.0.0:68 > 255.255.255.255:67 300"},
			{"answer to everybody", "u0", erin, all, "udp 10.0.1.5:67 > 255.255.255.255:68 300"},
			{"answer to the new address", "u0", erin, alice, "udp 10.0.1.5:67 > 10.0.1.10:68 300"},
			{"DHCPv6 request", "p0", alice, "33:33:00:01:00:02", "udp [fe80::a]:546 > [ff02::1:2]:547 60"},
			{"DHCPv6 answer", "u0", erin, alice, "udp [fe80::5]:547 > [fe80::a]:546 60"},
		} {
			frame := pkttest.Frame(c.src, c.dst, c.words)
			if c.from == "u0" {
				frame = w.outerIn("blue", w.family.remotes[0]).Wrap(padded(frame))
			}
			drops, _ := w.counted(t, func() { w.offer(t, c.from, frame) })
			if denied := drops["denied"] > 0; denied != (len(rules) == 0) || denied != (sum(drops) > 0) {
				t.Errorf("rules %q, %s: drops %v", rules, c.name, drops)
			}
		}
	}
}
