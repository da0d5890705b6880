package datapath

import (
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/policy"
)

// natPortForwards lead ports of the uplink's address, and one of a pool's, to carol and dave.
func natPortForwards(_ *Config, tables *fib.Tables) {
	for _, f := range []struct {
		egress, addr, to string
		proto            uint8
		port, toPort     uint16
		count            uint16
	}{
		{"uplink/up", uplink4, "10.0.1.12", 6, 8080, 80, 1},
		{"uplink/up", uplink6, "2001:db8:1::c", 6, 8080, 80, 1},
		{"uplink/up", uplink4, "10.0.2.13", 17, 5000, 6000, 3},
		{"uplink/up", uplink6, "2001:db8:2::d", 17, 5000, 6000, 3},
		{"web", webSecond4, "10.0.2.13", 6, 443, 443, 1},
		{"web", webSecond6, "2001:db8:2::d", 6, 443, 443, 1},
	} {
		for i := range f.count {
			tables.PortForwards = append(tables.PortForwards, fib.Forward{
				Router: "main", Egress: f.egress, Proto: f.proto, Addr: netip.MustParseAddr(f.addr), Port: f.port + i,
				To: netip.MustParseAddr(f.to), ToPort: f.toPort + i,
			})
		}
	}
}

var natForwardCases = []natCase{
	{name: "to a host", steps: []string{
		"isp: tcp 203.0.113.5:4000 > 198.51.100.1:8080 syn seq 9 => carol: tcp 203.0.113.5:4000 > 10.0.1.12:80 syn seq 9",
		"carol: tcp 10.0.1.12:80 > 203.0.113.5:4000 syn+ack seq 99 acks 10 => isp: tcp 198.51.100.1:8080 > 203.0.113.5:4000 syn+ack seq 99 acks 10",
		"isp: tcp 203.0.113.5:4000 > 198.51.100.1:8080 ack seq 10 acks 100 20 => carol: tcp 203.0.113.5:4000 > 10.0.1.12:80 ack seq 10 acks 100 20",
		"carol: tcp 10.0.1.12:80 > 203.0.113.5:4000 ack seq 100 acks 30 7 => isp: tcp 198.51.100.1:8080 > 203.0.113.5:4000 ack seq 100 acks 30 7",
		"isp: tcp 203.0.113.6:4000 > 198.51.100.1:8080 syn seq 9 => carol: tcp 203.0.113.6:4000 > 10.0.1.12:80 syn seq 9",
		"isp: tcp 203.0.113.5:4000 > 198.51.100.1:8081 syn seq 9 => drop no-nat-session,no-local-service",
		"isp: udp 203.0.113.5:4000 > 198.51.100.1:8080 9 => drop no-nat-session,no-local-service",
	}},
	{name: "a range of ports", steps: []string{
		"isp: udp 203.0.113.5:4000 > 198.51.100.1:5000 30 => dave: udp 203.0.113.5:4000 > 10.0.2.13:6000 30",
		"isp: udp 203.0.113.5:4000 > 198.51.100.1:5002 30 => dave: udp 203.0.113.5:4000 > 10.0.2.13:6002 30",
		"dave: udp 10.0.2.13:6002 > 203.0.113.5:4000 30 => isp: udp 198.51.100.1:5002 > 203.0.113.5:4000 30",
		"dave: udp 10.0.2.13:6000 > 203.0.113.5:4000 30 => isp: udp 198.51.100.1:5000 > 203.0.113.5:4000 30",
		"isp: udp 203.0.113.5:4000 > 198.51.100.1:5003 30 => drop no-nat-session,no-local-service",
		"isp: udp 203.0.113.5:4000 > 198.51.100.1:4999 30 => drop no-nat-session,no-local-service",
	}},
	{name: "of a pool's address", steps: []string{
		"isp: tcp 203.0.113.5:4000 > 198.51.100.101:443 syn seq 9 => dave: tcp 203.0.113.5:4000 > 10.0.2.13:443 syn seq 9",
		"dave: tcp 10.0.2.13:443 > 203.0.113.5:4000 syn+ack seq 99 acks 10 => isp: tcp 198.51.100.101:443 > 203.0.113.5:4000 syn+ack seq 99 acks 10",
	}},
	{name: "an error about it", steps: []string{
		"isp: udp 203.0.113.5:4000 > 198.51.100.1:5000 30 => dave: udp 203.0.113.5:4000 > 10.0.2.13:6000 30",
		"dave: error 3/3 10.0.2.13 > 203.0.113.5 quoting 500 udp 203.0.113.5:4000 > 10.0.2.13:6000 30 => " +
			"isp: error 3/3 198.51.100.1 > 203.0.113.5 quoting 500 udp 203.0.113.5:4000 > 198.51.100.1:5000 30",
		"dave: udp 10.0.2.13:6000 > 203.0.113.5:4000 40 => isp: udp 198.51.100.1:5000 > 203.0.113.5:4000 40",
		"isp: error 3/3 203.0.113.5 > 198.51.100.1 quoting 500 udp 198.51.100.1:5000 > 203.0.113.5:4000 40 => " +
			"dave: error 3/3 203.0.113.5 > 10.0.2.13 quoting 500 udp 10.0.2.13:6000 > 203.0.113.5:4000 40",
	}},
	{name: "fragments of it", steps: []string{
		"isp: piece 0 of 64 id 7 udp 203.0.113.5:4000 > 198.51.100.1:5000 150 => dave: piece 0 of 64 id 7 udp 203.0.113.5:4000 > 10.0.2.13:6000 150",
		"isp: piece 1 of 64 id 7 udp 203.0.113.5:4000 > 198.51.100.1:5000 150 => dave: piece 1 of 64 id 7 udp 203.0.113.5:4000 > 10.0.2.13:6000 150",
	}},
	{name: "hairpin", steps: []string{
		"alice: tcp 10.0.1.10:5000 > 198.51.100.1:8080 syn seq 9 => carol: tcp 198.51.100.1:$p > 10.0.1.12:80 syn seq 9",
		"carol: tcp 10.0.1.12:80 > 198.51.100.1:$p syn+ack seq 99 acks 10 => alice: tcp 198.51.100.1:8080 > 10.0.1.10:5000 syn+ack seq 99 acks 10",
		"alice: tcp 10.0.1.10:5000 > 198.51.100.1:8080 ack seq 10 acks 100 5 => carol: tcp 198.51.100.1:$p > 10.0.1.12:80 ack seq 10 acks 100 5",
		"carol: tcp 10.0.1.12:80 > 198.51.100.1:$p ack seq 100 acks 15 6 => alice: tcp 198.51.100.1:8080 > 10.0.1.10:5000 ack seq 100 acks 15 6",
	}},
	{name: "hairpin of a policy's source", steps: []string{
		"dave: tcp 10.0.2.13:5000 > 198.51.100.1:8080 syn seq 9 => carol: tcp %a:$p > 10.0.1.12:80 syn seq 9",
		"carol: tcp 10.0.1.12:80 > %a:$p syn+ack seq 99 acks 10 => dave: tcp 198.51.100.1:8080 > 10.0.2.13:5000 syn+ack seq 99 acks 10",
	}},
	{name: "hairpin from beyond a tunnel", steps: []string{
		"bob: tcp 10.0.1.11:5000 > 198.51.100.1:8080 syn seq 9 => carol: tcp 198.51.100.100:$p > 10.0.1.12:80 syn seq 9",
		"carol: tcp 10.0.1.12:80 > 198.51.100.100:$p syn+ack seq 99 acks 10 => bob: tcp 198.51.100.1:8080 > 10.0.1.11:5000 syn+ack seq 99 acks 10",
	}},
	{name: "to oneself", steps: []string{
		"carol: tcp 10.0.1.12:5000 > 198.51.100.1:8080 syn seq 9 => carol: tcp 198.51.100.1:$p > 10.0.1.12:80 syn seq 9",
		"carol: tcp 10.0.1.12:80 > 198.51.100.1:$p syn+ack seq 99 acks 10 => carol: tcp 198.51.100.1:8080 > 10.0.1.12:5000 syn+ack seq 99 acks 10",
	}},
	{name: "nobody else takes a forwarded port", steps: []string{
		"alice: udp 10.0.1.10:5000 > 203.0.113.5:4000 30 => isp: udp 198.51.100.1:$p > 203.0.113.5:4000 30",
		"isp: udp 203.0.113.5:4000 > 198.51.100.1:$p 30 => alice: udp 203.0.113.5:4000 > 10.0.1.10:5000 30",
	}},
	{name: "the host's own packets go out as ever", steps: []string{
		"carol: tcp 10.0.1.12:1080 > 203.0.113.5:4000 syn => isp: tcp 198.51.100.1:1080 > 203.0.113.5:4000 syn",
		"dave: tcp 10.0.2.13:1443 > 203.0.113.5:4000 syn => isp: tcp 198.51.100.100:1443 > 203.0.113.5:4000 syn",
	}},
}

