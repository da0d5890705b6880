package datapath

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/test/pkttest"
)

// tcpSequence is what alice at a port (>) and bob beyond the tunnel (<) send, and after
// the bar the state of the connection, with the reason of a drop. One that makes room for
// others (in the table half_open) has a star.
type tcpSequence struct {
	name   string
	loose  bool
	cached bool // only with the flow cache, which the reference knows nothing of
	steps  []string
}

// opened is a handshake: alice goes on with 101, bob with 501.
var opened = []string{
	"> syn seq 100 scale 7 | opening*", "< syn+ack seq 500 acks 101 scale 7 | opening*", "> ack seq 101 acks 501 | established",
}

func after3(steps ...string) []string { return append(opened[:3:3], steps...) }

var tcpSequences = []tcpSequence{
	{name: "one end cannot close what was never open", steps: []string{
		"> syn seq 100 | opening*", "> fin+ack seq 101 acks 1 | opening*", "> ack seq 102 acks 1 | opening*",
	}},
	{name: "one end cannot reset its way into the table of answered ones", steps: []string{
		"> syn seq 100 | opening*", "> rst seq 101 | closed*", "> syn seq 900 | opening*",
	}},
	{name: "a refusal", steps: []string{"> syn seq 100 | opening*", "< rst+ack seq 0 acks 101 | closed*"}},
	{name: "a refusal of something else", steps: []string{"> syn seq 100 | opening*", "< rst+ack seq 0 acks 100 | opening*", "< rst seq 101 | opening*"}},
	{name: "a SYN that is acknowledged, but not answered", steps: []string{
		"< syn seq 100 | opening*", "> ack seq 19 acks 1000 22 | opening*", "< fin+ack seq 2000 acks 41 | opening*", "< rst seq 2001 | closed*",
	}},
	{name: "what is dropped leaves the numbers alone", steps: after3(
		"> ack seq 101 acks 501 10 | established", "< none seq 77 | established, tcp-flags", "> none seq 88 | established, tcp-flags", "< fin+ack seq 501 acks 111 | half-closed",
		"> rst seq 4000000000 | half-closed, out-of-window", "> rst seq 111 | closed*",
	)},
	{name: "a FIN that acknowledges what was never sent", steps: after3(
		"> ack seq 101 acks 501 10 | established", "< fin+ack seq 5000000 acks 3000000000 | established", "< fin+ack seq 5000000 acks 0 | half-closed",
		"> fin+ack seq 111 acks 5000001 | time-wait*",
	)},
	{name: "a FIN with its own number alone right", steps: after3(
		"> ack seq 101 acks 501 10 | established", "< fin+ack seq 501 acks 3000000000 | half-closed", "> fin+ack seq 111 acks 502 | time-wait*",
	)},
	{name: "data that acknowledges what was never sent", steps: after3(
		"< ack seq 60000 acks 3000000000 10 | established", "> rst seq 60010 | established", "< rst seq 60010 | established", "< rst seq 501 | closed*",
	)},
	{name: "a FIN with the SYN's answer on its way", steps: []string{
		"> syn seq 100 | opening*", "< syn+ack seq 500 acks 101 | opening*", "< fin+ack seq 501 acks 101 | opening*", "> ack seq 101 acks 501 | half-closed",
		"> fin+ack seq 101 acks 502 | time-wait*",
	}},
	{name: "an answer that acknowledges nothing that was sent", steps: []string{
		"> syn seq 100 | opening*", "< syn+ack seq 500 acks 100 | opening*", "< syn+ack seq 500 acks 70000 | opening*", "> ack seq 101 acks 501 | opening*",
		"< syn+ack seq 500 acks 101 | opening*", "> ack seq 101 acks 501 | established",
	}},
	{name: "a forged SYN before the answer", steps: []string{
		"> syn seq 100 | opening*", "< syn seq 77777 | opening*", "< syn+ack seq 500 acks 101 | opening*", "> ack seq 101 acks 501 | established",
		"< fin+ack seq 501 acks 101 | half-closed",
	}},
	{name: "the opener begins again with another number", steps: []string{
		"> syn seq 100 | opening*", "> syn seq 70000 | opening*", "< syn+ack seq 500 acks 70001 | opening*", "> ack seq 70001 acks 501 | established", "> rst seq 70001 | closed*",
	}},
	{name: "numbers wrap", steps: []string{
		"> syn seq 4294967290 | opening*", "< syn+ack seq 4294967295 acks 4294967291 | opening*", "> ack seq 4294967291 acks 0 | established",
		"> ack seq 4294967291 acks 0 5 | established", "< ack seq 0 acks 0 7 | established", "> ack seq 0 acks 7 9 | established", "> rst seq 9 | closed*",
	}},
	{name: "numbers wrap to zero", steps: []string{
		"> syn seq 4294967290 | opening*", "< syn+ack seq 4294967295 acks 4294967291 | opening*", "> ack seq 4294967291 acks 0 | established",
		"> ack seq 4294967291 acks 0 2 | established", "> ack seq 4294967293 acks 0 3 | established", "> fin+ack seq 0 acks 0 | half-closed", "< fin+ack seq 0 acks 1 | time-wait*",
	}},
	{name: "more than half the numbers go by between two looks", cached: true, steps: after3(
		"> ack seq 101 acks 501 10 | established", "> ack seq 1000000000 acks 501 10 | established", "> ack seq 2000000000 acks 501 10 | established",
		"> ack seq 3000000000 acks 501 10 | established", "> fin+ack seq 3000000010 acks 501 | half-closed", "< rst seq 501 | closed*",
	)},
	{name: "a retransmission does not set the number back", steps: after3(
		"> ack seq 101 acks 501 100 | established", "> ack seq 201 acks 501 100 | established", "> ack seq 101 acks 501 100 | established", "> fin+ack seq 301 acks 501 | half-closed",
		"> fin+ack seq 301 acks 501 | half-closed", "> rst seq 302 | closed*",
	)},
	{name: "a FIN outside the window changes nothing", steps: after3(
		"> ack seq 101 acks 501 100 | established", "> ack seq 201 acks 501 100 | established", "> fin+ack seq 2000000000 acks 501 | established", "> rst seq 301 | closed*",
	)},
	{name: "a reset in the window changes nothing, nor do its numbers", steps: after3(
		"> ack seq 101 acks 501 100 | established", "> ack seq 201 acks 501 100 | established", "> rst seq 400 | established", "> rst seq 8388781 | established",
		"> fin+ack seq 301 acks 501 | half-closed",
	)},
	{name: "the window's edges", steps: after3(
		"> rst seq 8388581 | established", "> rst seq 8388582 | established, out-of-window", "> rst seq 4286578917 | established", "> rst seq 4286578916 | established, out-of-window",
		"< rst seq 8388982 | established, out-of-window", "< rst seq 8388981 | established",
	)},
	{name: "the window's edges without scaling", steps: []string{
		"> syn seq 100 scale 7 | opening*", "< syn+ack seq 500 acks 101 | opening*", "> ack seq 101 acks 501 | established", "> rst seq 65637 | established, out-of-window",
		"> rst seq 65636 | established", "> rst seq 101 | closed*",
	}},
	{name: "a window scale of more than 14 is 14", steps: []string{
		"> syn seq 100 scale 0 | opening*", "< syn+ack seq 500 acks 101 scale 200 | opening*", "> ack seq 101 acks 501 | established",
		"> rst seq 1073725542 | established, out-of-window", "> rst seq 1073725541 | established",
	}},
	{name: "loose: a reset outside the window passes without effect", loose: true, steps: after3("> rst seq 2000000000 | established", "> rst seq 101 | closed*")},
	{name: "after a reset only a SYN opens anew", steps: after3(
		"> rst seq 101 | closed*", "> ack seq 101 acks 501 | closed*", "< syn+ack seq 9 acks 9 | closed*", "> fin+ack seq 101 acks 501 | closed*", "< syn seq 7000 | opening*",
		"> syn+ack seq 8000 acks 7001 | opening*", "< ack seq 7001 acks 8001 | established",
	)},
	{name: "in TIME-WAIT a SYN of the other end opens anew", steps: after3(
		"> fin+ack seq 101 acks 501 | half-closed", "< fin+ack seq 501 acks 102 | time-wait*", "> ack seq 102 acks 502 | time-wait*", "< syn seq 7000 | opening*",
		"> syn+ack seq 9000 acks 7001 | opening*", "< ack seq 7001 acks 9001 | established",
	)},
	{name: "an old FIN after its ports are used again", steps: after3(
		"> ack seq 101 acks 501 10 | established", "< ack seq 501 acks 111 10 | established", "> fin+ack seq 111 acks 511 | half-closed", "< fin+ack seq 511 acks 112 | time-wait*",
		"> syn seq 200000 | opening*", "< fin+ack seq 511 acks 112 | opening*", "< fin+ack seq 511 acks 200001 | opening*", "< syn+ack seq 300000 acks 200001 | opening*",
		"> ack seq 200001 acks 300001 | established", "< fin+ack seq 300001 acks 200001 | half-closed",
	)},
	{name: "flags that no connection has", steps: after3(
		"> none seq 101 | established, tcp-flags", "> psh seq 101 3 | established, tcp-flags", "> urg seq 101 3 | established, tcp-flags", "> fin seq 101 | established, tcp-flags",
		"> syn+fin seq 101 | established, tcp-flags", "> syn+rst seq 101 | established, tcp-flags", "> syn+rst+ack seq 101 | established, tcp-flags",
		"> syn+fin+ack seq 101 acks 501 | established, tcp-flags", "> fin+rst seq 101 | established, tcp-flags", "> ack+urg seq 101 acks 501 3 | established",
		"> fin+rst+ack seq 104 acks 501 | closed*",
	)},
	{name: "of no connection", steps: []string{
		"> ack seq 1 acks 1 | none, out-of-state", "< syn+ack seq 1 acks 1 | none, out-of-state", "> fin+ack seq 1 acks 1 | none, out-of-state", "> rst seq 1 | none, out-of-state",
		"> rst+ack seq 1 | none, out-of-state", "> none seq 1 | none, tcp-flags",
	}},
	{name: "loose: what is of no connection is picked up", loose: true, steps: []string{
		"> rst seq 1 | none", "< ack seq 1000 acks 2000 5 | opening*", "> ack seq 2000 acks 1005 | established", "< rst seq 1005 | closed*",
	}},
	{name: "loose: the first that is seen of the other end closes", loose: true, steps: []string{
		"< ack seq 1000 acks 4294967200 5 | opening*", "> fin+ack seq 4294967200 acks 1005 | half-closed", "> rst seq 4294967201 | closed*",
	}},
	{name: "loose: a picked up connection, closed far ahead, and its ports used again", loose: true, steps: []string{
		"> ack seq 1364446638 acks 3792833834 | opening*", "< fin+ack seq 3792833835 acks 1364446638 | half-closed", "> fin+ack seq 1369446679 acks 3792933835 | time-wait*",
		"< syn seq 3792933835 | opening*", "> syn+ack seq 1364446679 acks 3792933836 | opening*", "< ack seq 3792933836 acks 1364446680 | established",
	}},
	{name: "loose: a reset before anything else of its end", loose: true, steps: []string{
		"> ack seq 1000 acks 0 | opening*", "< rst seq 0 | opening*", "< rst+ack seq 0 acks 1000 | opening*", "< ack seq 0 acks 1000 | established", "< rst seq 0 | closed*",
	}},
	{name: "loose: an answer alone is picked up", loose: true, steps: []string{
		"< syn+ack seq 500 acks 101 | opening*", "> ack seq 101 acks 501 | established", "< fin+ack seq 501 acks 101 | half-closed",
	}},
}

