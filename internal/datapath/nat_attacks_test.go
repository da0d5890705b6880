package datapath

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
)

// A malformed packet of a stranger takes no session back that the packet before it created: the server's answer is still translated.
func TestNATStrangersPacketTakesNothing(t *testing.T) {
	w := natWorld(t, ways()[0], natPortForwards)
	for _, v6 := range []bool{false, true} {
		short := "ip %s > 198.51.100.1 1 4"
		if v6 {
			short = "ip %s > 198.51.100.1 58 4"
		}
		for _, stranger := range []string{"isp: " + fmt.Sprintf(short, "203.0.113.9"), "alice: " + fmt.Sprintf(short, "10.0.1.10")} {
			n := w.talk(t)
			w.do(t, func() { // on one core
				n.follow(natFamily(v6,
					"isp: tcp 203.0.113.5:4000 > 198.51.100.1:8080 syn seq 9 => carol: tcp 203.0.113.5:4000 > 10.0.1.12:80 syn seq 9",
					stranger+" => drop malformed-l4",
					"carol: tcp 10.0.1.12:80 > 203.0.113.5:4000 syn+ack seq 99 acks 10 => isp: tcp 198.51.100.1:8080 > 203.0.113.5:4000 syn+ack seq 99 acks 10",
				)...)
			})
		}
	}
}

// A client is told of a rejected connection by the address that it spoke to: in IPv6, and when it
// is inside itself, so that both of its addresses were translated.
func TestNATRejectedInEachFamily(t *testing.T) {
	t.Parallel()
	fw := wall(overlay.Rule{Section: "s", Name: "out", Verdict: overlay.Allow, Direction: overlay.Out})
	fw.Default = overlay.Reject
	w := natWorld(t, ways()[0], natPortForwards, func(c *Config, tables *fib.Tables) {
		guardAt(t, c, tables, fw, policy.Place{Name: "p2", Port: "p2", Segment: "green"}, policy.Place{Name: "p1", Port: "p1", Segment: "blue"},
			policy.Place{Name: "p0", Port: "p0", Segment: "blue"})
	})
	for _, v6 := range []bool{false, true} {
		for _, c := range []struct {
			from  string
			at    stand
			words string
		}{
			{"isp", stand{segment: "up"}, "tcp 203.0.113.5:4000 > 198.51.100.101:443 syn seq 9"},
			{"isp", stand{segment: "up"}, "udp 203.0.113.5:4000 > 198.51.100.1:5000 30"},
			{"alice", stand{port: "p0"}, "tcp 10.0.1.10:4000 > 198.51.100.1:8080 syn seq 9"},
			{"alice", stand{port: "p0"}, "tcp 10.0.1.10:4000 > 198.51.100.101:443 syn seq 9"},
		} {
			from := natHostOf(c.from)
			frame := natFrame(from.src, from.dst, natFamily(v6, c.words)[0])
			why, r := w.natOffer(t, from, frame)
			if why != "rejected" {
				t.Errorf("%s: dropped as %q, want rejected", c.words, why)
			}
			w.wantNotice(t, c.at, frame, r)
		}
	}
}

// natFilled is a world whose table of 16 sessions is full of those that steps make for each source;
// in them %s is its address.
func natFilled(t *testing.T, steps ...string) (*world, *natTalk) {
	t.Helper()
	w := natWorld(t, ways()[0], func(c *Config, _ *fib.Tables) { c.Egress.NATSessions = 16 })
	n := w.talk(t)
	for i := range 16 {
		for _, s := range steps {
			if s == "forget" { // the next source has another port
				clear(n.names)
				continue
			}
			n.follow(strings.ReplaceAll(s, "%s", hosts(false, i).String()))
		}
	}
	if natSessions, _ := w.allNATSessions(t); len(natSessions) != 16 {
		t.Fatalf("%d sessions, want a full table", len(natSessions))
	}
	return w, n
}

