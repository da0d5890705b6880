package gateway

import (
	"log/slog"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
)

// translationLog is lines about the begin and end of sessions, so many a second at most.
type translationLog struct {
	lines  []datapath.NATEvent // to be written when nobody waits for a lock
	budget float64             // lines that may be written now
	at     time.Time           // of budget
	lost   uint64              // all that were not written
	unsaid uint64              // of these, those that no line told of
}

// begin gives the log what it may write by now. A second's worth can be saved up.
func (l *translationLog) begin(now time.Time, rate uint32) {
	if l.at.IsZero() {
		l.budget = float64(rate)
	} else {
		l.budget = min(float64(rate), l.budget+float64(rate)*now.Sub(l.at).Seconds())
	}
	l.at, l.lines = now, l.lines[:0]
}

// take notes a line. That a session was answered is no line, and replicas are in the log of
// the gateway that uses them.
func (l *translationLog) take(n *datapath.NATEvent) {
	switch {
	case n.Event == datapath.NATEstablished || n.Session.Replica:
	case l.budget < 1:
		l.lost++
		l.unsaid++
	default:
		l.budget--
		l.lines = append(l.lines, *n)
	}
}

// write writes the lines. docs/reference/metrics.md has how their fields map to IPFIX (RFC 8158).
func (l *translationLog) write(log *slog.Logger) {
	for i := range l.lines {
		n := &l.lines[i]
		b := &n.Session
		attrs := []any{
			"event", string(n.Event), "at", time.Now().Add(-time.Duration(n.AgeNS)), "policy", b.Policy, "router", b.Router, "proto", api.ProtoName(b.Proto),
			"src", b.Inside.Addr(), "sport", b.Inside.Port(), "postNATSrc", b.Egress.Addr(), "postNATSport", b.Egress.Port(),
		}
		if b.Outside.Addr().IsValid() && !b.Mapping {
			attrs = append(attrs, "dst", b.Outside.Addr(), "dport", b.Outside.Port())
		}
		if b.Forwarded {
			attrs = append(attrs, "opened", "outside")
		}
		if n.Event == datapath.NATDeleted {
			attrs = append(attrs, "initiatorPackets", b.Orig.Packets, "initiatorOctets", b.Orig.Bytes,
				"responderPackets", b.Reply.Packets, "responderOctets", b.Reply.Bytes,
				"duration", time.Duration(b.AgeNS-min(b.AgeNS, n.AgeNS)).Round(time.Millisecond))
		}
		if l.unsaid > 0 {
			attrs = append(attrs, "lost", l.unsaid)
			l.unsaid = 0
		}
		log.Info("nat", attrs...)
	}
}
