package observe

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/api"
)

// Packet writes a packet in one line.
func Packet(w io.Writer, p api.PacketInfo) error {
	_, err := fmt.Fprintf(w, "%s %s %s\n", p.Time.Format("15:04:05.000000"), PacketFacts(p), packetText(p))
	return err
}

// packetText is its headers, the outermost first.
func packetText(p api.PacketInfo) string {
	text := strings.Join(p.Headers, " | ")
	if p.GSOSize > 0 {
		text += fmt.Sprintf(", to be cut into packets of %d bytes", p.GSOSize)
	}
	return text
}

// PacketFacts are what is known of a packet beside its bytes.
func PacketFacts(p api.PacketInfo) string {
	var words []string
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	switch {
	case p.Reason != "":
		add("drop %s", p.Reason)
	case p.Point == "copy":
		add("copy")
	case p.Point == "egress":
		add("sent")
	default:
		add("forward")
	}
	add("%s %s", p.Hook, p.Interface)
	switch {
	case p.Port != "":
		add("port %s", p.Port)
	case p.Remote != "":
		add("remote %s", p.Remote)
	case p.Outer != "":
		add("from %s", p.Outer)
	}
	if p.VNI != 0 {
		add("VNI %d", p.VNI)
	}
	if p.Segment != "" {
		add("segment %s", p.Segment)
	}
	if p.Rule != "" {
		add("rule %s of port %s", p.Rule, p.RulePort)
	}
	if p.Decision != nil {
		add("%s", decisionText(*p.Decision))
	}
	add("%d bytes:", p.Length)
	return strings.Join(words, ", ")
}

// decisionText is a decision in words.
func decisionText(d api.MonitorDecision) string {
	text := d.Action
	switch {
	case d.Port != "":
		text += " port " + d.Port
	case d.Remote != "":
		text += " remote " + d.Remote
	}
	if d.Routed {
		text += " in segment " + d.Segment
	}
	if d.Translation != "" {
		text += " as " + d.Translation
	}
	switch {
	case d.Cached:
		text += " (cached)"
	case d.Slow != "":
		text += " (slow path: " + d.Slow + ")"
	default:
		text += " (slow path)"
	}
	return text
}

// PacketComment is what a capture says of a packet.
func PacketComment(p api.PacketInfo) string {
	text := strings.TrimSuffix(PacketFacts(p), ":")
	if p.Description != "" {
		text += "\n" + p.Description
	}
	if p.GSOSize > 0 {
		text += fmt.Sprintf("\nlarge segment (GSO), to be cut into packets of %d bytes", p.GSOSize)
	}
	return text
}

// NotShown says what of the counts no line has told; "": nothing.
func NotShown(now, before api.MonitorCounts) string {
	left := now.NotShown - before.NotShown
	if left == 0 {
		return ""
	}
	var why []string
	for _, c := range []struct {
		n    uint64
		text string
	}{
		{now.Limited - before.Limited, "above the rate"}, {now.Lost - before.Lost, "lost, as this program was too slow"},
		{now.SampledOut - before.SampledOut, "beside the samples"}, {now.Unheard - before.Unheard, "refused by a device, without a packet to show"},
	} {
		if c.n > 0 {
			why = append(why, fmt.Sprintf("%s %s", grouped(c.n), c.text))
		}
	}
	return fmt.Sprintf("%s more packets not shown: %s", grouped(left), strings.Join(why, ", "))
}

// MonitorTotals are the final counts in words.
func MonitorTotals(c api.MonitorCounts) string {
	text := fmt.Sprintf("%s packets matched: %s shown, %s not", grouped(c.Matched), grouped(c.Shown), grouped(c.NotShown))
	var reasons []string
	for _, reason := range slices.Sorted(maps.Keys(c.Reasons)) {
		reasons = append(reasons, fmt.Sprintf("%s %s", reason, grouped(c.Reasons[reason])))
	}
	if len(reasons) > 0 {
		text += "; dropped: " + strings.Join(reasons, ", ")
	}
	if c.Cut > 0 {
		text += fmt.Sprintf("; %s further records about packets that are shown were lost", grouped(c.Cut))
	}
	return text
}

// grouped has commas.
func grouped(n uint64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