const (
	natFill     = "bob: udp %s:4100 > 203.0.113.5:53 30 => isp: udp %a:$p > 203.0.113.5:53 30"
	natFillTCP  = "bob: tcp %s:4100 > 203.0.113.5:80 syn seq 9 => isp: tcp %b:$q > 203.0.113.5:80 syn seq 9"
	natNewcomer = "bob: udp 10.0.1.99:4100 > 203.0.113.6:53 30 => isp: udp 198.51.100.100:4100 > 203.0.113.6:53 30"
)

// A full table gives up sessions that nobody answered, one for each that is new, once no cached decision can belong to them.
func TestNATFullTableDropsUnanswered(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string]string{"UDP": natFill, "TCP": natFillTCP} {
		t.Run(name, func(t *testing.T) {
			w, n := natFilled(t, fill, "forget")
			n.follow(strings.ReplaceAll(natNewcomer, "=> isp: udp 198.51.100.100:4100 > 203.0.113.6:53 30", "=> drop nat-full"), "wait 11s")
			_, events := w.counted(t, func() { n.follow(natNewcomer) })
			if events["nat-early-dropped"] != 1 || events["nat-deleted"] != 1 {
				t.Errorf("events %v, want one session dropped early", events)
			}
			for i := range 40 { // room for each in turn
				n.follow(fmt.Sprintf("bob: udp 10.0.1.11:%d > 203.0.113.7:53 30 => isp: udp 198.51.100.100:%d > 203.0.113.7:53 30", 5000+i, 5000+i), "wait 11s")
			}
		})
	}
}

// What is answered or established stays, however full the table is.
func TestNATFullTableKeepsWhatRuns(t *testing.T) {
	for name, steps := range map[string][]string{
		"UDP": {natFill, "isp: udp 203.0.113.5:53 > %a:$p 30 => bob: udp 203.0.113.5:53 > %s:4100 30", "forget"},
		"TCP": {
			natFillTCP, "isp: tcp 203.0.113.5:80 > %b:$q syn+ack seq 99 acks 10 => bob: tcp 203.0.113.5:80 > %s:4100 syn+ack seq 99 acks 10",
			"bob: tcp %s:4100 > 203.0.113.5:80 ack seq 10 acks 100 => isp: tcp %b:$q > 203.0.113.5:80 ack seq 10 acks 100", "forget",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, n := natFilled(t, steps...)
			before, _ := w.allNATSessions(t)
			n.follow("wait 4m")
			for i := range 40 {
				n.follow(fmt.Sprintf("bob: udp 10.0.1.11:%d > 203.0.113.7:53 30 => drop nat-full", 5000+i))
			}
			after, _ := w.allNATSessions(t)
			for k := range before {
				if _, ok := after[k]; !ok {
					t.Errorf("%s is gone", natKeyWords(k))
				}
			}
		})
	}
}

// Two cores that see one new connection at the same time make one session of it, and lose no packet.
func TestNATOneConnectionOnTwoCores(t *testing.T) {
	w := natWorld(t, ways()[0], natPortForwards, func(c *Config, _ *fib.Tables) { c.Egress.NATSessions = 65536 })
	w.forgetNATSessions(t)
	const rounds, cores = 3000, 2
	isp := natHostOf("isp")
	var at atomic.Int64 // packets offered, by both cores
	together := func(round int) {
		for at.Add(1); at.Load() < int64(round*cores); { // the other core is about to be there
		}
	}
	drops, _ := w.counted(t, func() {
		var all sync.WaitGroup
		for range cores {
			all.Go(func() {
				w.do(t, func() {
					for i := range rounds {
						out := w.outerIn("egress-web", w.family.remotes[0]).Wrap(natUDP(hosts(false, i), 4100, natTargets[false][0]))
						in := natFrame(isp.src, isp.dst, fmt.Sprintf("udp 203.0.113.9:%d > 198.51.100.1:5000 30", 10000+i))
						together(2*i + 1)
						w.offered(t, w.dp.prog.objs.FromUnderlay, "u0", out)
						together(2*i + 2)
						w.offered(t, w.dp.prog.objs.FromPort, "s0", in)
					}
				})
			})
		}
		all.Wait()
	})
	if len(drops) > 0 {
		t.Errorf("drops %v", drops)
	}
	if natSessions, _ := w.allNATSessions(t); len(natSessions) != 2*rounds {
		t.Errorf("%d sessions of %d connections", len(natSessions), 2*rounds)
	}
	w.checkNATSessions(t)
}

