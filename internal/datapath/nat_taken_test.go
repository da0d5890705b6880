package datapath

import (
	"testing"
	"time"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
)

// A connection that is over gives its port to another when there is no other one left:
// what still comes of it does not leave in the other's name, not by a cached flow either.
func TestNATTakenPorts(t *testing.T) {
	for _, cached := range []bool{true, false} {
		w := natWorld(t, ways()[0], func(c *Config, tables *fib.Tables) {
			c.FlowCache.Enabled, c.Egress.Timeouts.Closed = cached, time.Minute
			natEgress(tables, "two").Ports = overlay.PortRange{First: 4100, Last: 4100}
		})
		open := []string{
			"tom: tcp 10.0.9.10:4100 > 203.0.113.5:80 syn seq 100 => isp: tcp 198.51.100.110:4100 > 203.0.113.5:80 syn seq 100",
			"isp: tcp 203.0.113.5:80 > 198.51.100.110:4100 syn+ack seq 500 acks 101 => tom: tcp 203.0.113.5:80 > 10.0.9.10:4100 syn+ack seq 500 acks 101",
			"tom: tcp 10.0.9.10:4100 > 203.0.113.5:80 ack seq 101 acks 501 => isp: tcp 198.51.100.110:4100 > 203.0.113.5:80 ack seq 101 acks 501",
			"isp: tcp 203.0.113.5:80 > 198.51.100.110:4100 ack seq 501 acks 101 10 => tom: tcp 203.0.113.5:80 > 10.0.9.10:4100 ack seq 501 acks 101 10",
			"tom: tcp 10.0.9.10:4100 > 203.0.113.5:80 ack seq 101 acks 511 => isp: tcp 198.51.100.110:4100 > 203.0.113.5:80 ack seq 101 acks 511",
			"tom: tcp 10.0.9.99:4100 > 203.0.113.5:80 syn => drop nat-exhausted",
		}
		other := []string{
			"tom: tcp 10.0.9.99:4100 > 203.0.113.5:80 syn seq 7 => isp: tcp 198.51.100.110:4100 > 203.0.113.5:80 syn seq 7",
			"tom: tcp 10.0.9.10:4100 > 203.0.113.5:80 ack seq 101 acks 511 5 => drop nat-exhausted,no-nat-session,out-of-state",
			"tom: tcp 10.0.9.10:4100 > 203.0.113.5:80 rst seq 101 => drop nat-exhausted,no-nat-session,out-of-state",
			"isp: tcp 203.0.113.5:80 > 198.51.100.110:4100 syn+ack seq 900 acks 8 => tom: tcp 203.0.113.5:80 > 10.0.9.99:4100 syn+ack seq 900 acks 8",
			"isp: tcp 203.0.113.5:80 > 198.51.100.110:4100 ack seq 901 acks 8 3 => tom: tcp 203.0.113.5:80 > 10.0.9.99:4100 ack seq 901 acks 8 3",
		}
		for name, steps := range map[string][]string{
			"reset by the other end": {
				"isp: tcp 203.0.113.5:80 > 198.51.100.110:4100 rst seq 511 => tom: tcp 203.0.113.5:80 > 10.0.9.10:4100 rst seq 511",
			},
			"reset by the source": {
				"tom: tcp 10.0.9.10:4100 > 203.0.113.5:80 rst seq 101 => isp: tcp 198.51.100.110:4100 > 203.0.113.5:80 rst seq 101",
			},
			"closed by the source first": {
				"tom: tcp 10.0.9.10:4100 > 203.0.113.5:80 fin+ack seq 101 acks 511 => isp: tcp 198.51.100.110:4100 > 203.0.113.5:80 fin+ack seq 101 acks 511",
				"isp: tcp 203.0.113.5:80 > 198.51.100.110:4100 fin+ack seq 511 acks 102 => tom: tcp 203.0.113.5:80 > 10.0.9.10:4100 fin+ack seq 511 acks 102",
			},
		} {
			t.Run(name, func(t *testing.T) {
				n := w.talk(t)
				n.follow(open...)
				n.follow(steps...)
				// A flow may still be cached as long as a decision may be old.
				n.follow("tom: tcp 10.0.9.99:4100 > 203.0.113.5:80 syn seq 7 => drop nat-exhausted", "wait 11s")
				n.follow(other...)
			})
		}
	}
}

// A connection that is swept away, and its port given to another source, is not gone on
// with by a cached flow.
func TestNATSweptPorts(t *testing.T) {
	w := natWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) {
		natEgress(tables, "two").Ports = overlay.PortRange{First: 4100, Last: 4100}
	})
	n := w.talk(t)
	ask := "tom: udp 10.0.9.10:4100 > 203.0.113.5:80 30 => isp: udp 198.51.100.110:4100 > 203.0.113.5:80 30"
	n.follow(ask, ask, "wait 121s")
	if c, err := w.dp.NATSessions.NATSweep(); err != nil || c.Expired != 1 {
		t.Fatalf("%+v, %v", c, err)
	}
	n.follow("tom: udp 10.0.9.99:4100 > 203.0.113.5:80 30 => isp: udp 198.51.100.110:4100 > 203.0.113.5:80 30",
		"tom: udp 10.0.9.10:4100 > 203.0.113.5:80 30 => drop nat-exhausted",
		"isp: udp 203.0.113.5:80 > 198.51.100.110:4100 30 => tom: udp 203.0.113.5:80 > 10.0.9.99:4100 30")
}
