package datapath

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// natTimeouts are far apart, and all differ.
var natTimeouts = overlay.Timeouts{
	Opening: 100 * time.Second, Established: 5000 * time.Second, HalfClosed: 800 * time.Second, TimeWait: 240 * time.Second,
	Closed: 10 * time.Second, UDP: 120 * time.Second, UDPReplied: 300 * time.Second, UDPStream: 300 * time.Second, ICMP: 60 * time.Second,
}

// natStates are what bob (>) and a host outside (<) say, and how long the session lasts
// then without a packet. The numbers are those of tcpSequences.
var natStates = []struct {
	name  string
	steps []string
	lasts time.Duration
}{
	{"a SYN", []string{"> syn seq 100"}, natTimeouts.Opening},
	{"a SYN that was answered", []string{"> syn seq 100", "< syn+ack seq 500 acks 101"}, natTimeouts.Opening},
	{"open", opened3(), natTimeouts.Established},
	{"open, with data", opened3("> ack seq 101 acks 501 30", "< ack seq 501 acks 131 40", "> ack seq 131 acks 541"), natTimeouts.Established},
	{"opened at both ends at once", []string{
		"> syn seq 100", "< syn seq 500", "> syn+ack seq 100 acks 501", "< syn+ack seq 500 acks 101",
	}, natTimeouts.Established},
	{"closed by the source", opened3("> fin+ack seq 101 acks 501"), natTimeouts.HalfClosed},
	{"closed by the source, and told a lot", opened3("> fin+ack seq 101 acks 501", "< ack seq 501 acks 102 300", "> ack seq 102 acks 801", "< ack seq 801 acks 102 300"), natTimeouts.HalfClosed},
	{"closed by the other end", opened3("< fin+ack seq 501 acks 101"), natTimeouts.HalfClosed},
	{"closed by both", opened3("> fin+ack seq 101 acks 501", "< fin+ack seq 501 acks 102", "> ack seq 102 acks 502"), natTimeouts.TimeWait},
	{"reset by the source", opened3("> rst seq 101"), natTimeouts.Closed},
	{"reset by the other end", opened3("< rst seq 501"), natTimeouts.Closed},
	{"refused", []string{"> syn seq 100", "< rst+ack seq 0 acks 101"}, natTimeouts.Closed},
	{"a reset that is not of it", opened3("< rst seq 5000"), natTimeouts.Established},
	{"a refusal of something else", []string{"> syn seq 100", "< rst+ack seq 0 acks 77"}, natTimeouts.Opening},
	{"opened anew after it was closed", opened3("> fin+ack seq 101 acks 501", "< fin+ack seq 501 acks 102", "> ack seq 102 acks 502",
		"> syn seq 9000", "< syn+ack seq 7000 acks 9001", "> ack seq 9001 acks 7001"), natTimeouts.Established},
	{"UDP", []string{"udp>"}, natTimeouts.UDP},
	{"UDP several times", []string{"udp>", "udp>", "udp>"}, natTimeouts.UDP},
	{"UDP that is answered", []string{"udp>", "udp<"}, natTimeouts.UDPReplied},
	{"UDP that is answered and goes on", []string{"udp>", "udp<", "udp>", "udp>"}, natTimeouts.UDPReplied},
	{"a ping", []string{"icmp>"}, natTimeouts.ICMP},
	{"a ping that is answered", []string{"icmp>", "icmp<"}, natTimeouts.ICMP},
}

func opened3(steps ...string) []string {
	return append([]string{"> syn seq 100 scale 7", "< syn+ack seq 500 acks 101 scale 7", "> ack seq 101 acks 501"}, steps...)
}

// natStep is the frame of a step and whose it is.
func natStep(step string, v6 bool) (from natHost, frame []byte) {
	inside, egress, outside := netip.MustParseAddrPort("10.0.1.11:4100"), netip.MustParseAddrPort(webFirst4+":4100"), netip.MustParseAddrPort("203.0.113.5:80")
	if v6 {
		inside, egress, outside = netip.MustParseAddrPort("[2001:db8:1::b]:4100"), netip.AddrPortFrom(addr(webFirst6), 4100), netip.MustParseAddrPort("[2001:db8:77::5]:80")
	}
	proto, out := "tcp", strings.Contains(step, ">")
	if before, _, found := strings.Cut(step, "<"); found && before != "" {
		proto = before
	} else if before, _, found := strings.Cut(step, ">"); found && before != "" {
		proto = before
	}
	src, dst, name := inside, outside, "bob"
	if !out {
		src, dst, name = outside, egress, "isp"
	}
	from = natHostOf(name)
	_, rest, _ := strings.Cut(step, map[bool]string{true: "> ", false: "< "}[out])
	switch proto {
	case "udp":
		rest = "30"
	case "icmp":
		kind := map[bool]map[bool]string{false: {true: "8/0", false: "0/0"}, true: {true: "128/0", false: "129/0"}}[v6][out]
		return from, natFrame(from.src, from.dst, fmt.Sprintf("icmp %s > %s %s id 4100 30", src.Addr(), dst.Addr(), kind))
	}
	return from, natFrame(from.src, from.dst, fmt.Sprintf("%s %s > %s %s", proto, src, dst, rest))
}