// offered runs a packet through a program, on this core.
func (w *world) offered(t *testing.T, program kernel.Program, dev string, frame []byte) {
	t.Helper()
	if _, err := runProgram(program, w.dev[dev].Index, packet{bytes: frame}); err != nil {
		t.Error(err)
	}
}

// Protocols whose checksums cover addresses that NAT does not mend do not leave with a wrong one.
func TestNATRefusesUDPLiteAndDCCP(t *testing.T) {
	natWorld(t, ways()[0]).natBoth(t,
		"bob: ip 10.0.1.11 > 203.0.113.5 136 40 => drop nat-unsupported",
		"alice: ip 10.0.1.10 > 203.0.113.5 33 40 => drop nat-unsupported",
	)
}

// A port that takes all the sessions it can gets as many as its limit says, and others get theirs. Connections that are over do not count.
func TestNATSessionsOfAPort(t *testing.T) {
	const limit = 5
	w := natWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) {
		for i := range tables.Ports {
			if tables.Ports[i].Name == "p0" {
				tables.Ports[i].Limits.NATSessions = limit
			}
		}
	})
	for _, v6 := range []bool{false, true} {
		n := w.talk(t)
		w.natGCStats(t)
		for i := range 2 * limit {
			want := "isp: tcp 198.51.100.1:$p > 203.0.113.5:80 syn seq 9"
			if i >= limit {
				want = "drop nat-limit"
			}
			n.follow(natFamily(v6, fmt.Sprintf("alice: tcp 10.0.1.10:%d > 203.0.113.5:80 syn seq 9 => %s", 5000+i, want))...)
			delete(n.names, "$p")
		}
		n.follow(natFamily(v6,
			"carol: udp 10.0.1.12:4100 > 203.0.113.5:53 30 => isp: udp 198.51.100.1:4100 > 203.0.113.5:53 30",
			"isp: tcp 203.0.113.5:80 > 198.51.100.1:5000 rst+ack seq 0 acks 10 => alice: tcp 203.0.113.5:80 > 10.0.1.10:5000 rst+ack seq 0 acks 10",
			"alice: tcp 10.0.1.10:6000 > 203.0.113.5:80 syn seq 9 => isp: tcp 198.51.100.1:6000 > 203.0.113.5:80 syn seq 9",
			"alice: tcp 10.0.1.10:6001 > 203.0.113.5:80 syn seq 9 => drop nat-limit",
		)...)
		w.natGCStats(t)
		n.follow(natFamily(v6, "alice: tcp 10.0.1.10:6001 > 203.0.113.5:80 syn seq 9 => drop nat-limit")...)
	}
}

