package datapath

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

func (w *world) logs(t testing.TB) (lines []LogLine) {
	t.Helper()
	must(t, w.dp.Firewall.Logs(1000, func(l LogLine) { lines = append(lines, l) }))
	return lines
}

// A line says which rule decided about which packet, in the reader's words.
func TestLogs(t *testing.T) {
	t.Parallel()
	pass, trial := allow("dns", 53), allow("trial", 53)
	pass.Log, trial.Verdict = true, overlay.LogOnly
	ssh := overlay.Rule{Section: "s", Name: "ssh", Verdict: overlay.Reject, Direction: overlay.Out, Log: true, Services: []overlay.Service{
		{Protocol: 6, Ports: []overlay.PortRange{{First: 22, Last: 22}}, ICMPType: -1, ICMPCode: -1},
	}}
	trial.Direction, pass.Direction = overlay.In, overlay.Both
	w := walledWorld(t, wall(trial, pass, ssh))
	if lines := w.logs(t); len(lines) != 0 {
		t.Fatalf("lines before any packet: %v", lines)
	}
	w.follow(t, []step{{"p0", udpTo("53"), "p1"}, {"p0", udpTo("53"), "p1"}, {"p0", udpTo("99"), "drop"}})
	w.fromPort(t, "p0", pkttest.Frame(alice, bob, "tcp 10.0.0.1:1000 > 10.0.0.2:22 syn"))
	line := func(rule, port string, direction overlay.Direction, proto uint8, dport uint16, verdict overlay.Verdict) LogLine {
		return LogLine{
			Rule: RuleName{"s", rule}, Port: port, Direction: direction, Proto: proto, Verdict: verdict,
			Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), SrcPort: 1000, DstPort: dport,
		}
	}
	want := []LogLine{
		line("dns", "p0", overlay.Out, 17, 53, overlay.Allow),
		line("trial", "p1", overlay.In, 17, 53, overlay.LogOnly),
		line("dns", "p1", overlay.In, 17, 53, overlay.Allow),
		line("ssh", "p0", overlay.Out, 6, 22, overlay.Reject),
	}
	want[3].Reason, want[3].TCPFlags = "rejected", 2
	got := w.logs(t)
	ignored := cmpopts.IgnoreFields(LogLine{}, "AgeNS", "Len")
	same := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	if d := cmp.Diff(want, got, ignored, same); d != "" {
		t.Errorf("lines (-want +got):\n%s", d)
	}
	for _, l := range got {
		if l.Len == 0 || l.AgeNS > 60e9 {
			t.Errorf("line %+v", l)
		}
	}
}
