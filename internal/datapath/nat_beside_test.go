package datapath

import (
	"bytes"
	"net/netip"
	"sync"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
	"github.com/selvage/selvage/test/pkttest"
)

// A firewall before dave's port sees his own addresses, in both directions; before the target of a forward, those of the target.
func TestNATBehindAFirewall(t *testing.T) {
	t.Parallel()
	fw := wall(allow("dns", 53), overlay.Rule{
		Section: "s", Name: "web", Verdict: overlay.Allow, Direction: overlay.In, To: []overlay.Member{{Prefix: netip.MustParsePrefix("10.0.2.13/32")}, {Prefix: netip.MustParsePrefix("2001:db8:2::d/128")}},
		Services: []overlay.Service{{Protocol: 6, Ports: []overlay.PortRange{{First: 443, Last: 443}}, ICMPType: -1, ICMPCode: -1}},
	})
	fw.Strict = true
	for _, cached := range []bool{true, false} {
		w := natWorld(t, ways()[0], natPortForwards, func(c *Config, tables *fib.Tables) {
			c.FlowCache.Enabled = cached
			guardAt(t, c, tables, fw, policy.Place{Name: "p2", Port: "p2", Segment: "green"}, policy.Place{Name: "p1", Port: "p1", Segment: "blue"},
				policy.Place{Name: "p0", Port: "p0", Segment: "blue"})
		})
		w.natBoth(t,
			"dave: udp 10.0.2.13:4100 > 203.0.113.5:53 30 => isp: udp 198.51.100.100:4100 > 203.0.113.5:53 30",
			"isp: udp 203.0.113.5:53 > 198.51.100.100:4100 40 => dave: udp 203.0.113.5:53 > 10.0.2.13:4100 40",
			"dave: udp 10.0.2.13:4100 > 203.0.113.5:53 30 => isp: udp 198.51.100.100:4100 > 203.0.113.5:53 30",
			"isp: udp 203.0.113.5:53 > 198.51.100.100:4100 40 => dave: udp 203.0.113.5:53 > 10.0.2.13:4100 40",
			"isp: error 3/3 203.0.113.5 > 198.51.100.100 quoting 500 udp 198.51.100.100:4100 > 203.0.113.5:53 30 => "+
				"dave: error 3/3 203.0.113.5 > 10.0.2.13 quoting 500 udp 10.0.2.13:4100 > 203.0.113.5:53 30",
			"dave: error 3/3 10.0.2.13 > 203.0.113.5 quoting 500 udp 203.0.113.5:53 > 10.0.2.13:4100 40 => "+
				"isp: error 3/3 198.51.100.100 > 203.0.113.5 quoting 500 udp 203.0.113.5:53 > 198.51.100.100:4100 40",
			"dave: udp 10.0.2.13:4100 > 203.0.113.5:54 30 => drop denied",
			"isp: tcp 203.0.113.5:4000 > 198.51.100.101:443 syn seq 9 => dave: tcp 203.0.113.5:4000 > 10.0.2.13:443 syn seq 9",
			"dave: tcp 10.0.2.13:443 > 203.0.113.5:4000 syn+ack seq 99 acks 10 => isp: tcp 198.51.100.101:443 > 203.0.113.5:4000 syn+ack seq 99 acks 10",
			"isp: tcp 203.0.113.5:4000 > 198.51.100.101:443 ack seq 10 acks 100 => dave: tcp 203.0.113.5:4000 > 10.0.2.13:443 ack seq 10 acks 100",
			"isp: udp 203.0.113.5:4000 > 198.51.100.1:5000 30 => drop denied",
			"isp: tcp 203.0.113.5:4000 > 198.51.100.1:8080 syn seq 9 => drop denied",
			"alice: tcp 10.0.1.10:4000 > 198.51.100.1:8080 syn seq 9 => drop denied",
		)
	}
}

