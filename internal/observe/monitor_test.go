package observe

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/api"
)

// refused is a packet that a firewall dropped.
func refused() api.PacketInfo {
	return api.PacketInfo{
		Time: time.Date(2026, 5, 1, 12, 0, 0, 1000, time.UTC), ID: 1, Point: "ingress", Hook: "tc", Interface: "tap7", Reason: "rejected",
		Description: "a firewall rule rejects it", Port: "web", Segment: "blue", Rule: "shop/no-telnet", RulePort: "web", Source: "10.0.0.1", Length: 60,
		Headers: []string{"02:00:00:00:00:01 > 02:00:00:00:00:02", "tcp 10.0.0.1:1000 > 10.0.0.2:23 syn"},
	}
}

func TestPacketLine(t *testing.T) {
	tunnel := api.PacketInfo{
		Point: "drop", Hook: "xdp", Interface: "eth1", Reason: "unknown-remote", Outer: "192.0.2.77", VNI: 100, Length: 114, Headers: []string{"VXLAN VNI 100"},
	}
	large := refused()
	large.Reason, large.Rule, large.RulePort, large.Length, large.GSOSize = "", "", "", 4054, 1000
	large.Decision = &api.MonitorDecision{Action: "encapsulate to", Remote: "192.0.2.2", Cached: true}
	left := large
	left.Point = "egress"
	for _, c := range []struct {
		p    api.PacketInfo
		want string
	}{
		{refused(), "12:00:00.000001 drop rejected, tc tap7, port web, segment blue, rule shop/no-telnet of port web, 60 bytes: " +
			"02:00:00:00:00:01 > 02:00:00:00:00:02 | tcp 10.0.0.1:1000 > 10.0.0.2:23 syn\n"},
		{tunnel, "00:00:00.000000 drop unknown-remote, xdp eth1, from 192.0.2.77, VNI 100, 114 bytes: VXLAN VNI 100\n"},
		{large, "12:00:00.000001 forward, tc tap7, port web, segment blue, encapsulate to remote 192.0.2.2 (cached), 4054 bytes: " +
			"02:00:00:00:00:01 > 02:00:00:00:00:02 | tcp 10.0.0.1:1000 > 10.0.0.2:23 syn, to be cut into packets of 1000 bytes\n"},
		{left, "12:00:00.000001 sent, tc tap7, port web, segment blue, encapsulate to remote 192.0.2.2 (cached), 4054 bytes: " +
			"02:00:00:00:00:01 > 02:00:00:00:00:02 | tcp 10.0.0.1:1000 > 10.0.0.2:23 syn, to be cut into packets of 1000 bytes\n"},
	} {
		var out strings.Builder
		if err := Packet(&out, c.p); err != nil || out.String() != c.want {
			t.Errorf("%v\n%swant\n%s", err, out.String(), c.want)
		}
	}
	want := "drop rejected, tc tap7, port web, segment blue, rule shop/no-telnet of port web, 60 bytes\na firewall rule rejects it"
	if got := PacketComment(refused()); got != want {
		t.Errorf("comment %q, want %q", got, want)
	}
}

// A summary has who causes most packets first, each packet once, and what was not shown.
func TestTalkers(t *testing.T) {
	var talkers Talkers
	for i := range 6 {
		p := refused()
		if i%3 == 0 {
			p.Reason, p.Rule = "spoofed-mac", ""
		}
		talkers.Add(p)
		p.Point = "egress" // the same packet
		talkers.Add(p)
	}
	talkers.Add(api.PacketInfo{Point: "ingress", Remote: "192.0.2.2", Source: "10.0.0.2", Length: 100})
	counts := api.MonitorCounts{Matched: 1007, Shown: 7, NotShown: 1000, Limited: 1000, Reasons: map[string]uint64{"rejected": 1004, "spoofed-mac": 2}}
	document := talkers.Document(counts)
	want := []Talker{
		{Reason: "rejected", From: "web", Source: "10.0.0.1", Packets: 4, Bytes: 240},
		{Reason: "spoofed-mac", From: "web", Source: "10.0.0.1", Packets: 2, Bytes: 120},
		{From: "192.0.2.2", Source: "10.0.0.2", Packets: 1, Bytes: 100},
	}
	if diff := cmp.Diff(want, document.Talkers); diff != "" {
		t.Errorf("talkers (-want +got):\n%s", diff)
	}
	var out strings.Builder
	if err := talkers.Write(Writer{Writer: &out}, counts); err != nil {
		t.Fatal(err)
	}
	const text = `REASON       FROM       SOURCE    SHOWN  SHARE
rejected     web        10.0.0.1  4      57.1%
spoofed-mac  web        10.0.0.1  2      28.6%
(forwarded)  192.0.2.2  10.0.0.2  1      14.3%
1,007 packets matched: 7 shown, 1,000 not; dropped: rejected 1,004, spoofed-mac 2
`
	if diff := cmp.Diff(text, out.String()); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

// However many sources there are, those with most packets are known, and memory is bounded.
func TestTalkersAreBounded(t *testing.T) {
	var talkers Talkers
	for range 3 {
		talkers.Add(refused())
	}
	for i := range 3 * mostTalkers {
		p := refused()
		p.Source = fmt.Sprint(i)
		talkers.Add(p)
	}
	if n := len(talkers.by); n > mostTalkers {
		t.Errorf("%d sources are kept", n)
	}
	if list := talkers.Document(api.MonitorCounts{}).Talkers; len(list) != shownTalkers || list[0].Source != "10.0.0.1" || list[0].Packets != 3 {
		t.Errorf("%+v", list)
	}
}

func TestNotShown(t *testing.T) {
	before := api.MonitorCounts{NotShown: 10, Limited: 10}
	if text := NotShown(before, before); text != "" {
		t.Errorf("%q of nothing", text)
	}
	now := api.MonitorCounts{NotShown: 12_355, Limited: 12_010, Lost: 300, SampledOut: 40, Unheard: 5, Cut: 2, Matched: 12_360, Shown: 5}
	const want = "12,345 more packets not shown: 12,000 above the rate, 300 lost, as this program was too slow, 40 beside the samples, 5 refused by a device, without a packet to show"
	if text := NotShown(now, before); text != want {
		t.Errorf("%q, want %q", text, want)
	}
	const totals = "12,360 packets matched: 5 shown, 12,355 not; 2 further records about packets that are shown were lost"
	if text := MonitorTotals(now); text != totals {
		t.Errorf("%q, want %q", text, totals)
	}
}