// A session is there for as long as its state says, and no longer: the sweep leaves it and
// takes it, and a packet from outside passes and is refused.
func TestNATStates(t *testing.T) {
	for name, cached := range map[string]bool{"flow cache": true, "no flow cache": false} {
		w := natWorld(t, ways()[0], func(c *Config, _ *fib.Tables) { c.FlowCache.Enabled, c.Egress.Timeouts = cached, natTimeouts })
		for _, c := range natStates {
			for _, v6 := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s, IPv6 %t", name, c.name, v6), func(t *testing.T) {
					w.forgetNATSessions(t)
					for i, step := range c.steps {
						from, frame := natStep(step, v6)
						if why, _ := w.natOffer(t, from, frame); why != "" {
							t.Fatalf("step %d, %q: %s", i+1, step, why)
						}
					}
					w.lasts(t, c.lasts)
				})
			}
		}
	}
}

// lasts checks that the only session is there until a time has gone by.
func (w *world) lasts(t *testing.T, lasts time.Duration) {
	t.Helper()
	w.ageNATSessions(t, lasts-5*time.Second)
	if c, err := w.dp.NATSessions.NATSweep(); err != nil || c.Sessions != 1 || c.Expired != 0 {
		natSessions, _ := w.allNATSessions(t)
		t.Fatalf("5 s before its time: %+v, %v, sessions %v", c, err, natSessions)
	}
	w.ageNATSessions(t, 10*time.Second)
	if c, err := w.dp.NATSessions.NATSweep(); err != nil || c.Sessions != 0 || c.Expired != 1 {
		natSessions, _ := w.allNATSessions(t)
		t.Fatalf("5 s after its time: %+v, %v, sessions %v", c, err, natSessions)
	}
	if n := entriesOf[bpfCtKey, bpfNatOrig](t, w.dp.NATSessions.maps.NatReverse); n != 0 {
		t.Errorf("%d returns are left", n)
	}
}

// A packet keeps its session alive, by way of the flow cache too, in both directions
// (RFC 4787 REQ-6: outbound refresh is a must).
func TestNATKeptAlive(t *testing.T) {
	for _, cached := range []bool{true, false} {
		w := natWorld(t, ways()[0], func(c *Config, _ *fib.Tables) { c.FlowCache.Enabled, c.Egress.Timeouts = cached, natTimeouts })
		w.natBoth(t, natAsk, natAnswer, "wait 250s", natAsk, "wait 250s", natAsk, natAsk, "wait 250s", natAnswer, "wait 250s", natAnswer, natAsk)
	}
}

// TCP in the middle of a connection of which nothing is known, as after a gateway was
// replaced by one without the sessions, is refused or given a session, but never leaves as it is.
func TestNATUnknownTCP(t *testing.T) {
	w := natWorld(t, ways()[0])
	for _, flags := range []string{"ack", "syn+ack", "fin+ack", "rst", "rst+ack", "none", "syn+fin", "syn+rst", "psh", "urg", "fin"} {
		for _, c := range []struct{ from, words string }{
			{"bob", "tcp 10.0.1.11:4100 > 203.0.113.5:80 "}, {"dave", "tcp 10.0.2.13:4100 > 203.0.113.5:80 "}, {"alice", "tcp 10.0.1.10:4100 > 203.0.113.5:80 "},
		} {
			w.forgetNATSessions(t)
			from := natHostOf(c.from)
			why, r := w.natOffer(t, from, natFrame(from.src, from.dst, c.words+flags))
			if why != "" {
				continue
			}
			at, out := w.natArrived(t, r)
			if src := pkttest.TalkOf(out).Src.Addr(); at != "isp" || src != addr(webFirst4) && src != addr(uplink4) {
				t.Errorf("%s, %s: at %s\n%s", c.from, flags, at, pkttest.Decoded(out))
			}
			w.checkNATSessions(t)
		}
	}
}
