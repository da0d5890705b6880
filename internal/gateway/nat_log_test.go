package gateway

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/datapath"
)

// session is TCP of the policy web, answered.
func session(port uint16) datapath.NATSession {
	return datapath.NATSession{
		Connection: datapath.Connection{Proto: 6, State: "established", Answered: true, AgeNS: 5e9, IdleNS: 1e9,
			Orig: datapath.Counters{Packets: 2, Bytes: 100}, Reply: datapath.Counters{Packets: 3, Bytes: 1000}},
		Policy: "web", Router: "tenant", Inside: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), port),
		Outside: netip.MustParseAddrPort("198.51.100.9:443"), Egress: netip.AddrPortFrom(netip.MustParseAddr("203.0.113.10"), port), LeftNS: 60e9,
	}
}

func eventOf(event datapath.NATEventKind, b datapath.NATSession) datapath.NATEvent {
	return datapath.NATEvent{Event: event, AgeNS: 1e6, Session: b}
}

// Lines have the fields that docs/reference/metrics.md maps to IPFIX, and no more of them are written
// than the rate allows.
func TestTranslationLog(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	var l translationLog
	l.begin(noon, 2)
	events := []datapath.NATEvent{
		eventOf(datapath.NATCreated, session(4000)), eventOf(datapath.NATEstablished, session(4000)), eventOf(datapath.NATDeleted, session(4000)),
		eventOf(datapath.NATCreated, session(4001)), eventOf(datapath.NATCreated, session(4002)),
	}
	replicated := eventOf(datapath.NATDeleted, session(4003))
	replicated.Session.Replica = true
	for _, n := range append(events, replicated) {
		l.take(&n)
	}
	l.write(log)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || l.lost != 2 || !strings.Contains(lines[0], "lost=2") {
		t.Fatalf("%d lines and %d lost, want two and two:\n%s", len(lines), l.lost, out.String())
	}
	for _, field := range []string{"event=began", "policy=web", "router=tenant", "proto=tcp", "src=10.0.0.1", "sport=4000", "postNATSrc=203.0.113.10", "postNATSport=4000",
		"dst=198.51.100.9", "dport=443"} {
		if !strings.Contains(lines[0], field) {
			t.Errorf("%q lacks %s", lines[0], field)
		}
	}
	for _, field := range []string{"event=ended", "initiatorPackets=2", "initiatorOctets=100", "responderPackets=3", "responderOctets=1000", "duration=4.999s"} {
		if !strings.Contains(lines[1], field) {
			t.Errorf("%q lacks %s", lines[1], field)
		}
	}
	out.Reset()
	l.begin(noon.Add(time.Hour), 2)
	for range 3 {
		l.take(&events[0])
	}
	l.write(log)
	if text := out.String(); strings.Count(text, "\n") != 2 || strings.Count(text, "lost=1") != 1 || l.lost != 3 {
		t.Errorf("after an hour, %d lost:\n%s", l.lost, text)
	}
}