// A client that is let in by two forwards to one host and port cannot use one port for both: the host could not tell them apart.
func TestNATTwoForwardsToOneHost(t *testing.T) {
	w := natWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) {
		for _, port := range []uint16{8080, 8081} {
			tables.PortForwards = append(tables.PortForwards,
				fib.Forward{Router: "main", Egress: "uplink/up", Proto: 6, Addr: netip.MustParseAddr(uplink4), Port: port, To: netip.MustParseAddr("10.0.1.12"), ToPort: 80},
				fib.Forward{Router: "main", Egress: "uplink/up", Proto: 6, Addr: netip.MustParseAddr(uplink6), Port: port, To: netip.MustParseAddr("2001:db8:1::c"), ToPort: 80})
		}
	})
	w.natBoth(t,
		"isp: tcp 203.0.113.5:4000 > 198.51.100.1:8080 syn seq 9 => carol: tcp 203.0.113.5:4000 > 10.0.1.12:80 syn seq 9",
		"isp: tcp 203.0.113.5:4000 > 198.51.100.1:8081 syn seq 9 => drop nat-conflict",
		"isp: tcp 203.0.113.5:4001 > 198.51.100.1:8081 syn seq 9 => carol: tcp 203.0.113.5:4001 > 10.0.1.12:80 syn seq 9",
		"carol: tcp 10.0.1.12:80 > 203.0.113.5:4000 rst+ack seq 0 acks 10 => isp: tcp 198.51.100.1:8080 > 203.0.113.5:4000 rst+ack seq 0 acks 10",
		"wait 11s",
		"isp: tcp 203.0.113.5:4000 > 198.51.100.1:8081 syn seq 9 => carol: tcp 203.0.113.5:4000 > 10.0.1.12:80 syn seq 9",
	)
}

// Sessions of DNS expire early, so that a busy resolver takes no more of the table than it needs.
func TestNATDNSTimeout(t *testing.T) {
	t.Parallel()
	w := natWorld(t, ways()[0], func(c *Config, _ *fib.Tables) { c.Egress.DNSTimeout = 30 * time.Second })
	for _, c := range []struct {
		port, left int
		reply      bool
	}{{53, 0, true}, {53, 0, false}, {54, 1, true}, {54, 1, false}} {
		n := w.talk(t)
		n.follow(fmt.Sprintf("bob: udp 10.0.1.11:4100 > 203.0.113.5:%d 30 => isp: udp 198.51.100.100:4100 > 203.0.113.5:%d 30", c.port, c.port))
		if c.reply {
			n.follow(fmt.Sprintf("isp: udp 203.0.113.5:%d > 198.51.100.100:4100 30 => bob: udp 203.0.113.5:%d > 10.0.1.11:4100 30", c.port, c.port))
		}
		w.ageNATSessions(t, 31*time.Second)
		w.natGCStats(t)
		if natSessions, _ := w.allNATSessions(t); len(natSessions) != c.left {
			t.Errorf("port %d, replied %t: %d sessions after 31 s, want %d", c.port, c.reply, len(natSessions), c.left)
		}
	}
}

// A forward that is added gets its port, whoever has it; the host behind it keeps its dialogues.
func TestNATForwardTakesItsPort(t *testing.T) {
	for _, cached := range []bool{true, false} {
		w := natWorld(t, ways()[0], func(c *Config, _ *fib.Tables) { c.FlowCache.Enabled = cached })
		for _, v6 := range []bool{false, true} {
			w.tables.PortForwards = nil
			w.apply(t)
			n := w.talk(t)
			ask := natFamily(v6, "alice: udp 10.0.1.10:5000 > 203.0.113.5:4000 30 => isp: udp 198.51.100.1:5000 > 203.0.113.5:4000 30",
				"isp: udp 203.0.113.5:4000 > 198.51.100.1:5000 30 => alice: udp 203.0.113.5:4000 > 10.0.1.10:5000 30")
			n.follow(ask...)
			n.follow(ask...)
			natPortForwards(nil, &w.tables)
			w.apply(t)
			w.natGCStats(t) // counts anew
			n.follow(natFamily(v6,
				"isp: udp 203.0.113.5:4000 > 198.51.100.1:5000 30 => dave: udp 203.0.113.5:4000 > 10.0.2.13:6000 30",
				"alice: udp 10.0.1.10:5000 > 203.0.113.5:4000 30 => isp: udp 198.51.100.1:$p > 203.0.113.5:4000 30",
				"isp: udp 203.0.113.5:4000 > 198.51.100.1:$p 30 => alice: udp 203.0.113.5:4000 > 10.0.1.10:5000 30",
				"dave: udp 10.0.2.13:6000 > 203.0.113.5:4000 30 => isp: udp 198.51.100.1:5000 > 203.0.113.5:4000 30",
			)...)
		}
	}
}