// The ports of forwards are nobody else's (CVE-2021-3773).
func TestNATForwardedPortsAreReserved(t *testing.T) {
	natWays(t, func(t *testing.T, w *world) {
		w.natBoth(t,
			"alice: udp 10.0.1.10:5000 > 203.0.113.5:4000 30 => isp: udp 198.51.100.1:$p > 203.0.113.5:4000 30",
			"isp: udp 203.0.113.5:4000 > 198.51.100.1:5000 30 => dave: udp 203.0.113.5:4000 > 10.0.2.13:6000 30",
			"dave: udp 10.0.2.13:6000 > 203.0.113.5:4000 30 => isp: udp 198.51.100.1:5000 > 203.0.113.5:4000 30",
			"isp: udp 203.0.113.5:4000 > 198.51.100.1:$p 30 => alice: udp 203.0.113.5:4000 > 10.0.1.10:5000 30",
			// Another protocol and another address have the port free.
			"alice: tcp 10.0.1.10:5000 > 203.0.113.5:4000 syn => isp: tcp 198.51.100.1:5000 > 203.0.113.5:4000 syn",
			"bob: udp 10.0.1.11:5000 > 203.0.113.5:4000 30 => isp: udp 198.51.100.100:5000 > 203.0.113.5:4000 30",
		)
	}, natPortForwards)
}

// What a host sends to a port forward of its own edge leaves nothing behind if the host there does not get it.
func TestNATHairpinRefusedLeavesNothing(t *testing.T) {
	fw := wall(ruleOf(1, "allow out"))
	for reason, change := range map[string]func(*Config, *fib.Tables){
		"denied": func(c *Config, tables *fib.Tables) {
			guardAt(t, c, tables, fw, policy.Place{Name: "p0", Port: "p0", Segment: "blue"}, policy.Place{Name: "p2", Port: "p2", Segment: "green"})
		},
		"nat-limit": func(_ *Config, tables *fib.Tables) { tables.Segments[0].Limits.NATSessions = 1 },
	} {
		w := natWorld(t, ways()[0], natPortForwards, change)
		n := w.talk(t)
		n.follow("alice: udp 10.0.1.10:4100 > 198.51.100.1:5000 30 => drop " + reason)
		if sessions, returns := w.allNATSessions(t); len(sessions)+len(returns) != 0 {
			t.Errorf("%s: %d sessions and %d returns are left", reason, len(sessions), len(returns))
		}
		w.natGCStats(t)
		w.checkNATSessions(t)
	}
}
