package datapath

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// trace runs one, and wants that it leaves no mark in any map.
func (w *world) trace(t *testing.T, in TraceInput) Trace {
	t.Helper()
	before := w.contents(t)
	var got Trace
	w.do(t, func() {
		p, err := w.dp.Tracer.traced(in)
		must(t, err)
		got, err = w.dp.Tracer.run(w.tracer(t, p.program), p)
		must(t, err)
	})
	for name, after := range w.contents(t) {
		if diff := cmp.Diff(before[name], after); diff != "" {
			t.Errorf("the map %s has changed:\n%s", name, diff)
		}
	}
	return got
}

// tracer is a tracing program, loaded once a test.
func (w *world) tracer(t *testing.T, name string) kernel.Program {
	t.Helper()
	if w.tracers[name] == nil {
		program, err := w.dp.prog.tracer(name)
		must(t, err)
		if w.tracers == nil {
			w.tracers = map[string]kernel.Program{}
		}
		w.tracers[name] = program
		t.Cleanup(func() {
			delete(w.tracers, name)
			program.Close()
		})
	}
	return w.tracers[name]
}

// contents are the entries of all maps but those that a packet only passes through;
// of arrays the first ones, which are all that is in use here.
func (w *world) contents(t *testing.T) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	for name, shared := range w.dp.prog.maps() {
		m := kernel.HostMap(shared)
		switch name {
		case bpfMapCurrent, bpfMapCtWorks, bpfMapNatWorks, bpfMapFragmentWorks, bpfMapClassifyStates, bpfMapTrace, bpfMapRoutes, bpfMapAllowedAddrs:
			continue // the last two are written by Apply alone
		}
		if m.KeySize() == 0 {
			continue // a queue, which cannot be read without emptying it
		}
		entries := map[string]string{}
		key := make([]byte, m.KeySize())
		empty := strings.Repeat("00", int(m.ValueSize()))
		it := m.Iterate()
		array := strings.HasSuffix(m.Type().String(), "Array")
		if strings.HasPrefix(m.Type().String(), "PerCPU") {
			var values [][]byte
			for n := 0; (n < 64 || !array) && it.Next(&key, &values); n++ {
				entries[fmt.Sprintf("%x", key)] = fmt.Sprintf("%x", values)
			}
		} else {
			var value []byte
			for n := 0; (n < 64 || !array) && it.Next(&key, &value); n++ {
				if text := fmt.Sprintf("%x", value); text != empty {
					entries[fmt.Sprintf("%x", key)] = text
				}
			}
		}
		if err := it.Err(); err != nil {
			t.Fatalf("walk the map %s: %v", name, err)
		}
		all[name] = entries
	}
	return all
}

// told are a trace's steps in words, a line each.
func traceText(trace Trace) string {
	var b strings.Builder
	for _, s := range trace.Steps {
		fmt.Fprintf(&b, "%s: %s\n", s.Stage, s.What)
	}
	return b.String() + trace.Verdict
}

// What a trace tells of packets of every fate.
func TestTrace(t *testing.T) {
	t.Parallel()
	w := routedWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) { tables.Segments[1].ClampMSS = true })
	remote := w.family.remotes[0]
	frame := pkttest.Frame
	for _, c := range []struct {
		name string
		in   TraceInput
		want []string // each in this order
	}{
		{"bridged", TraceInput{Port: "p0", Frame: frame(alice, bob, udp4)}, []string{
			"parse: well-formed, IP protocol 17", "guard: from port p0, segment blue", "learn: source MAC is known at port p0",
			"switch: destination MAC in segment blue is at remote 192.0.2.2", "decision: encapsulate to remote 192.0.2.2", "encap: VNI 100 to remote 192.0.2.2", "sent",
		}},
		{"from a remote", TraceInput{Remote: remote, Segment: "blue", Frame: frame(bob, alice, udp6)}, []string{
			"guard: from remote 192.0.2.2, segment blue", "switch: destination MAC in segment blue is at port p0", "decision: deliver to port p0", "sent",
		}},
		{"routed", TraceInput{Port: "p0", Frame: frame(alice, gatewayMAC, "tcp 10.0.1.10:1 > 10.0.2.14:2 syn mss 9000")}, []string{
			"route: router main: route found", "neighbour: MAC address of the next hop in segment green is known",
			"switch: destination MAC in segment green is at remote 192.0.2.2", "mss: lowered to 1410", "encap: VNI 200", "sent",
		}},
		{"routed out of a tunnel", TraceInput{Remote: remote, Segment: "main-l3", Frame: frame(farMAC, l3MAC, "udp 10.0.3.7:1 > 10.0.1.10:2 30")}, []string{
			"guard: from remote 192.0.2.2, segment main-l3", "route: router main: route found", "decision: deliver to port p0", "sent",
		}},
		{"flooded", TraceInput{Port: "p0", Frame: frame(alice, all, udp4)}, []string{
			"decision: flood", "flood: copy to port p1", "flood: copy to remote 192.0.2.2", "flood: copy to remote 192.0.2.3", "flooded",
		}},
		{"new station", TraceInput{Port: "p0", Frame: frame(nobody, carol, udp4)}, []string{"learn: source MAC would be learned at port p0", "decision: deliver to port p1", "sent"}},
		{"unknown destination", TraceInput{Port: "p0", Frame: frame(alice, nobody, udp4)}, []string{"switch: destination MAC is not in the FDB of segment blue", "decision: flood"}},
		{"answered", TraceInput{Port: "p0", Frame: frame(alice, all, "arp 10.0.1.10 ? 10.0.1.1")}, []string{"neighbour: ARP or ND, answered by the edge", "decision: answer", "sent"}},
		{"flooded ARP", TraceInput{Port: "p0", Frame: frame(nobody, all, "arp 10.0.1.70 ? 10.0.1.71")}, []string{"neighbour: ARP or ND, not for the edge to answer", "decision: flood"}},
		{"asked for", TraceInput{Port: "p0", Frame: frame(alice, gatewayMAC, "udp 10.0.1.10:1 > 10.0.2.99:2 30")}, []string{
			"neighbour: MAC address of the next hop in segment green is not known", "decision: ask for the next hop's MAC address", "drop: no-neighbour", "dropped",
		}},
		{"told", TraceInput{Port: "p0", Frame: frame(alice, gatewayMAC, "udp 10.0.1.10:1 > 10.9.2.5:2 30")}, []string{
			"route: router main: unreachable route", "drop: unreachable, unreachable route", "icmp: ICMP to the sender: type 3, code 1, MTU 0", "sent",
		}},
		{"too big", TraceInput{Port: "p0", Frame: frame(alice, bob, sized("10.0.1.10", "10.0.1.11", 1451))}, []string{
			"drop: too-big", "icmp: ICMP to the sender: type 3, code 4, MTU 1450", "sent",
		}},
		{"blackhole", TraceInput{Port: "p0", Frame: frame(alice, gatewayMAC, "udp 10.0.1.10:1 > 10.9.1.5:2 30")}, []string{"route: router main: blackhole route", "drop: blackhole", "dropped"}},
		{"malformed", TraceInput{Port: "p0", Frame: frame(alice, bob, tcp4)[:60]}, []string{"parse: refused: malformed-ipv4", "drop: malformed-ipv4", "dropped"}},
		{"uplink", TraceInput{Port: "s0", Frame: frame(ispMAC, all, udp4)}, []string{"guard: from port s0, segment up", "decision: leave to the host", "left to the host"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := traceText(w.trace(t, c.in))
			rest := got
			for _, want := range c.want {
				_, after, ok := strings.Cut(rest, want)
				if !ok {
					t.Fatalf("%q does not follow in\n%s", want, got)
				}
				rest = after
			}
		})
	}
}

