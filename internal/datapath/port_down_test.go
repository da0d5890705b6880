package datapath

import (
	"testing"

	"github.com/selvage/selvage/test/pkttest"
)

// setDown has the link of a port be down, or not.
func (w *world) setDown(t *testing.T, name string, down bool) {
	t.Helper()
	for i := range w.tables.Ports {
		if w.tables.Ports[i].Name == name {
			w.tables.Ports[i].Down = down
		}
	}
	w.apply(t)
}

// What would leave by a port or uplink whose link is down is dropped and counted, and not as sent: also where its decision is
// cached, and where it comes by a tunnel. When the link is back it is forwarded.
func TestPortsThatAreDown(t *testing.T) {
	w := routedWorld(t, ways()[0])
	for _, c := range []struct {
		name, port, segment, from string
		in                        []byte
	}{
		{"bridged", "p1", "blue", "p0", pkttest.Frame(alice, carol, "udp 10.0.1.10:1 > 10.0.1.12:2 30")},
		{"bridged from a tunnel", "p1", "blue", "first", pkttest.Frame(bob, carol, "udp 10.0.1.11:1 > 10.0.1.12:2 30")},
		{"routed", "p2", "blue", "p0", pkttest.Frame(alice, gatewayMAC, "udp 10.0.1.10:1 > 10.0.2.13:2 30")},
		{"to an uplink", "s0", "blue", "p0", pkttest.Frame(alice, gatewayMAC, "udp 10.0.1.10:1 > 203.0.113.9:2 30")},
		{"IPv6 to an uplink from a tunnel", "s0", "blue", "first", pkttest.Frame(bob, gatewayMAC, "udp [2001:db8:1::b]:1 > [2001:db8:77::9]:2 30")},
	} {
		t.Run(c.name, func(t *testing.T) {
			pass := func(when string) {
				t.Helper()
				if _, r := w.sendIn(t, c.segment, c.from, c.in); r.verdict != forwarded {
					t.Errorf("%s: %v", when, r.verdict)
				}
			}
			pass("up")
			pass("up, cached")
			w.setDown(t, c.port, true)
			for range 2 {
				sent := w.deliveredBy(t, c.port)
				var r result
				drops, _ := w.counted(t, func() { _, r = w.sendIn(t, c.segment, c.from, c.in) })
				if r.verdict != dropped || sum(drops) != 1 || drops["port-down"] != 1 || w.deliveredBy(t, c.port) != sent {
					t.Errorf("down: %v, drops %v, sent %d packets, want a drop as port-down", r.verdict, drops, w.deliveredBy(t, c.port)-sent)
				}
			}
			w.setDown(t, c.port, false)
			pass("up again")
		})
	}
}

// deliveredBy are the packets that left by a port.
func (w *world) deliveredBy(t *testing.T, port string) uint64 {
	t.Helper()
	ports, err := w.dp.Traffic.Ports()
	must(t, err)
	return ports[port].Tx.Packets
}