// The transit programs leave all of a router with translation to tc, unchanged.
func TestNATTransitLeaves(t *testing.T) {
	t.Parallel()
	all := ways()
	for _, to := range []way{all[0], all[7]} {
		w := natWorld(t, to, withTransit)
		n := w.talk(t)
		for _, v6 := range []bool{false, true} {
			for _, s := range natFamily(v6, natAsk, natAnswer, natSYN, natPing,
				"far: udp 10.0.3.7:4100 > 203.0.113.5:53 30 => isp: udp 198.51.100.110:4100 > 203.0.113.5:53 30",
				"isp: udp 203.0.113.5:53 > 198.51.100.110:4100 30 => far: udp 203.0.113.5:53 > 10.0.3.7:4100 30",
				"erin: udp 10.0.2.14:4101 > 203.0.113.5:53 30 => isp: udp 198.51.100.100:4101 > 203.0.113.5:53 30",
			) {
				name, words, _ := natStepBy(s)
				from := natHostOf(name)
				dev, b := from.port, natFrame(from.src, from.dst, words)
				if dev == "" {
					dev, b = "u0", w.outerIn(from.segment, w.family.remotes[from.remote]).Wrap(padded(b))
				}
				for range 2 {
					if r := w.transit(t, dev, b); r.verdict != xdpPass || !bytes.Equal(r.out, b) {
						pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: b}, {Name: "out", Bytes: r.out}}, "%s: verdict %d of the transit program", s, r.verdict)
					}
					n.follow(s)
				}
			}
		}
	}
}

// Cores that make sessions at the same time never give two sources one address and port, and lose no count.
func TestNATAtTheSameTime(t *testing.T) {
	w := natWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) {
		natEgress(tables, "web").Ports = overlay.PortRange{First: 4100, Last: 4149}
	})
	w.forgetNATSessions(t)
	const cores, sources = 4, 150
	got := make([]map[netip.AddrPort][]netip.AddrPort, cores)
	var all sync.WaitGroup
	for core := range cores {
		got[core] = map[netip.AddrPort][]netip.AddrPort{}
		all.Go(func() {
			w.do(t, func() {
				for i := range sources { // each source on two cores, at about the same time
					source := netip.AddrPortFrom(hosts(false, i+sources*(core/2)), 4100)
					frame := natUDP(source.Addr(), source.Port(), natTargets[false][0])
					in := w.outerIn("egress-web", w.family.remotes[0]).Wrap(frame)
					r, err := runProgram(w.dp.prog.objs.FromUnderlay, w.dev["u0"].Index, packet{bytes: in})
					if err != nil {
						t.Error(err)
						return
					}
					if r.verdict == forwarded {
						egress := pkttest.TalkOf(r.out).Src
						got[core][egress] = append(got[core][egress], source)
					}
				}
			})
		})
	}
	all.Wait()
	owner := map[netip.AddrPort]netip.AddrPort{}
	for core := range cores {
		for egress, list := range got[core] {
			for _, source := range list {
				if other, taken := owner[egress]; taken && other != source {
					t.Errorf("%s is given to %s and to %s", egress, other, source)
				}
				owner[egress] = source
			}
		}
	}
	if len(owner) != 100 {
		t.Errorf("%d of 100 address-ports are given", len(owner))
	}
	w.checkNATSessions(t)
}

// A client whose packet the firewall behind a port forward rejects is told so by the address that
// it wrote to, not by the host inside.
func TestNATRejectedByTheAddressAsked(t *testing.T) {
	fw := wall(allow("dns", 53))
	fw.Default = overlay.Reject
	w := natWorld(t, ways()[0], natPortForwards, func(c *Config, tables *fib.Tables) {
		guardAt(t, c, tables, fw, policy.Place{Name: "p2", Port: "p2", Segment: "green"})
	})
	isp, syn := natHostOf("isp"), "tcp 203.0.113.5:4000 > 198.51.100.101:443 syn seq 9"
	frame := natFrame(isp.src, isp.dst, syn)
	why, r := w.natOffer(t, isp, frame)
	if why != "rejected" {
		t.Errorf("dropped as %q, want rejected", why)
	}
	w.wantNotice(t, stand{segment: "up"}, frame, r)
	if natSessions, returns := w.allNATSessions(t); len(natSessions)+len(returns) > 0 {
		t.Errorf("%d sessions and %d returns of a rejected packet", len(natSessions), len(returns))
	}
}