// The traced packet is the one that is sent, and a cached flow is traced as a new one.
func TestTraceIsTrue(t *testing.T) {
	t.Parallel()
	for _, to := range []way{ways()[2], ways()[7]} {
		t.Run(to.name, func(t *testing.T) {
			w := routedWorld(t, to)
			for i, c := range routeCases() {
				if c.from == "second" || i%4 != 0 {
					continue
				}
				in := TraceInput{Port: c.from, Frame: pkttest.Frame(c.src, c.dst, c.words)}
				if c.from == "first" {
					in = TraceInput{Remote: to.family.remotes[0], Segment: c.segment, Frame: in.Frame}
				}
				fresh := w.trace(t, in)
				_, r := w.sendIn(t, c.segment, c.from, in.Frame)
				check.Equal(t, c.name+": as it was traced", r.out, fresh.Out)
				cached := w.trace(t, in)
				if !bytes.Equal(cached.Out, fresh.Out) || !strings.Contains(traceText(cached), "flow cache: a valid decision is cached") {
					t.Errorf("%s: the second trace says\n%s", c.name, traceText(cached))
				}
			}
		})
	}
}

// What cannot be traced is said.
func TestTraceErrors(t *testing.T) {
	w := routedWorld(t, ways()[0])
	for want, in := range map[string]TraceInput{
		`no port "p9"`:        {Port: "p9", Frame: say(alice, bob)},
		"no remote 192.0.2.9": {Remote: w.family.unknown, Segment: "blue", Frame: say(alice, bob)},
		`no segment "pink"`:   {Remote: w.family.remotes[0], Segment: "pink", Frame: say(alice, bob)},
		"13 bytes":            {Port: "p0", Frame: say(alice, bob)[:13]},
	} {
		w.do(t, func() {
			if _, err := w.dp.Tracer.Trace(in); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
}

// Every stage is met by some trace above, and every word of it is there.
func TestEveryStageIsTraced(t *testing.T) {
	t.Parallel()
	w := firewallWorld(t, openFirewall(true), func(_ *Config, tables *fib.Tables) { tables.Segments[0].ClampMSS = true })
	met := map[string]bool{}
	for _, f := range [][]byte{
		pkttest.Frame(alice, gatewayMAC, "tcp 10.0.1.10:1 > 10.0.1.11:2 syn mss 9000"), say(alice, all), say(alice, bob),
		pkttest.Frame(alice, gatewayMAC, "udp 10.0.1.10:1 > 10.9.2.5:2 30"), pkttest.Frame(alice, gatewayMAC, "udp 10.0.1.10:1 > 10.0.2.14:2 1460"),
	} {
		w.fromPort(t, "p0", f)
		for _, s := range w.trace(t, TraceInput{Port: "p0", Frame: f}).Steps {
			met[s.Stage] = s.What != ""
		}
	}
	out := pkttest.Frame(dave, gatewayMAC, "udp 10.0.2.13:1 > 203.0.113.5:2 30")
	for _, s := range natWorld(t, ways()[0]).trace(t, TraceInput{Port: "p2", Frame: out}).Steps {
		met[s.Stage] = s.What != ""
	}
	for _, word := range w.dp.prog.words.stages {
		if !met[word.text] && word.name != "transmit" {
			t.Errorf("stage %s is in no trace: %v", word.name, slices.Sorted(maps.Keys(met)))
		}
	}
}