// TestTCPSequences holds the data path, and the reference too, against the table.
func TestTCPSequences(t *testing.T) {
	for name, cached := range map[string]bool{"cache on": true, "cache off": false} {
		for rules, strict := range map[string]bool{"strict": true, "loose": false} {
			w := firewallWorld(t, openFirewall(strict), func(c *Config, _ *fib.Tables) { c.FlowCache.Enabled = cached })
			vantages[0].place(t, w)
			for _, s := range tcpSequences {
				if s.loose == strict || s.cached && !cached {
					continue
				}
				t.Run(name+"/"+rules+"/"+s.name, func(t *testing.T) { w.runSequence(t, s, strict) })
			}
		}
	}
}

func (w *world) runSequence(t *testing.T, s tcpSequence, strict bool) {
	t.Helper()
	w.forgetConnections(t)
	vports := [2]netip.AddrPort{netip.MustParseAddrPort("10.8.0.1:1000"), netip.MustParseAddrPort("10.8.0.2:80")}
	var list []exchange
	for i, step := range s.steps {
		words, want, _ := strings.Cut(step, " | ")
		side := strings.Index("><", words[:1])
		macs := [2]string{alice, bob}
		frame := pkttest.Frame(macs[side], macs[1-side], fmt.Sprintf("tcp %s > %s %s", vports[side], vports[1-side], words[2:]))
		list = append(list, exchange{side: side, frame: frame})
		why := vantages[0].offerFrom(t, w, side, frame)
		state := onlyState(t, w, "p0")
		if entries(t, w.dp.Firewall.maps.CtHalfOpen) > 0 {
			state += "*"
		}
		if got := after(state, why); got != want {
			t.Fatalf("step %d, %q: %q, want %q", i+1, words, got, want)
		}
		if s.cached {
			continue
		}
		states := referenceStates(list, strict)
		if got, want := states[i], strings.Replace(want, "*", "", 1); got != want {
			t.Fatalf("step %d, %q: the reference has %q, want %q", i+1, words, got, want)
		}
	}
}

func entries(t testing.TB, m kernel.Map) (n int) {
	t.Helper()
	each(t, m, func(bpfCtKey, bpfCtEntry) { n++ })
	return n
}