// It gives up connections that are over before those that nobody answered.
func TestNATFullTableDropsClosed(t *testing.T) {
	w, n := natFilled(t, natFillTCP, "isp: tcp 203.0.113.5:80 > %b:$q syn+ack seq 99 acks 10 => bob: tcp 203.0.113.5:80 > %s:4100 syn+ack seq 99 acks 10",
		"bob: tcp %s:4100 > 203.0.113.5:80 ack seq 10 acks 100 => isp: tcp %b:$q > 203.0.113.5:80 ack seq 10 acks 100",
		"isp: tcp 203.0.113.5:80 > %b:$q fin+ack seq 100 acks 10 => bob: tcp 203.0.113.5:80 > %s:4100 fin+ack seq 100 acks 10",
		"bob: tcp %s:4100 > 203.0.113.5:80 fin+ack seq 10 acks 101 => isp: tcp %b:$q > 203.0.113.5:80 fin+ack seq 10 acks 101",
		"forget")
	n.follow("wait 11s")
	_, events := w.counted(t, func() {
		for i := range 16 {
			n.follow(fmt.Sprintf("bob: udp 10.0.1.11:%d > 203.0.113.7:53 30 => isp: udp 198.51.100.100:%d > 203.0.113.7:53 30", 5000+i, 5000+i))
		}
	})
	if events["nat-early-dropped"] != 16 {
		t.Errorf("events %v", events)
	}
	n.follow("bob: udp 10.0.1.11:6000 > 203.0.113.7:53 30 => drop nat-full")
}

// The count of a source's sessions outlives any number of other sources and sweeps.
func TestNATLimitOutlivesOtherSources(t *testing.T) {
	const limit, sources, size = 3, 70_000, 8192
	w := natWorld(t, ways()[0], func(c *Config, tables *fib.Tables) {
		c.Egress.NATSessions = size
		natEgress(tables, "web").Limit = limit
	})
	w.forgetNATSessions(t)
	_, why := w.opened(t, natUDP(netip.MustParseAddr("10.0.1.11"), 4100, natTargets[false][0]))
	if why != "" {
		t.Fatal(why)
	}
	var session bpfNatSession
	each(t, w.dp.NATSessions.maps.NatSessions, func(_ bpfCtKey, s bpfNatSession) { session = s })
	w.forgetNATSessions(t)
	for at := 0; at < sources; at += size {
		var keys []bpfCtKey
		for i := range size {
			k := bpfCtKey{Zone: w.dp.numbers.names.routeIDs["main"], Proto: 17, InsidePort: 1, OutsidePort: 1}
			k.Inside.W = wireAddr(netip.AddrFrom4([4]byte{10, byte(100 + (at+i)>>16), byte((at + i) >> 8), byte(at + i)}))
			k.Outside.W = wireAddr(netip.MustParseAddr("203.0.113.5"))
			must(t, w.dp.NATSessions.maps.NatSessions.Put(k, session))
			keys = append(keys, k)
		}
		w.natGCStats(t)
		for _, k := range keys {
			must(t, w.dp.NATSessions.maps.NatSessions.Delete(k))
		}
	}
	w.natGCStats(t)
	for round := range 3 {
		for i := range 2 * limit {
			_, why := w.opened(t, natUDP(netip.MustParseAddr("10.0.1.11"), uint16(4100+round*100+i), natTargets[false][0]))
			if want := map[bool]string{false: "nat-limit"}[round == 0 && i < limit]; why != want {
				t.Errorf("round %d, session %d: %q, want %q", round, i, why, want)
			}
		}
		w.natGCStats(t)
	}
}
