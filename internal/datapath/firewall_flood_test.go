package datapath

import (
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// policedTrunk is the firewall's world with VLAN 10 of a trunk at s0 in blue, instead of
// the uplink.
func policedTrunk(t *testing.T, fw overlay.Firewall, change ...func(*Config, *fib.Tables)) *world {
	t.Helper()
	w := newWorld(t, underIPv4, append([]func(*Config, *fib.Tables){func(c *Config, tables *fib.Tables) {
		routed(ways()[0], tables)
		c.Firewall = &fw
	}}, change...)...)
	trunk := w.port("s0", "blue")
	trunk.Name, trunk.VLAN = "s0.10", 10
	w.tables.Ports = append(w.tables.Ports, trunk)
	p, err := policy.Compile(fw, append(firewallPlaces[:3:3], policy.Place{Name: "s0.10", Port: "s0", Segment: "blue"}))
	must(t, err)
	w.tables.Firewall = p
	w.apply(t)
	return w
}

const frank = "02:00:00:00:00:0f" // at VLAN 10 of s0

// A flooded frame is judged once where it comes in, and at each port that it would go to: a copy that is denied leaves the others alone.
func TestFloodIsPoliced(t *testing.T) {
	fw := openFirewall(true)
	fw.Rules = []overlay.Rule{
		ruleOf(1, "drop out svc udp/66"), ruleOf(2, "drop in svc udp/67 at port:p1"), ruleOf(3, "drop in svc udp/70 at port:s0"), ruleOf(4, "drop in svc udp/69"),
	}
	w := policedTrunk(t, fw)
	taps := w.taps(t)
	taps["s0"] = w.tap(t, "s0x", "s0")
	for _, c := range []struct {
		port   string // UDP
		denied uint64
		at     []string // members of blue that get it, but the sender
	}{
		{"7", 0, []string{"p0", "p1", "s0"}},
		{"67", 1, []string{"p0", "s0"}},
		{"70", 1, []string{"p0", "p1"}},
		{"69", 3, nil},
	} {
		for _, dst := range []string{all, "01:00:5e:00:00:01", nobody} {
			for _, from := range []struct{ dev, mac, tag string }{{"p0", alice, ""}, {"p1", carol, ""}, {"s0", frank, "vlan 10 "}, {"u0", bob, ""}} {
				words := "udp 10.0.1.10:5 > 10.0.1.255:" + c.port + " 40"
				t.Run(from.dev+" "+dst+" "+words, func(t *testing.T) {
					w.forgetConnections(t)
					frame := pkttest.Frame(from.mac, dst, from.tag+words)
					if from.dev == "u0" {
						frame = w.fromRemote(frame)
					}
					for _, p := range taps {
						p.drain(t)
					}
					drops, _ := w.counted(t, func() { w.offer(t, from.dev, frame) })
					denied := c.denied
					if from.dev != "u0" && !slices.Contains(c.at, from.dev) { // the sender's own copy
						denied--
					}
					if drops["denied"] != denied || sum(drops) != denied {
						t.Errorf("drops %v, want %d denied", drops, denied)
					}
					for _, dev := range []string{"p0", "p1", "s0"} {
						w.wantCopy(t, dev, from.dev != dev && slices.Contains(c.at, dev), pkttest.Frame(from.mac, dst, map[string]string{"s0": "vlan 10 "}[dev]+words), taps[dev].drain(t))
					}
				})
			}
		}
	}
	frame := pkttest.Frame(alice, all, "udp 10.0.1.10:5 > 10.0.1.255:66 40")
	if drops, events := w.counted(t, func() { w.offer(t, "p0", frame) }); drops["denied"] != 1 || events["flood-copy"] != 0 {
		t.Errorf("denied where it comes in: drops %v, events %v", drops, events)
	}
}

func (w *world) wantCopy(t *testing.T, dev string, wanted bool, frame []byte, got []tapped) {
	t.Helper()
	switch {
	case wanted && len(got) == 1:
		check.Equal(t, "copy at "+dev, frame, got[0].bytes[:min(len(frame), len(got[0].bytes))])
	case wanted || len(got) > 0:
		t.Errorf("%s: %d copies, wanted: %t", dev, len(got), wanted)
	}
}

// A trunk's VLAN is a port of its own: it has connections, and rules name it by its interface.
func TestTrunkIsPoliced(t *testing.T) {
	fw := openFirewall(true)
	fw.Default = overlay.Drop
	fw.Rules = []overlay.Rule{ruleOf(1, "allow out at port:s0"), ruleOf(2, "allow in from port:s0 svc tcp/80")}
	for _, cached := range []bool{true, false} {
		w := policedTrunk(t, fw, func(c *Config, tables *fib.Tables) {
			c.FlowCache.Enabled = cached
			tables.Segments[0].Static = append(tables.Segments[0].Static, overlay.StaticMAC{MAC: macOf(frank), Port: "s0.10"})
		})
		for i, step := range []struct{ from, frame, why string }{
			{"s0", "tcp 10.0.1.15:5 > 10.0.1.10:80 syn seq 1", ""},
			{"p0", "tcp 10.0.1.10:80 > 10.0.1.15:5 syn+ack seq 1 acks 2", ""},
			{"s0", "tcp 10.0.1.15:5 > 10.0.1.10:80 ack seq 2 acks 2", ""},
			{"s0", "tcp 10.0.1.15:5 > 10.0.1.10:80 ack seq 2 acks 2 9", ""},
			{"p0", "tcp 10.0.1.10:80 > 10.0.1.15:5 ack seq 2 acks 11 7", ""},
			{"s0", "tcp 10.0.1.15:5 > 10.0.1.10:81 syn seq 1", "denied"},
			{"p0", "tcp 10.0.1.10:81 > 10.0.1.15:5 syn seq 1", "denied"},
			{"s0", "udp 10.0.1.15:5 > 10.0.1.10:80 9", "denied"},
		} {
			frame := pkttest.Frame(alice, frank, step.frame)
			if step.from == "s0" {
				frame = pkttest.Frame(frank, alice, "vlan 10 "+step.frame)
			}
			if why, _ := w.verdictOf(t, step.from, frame); why != step.why {
				t.Errorf("cache %t, step %d, %s: %q, want %q", cached, i+1, step.frame, why, step.why)
			}
		}
		for _, port := range []string{"s0.10", "p0"} {
			established := 0
			for _, c := range w.connectionsAt(t, port) {
				if tcpStateOf(c) == "established" {
					established++
				}
			}
			if established != 1 {
				t.Errorf("cache %t: %d established connections at %s", cached, established, port)
			}
		}
	}
}
