// Package observe turns what an edge says of itself into tables for people and
// JSON for programs.
//
// Its one invariant: the same document gives the same bytes; it asks neither a
// kernel nor a clock. Programs should read the JSON: tables round numbers and
// their columns may change.
package observe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/printable"
	"github.com/selvage/selvage/internal/problem"
)

// JSON writes a document as it is, indented.
func JSON(w io.Writer, document any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(document)
}

// Ports writes one line for each local port.
func Ports(w Writer, ports []api.PortInfo) error {
	return table(w, "NAME INTERFACE +INDEX VLAN SEGMENT STATE +HOOK +DELIVER MTU RX-PACKETS RX-BYTES TX-PACKETS TX-BYTES DROPS "+
		"+MACS +NEIGHBOURS +CONNECTIONS +STORM",
		ports, func(p api.PortInfo) []any {
			return []any{
				p.Name, p.Interface, positive(p.Ifindex), positive(int(p.VLAN)), p.Segment, p.State, p.Hook, p.Deliver, positive(p.MTU),
				count(p.RxPackets), size(p.RxBytes), count(p.TxPackets), size(p.TxBytes), count(p.Drops),
				usedOf(p.Limits, "macs"), usedOf(p.Limits, "neighbours"), usedOf(p.Limits, "connections"),
				count(exceeded(p.Limits, "broadcast", "multicast", "unknown-unicast")),
			}
		})
}

// FDB writes one line for each MAC address. Only one that was learned from packets has an age.
func FDB(w Writer, entries []api.FDBEntry) error {
	return table(w, "SEGMENT MAC PORT REMOTE TYPE AGE MOVES", entries, func(e api.FDBEntry) []any {
		kind := e.Origin
		if e.Sticky {
			kind += ", sticky"
		}
		if e.Frozen > 0 {
			kind += fmt.Sprintf(", frozen %.0fs, also at %s", e.Frozen, e.Other)
		}
		return []any{e.Segment, e.MAC, e.Port, addr(e.Remote), kind, learnedAge(e.Origin, e.Age), e.Moves}
	})
}

// learnedAge is that of what was learned from packets; other entries do not age.
func learnedAge(origin string, seconds float64) gauge {
	if origin != "learned" {
		return ""
	}
	return span(seconds)
}

// Flows writes one line for each cached decision and, where it is not on the
// fast path, why.
func Flows(w Writer, flows []api.FlowInfo) error {
	header := "SEGMENT IN OUT PROTO SOURCE DESTINATION PATH +PACKETS BYTES +IDLE WHY"
	measured := slices.ContainsFunc(flows, func(f api.FlowInfo) bool { return f.Rate != nil })
	if measured {
		header = "SEGMENT IN OUT PROTO SOURCE DESTINATION PATH PACKETS/S BYTES/S +PACKETS +BYTES +IDLE WHY"
	}
	return table(w, header, flows, func(f api.FlowInfo) []any {
		path := "slow"
		if f.FastPath {
			path = "fast"
		}
		source, destination := any(f.SrcMAC), any(f.DstMAC)
		if f.Src.IsValid() && f.Dst.IsValid() {
			source, destination = endpoint(f.Src, f, f.SrcPort), endpoint(f.Dst, f, f.DstPort)
		}
		segment := f.Segment
		if f.OutSegment != "" && f.OutSegment != f.Segment {
			segment += ">" + f.OutSegment
		}
		if f.ToSrc.IsValid() {
			source = fmt.Sprintf("%v>%s", source, natSessionEnd(f.ToSrc.Addr(), f.ToSrc.Port()))
		}
		if f.ToDst.IsValid() {
			destination = fmt.Sprintf("%v>%s", destination, natSessionEnd(f.ToDst.Addr(), f.ToDst.Port()))
		}
		row := []any{segment, f.In, f.Out, f.Proto, source, destination, path}
		if measured {
			r := cmp.Or(f.Rate, &api.FlowRate{})
			row = append(row, gauge(rate(r.Packets)), gauge(rate(r.Bytes)+"B"))
		}
		return append(row, count(f.Packets), size(f.Bytes), span(f.Idle), f.Why)
	})
}

// Drops writes one line for each reason, the ones that never happened only if
// all is set.
func Drops(w Writer, drops []api.DropInfo, all bool) error {
	var shown []api.DropInfo
	for _, d := range drops {
		if all || d.Packets > 0 {
			shown = append(shown, d)
		}
	}
	return table(w, "REASON PACKETS BYTES DESCRIPTION", shown, func(d api.DropInfo) []any {
		return []any{d.Reason, count(d.Packets), size(d.Bytes), d.Description}
	})
}

// OwnerDrops writes one line for each owner of a kind and reason.
func OwnerDrops(w Writer, kind string, drops []api.OwnerDropInfo) error {
	return table(w, strings.ToUpper(kind)+" REASON PACKETS BYTES DESCRIPTION", drops, func(d api.OwnerDropInfo) []any {
		return []any{d.Owner, d.Reason, count(d.Packets), size(d.Bytes), d.Description}
	})
}

// Status writes the edge at a glance; now is for how long it has been running.
func Status(w Writer, s api.Status, now time.Time) error {
	var lines fields
	line := lines.add
	if _, err := fmt.Fprintln(w, printable.Line(verdict(s))); err != nil {
		return err
	}
	life, origin := fmt.Sprintf("version %s, pid %d, up %s", s.Version, s.PID, span(now.Sub(s.Started).Seconds())), "loaded by this process"
	if s.Adopted {
		origin = "taken over from an earlier process"
	}
	line("Edge", "%s, %s", s.Name, life)
	line("Configuration", "%s", cmp.Or(s.Config, "not known"))
	line("Data path", "%s", origin)
	line("TEP", "%s", addr(s.TEP))
	line("Ports", "%d of %d up", s.Ports.Up, s.Ports.Total)
	line("Remotes", "%d of %d resolved", s.TEPs.Up, s.TEPs.Total)
	line("FDB", "%s", usage(s.FDB))
	line("Flow cache", "%s", flowCache(w, s))
	if f := s.Firewall; f != nil {
		line("Firewall", "%s rules, %s connections, %d of %d without an answer", count(uint64(f.Rules)),
			fmt.Sprintf("%d of %d", f.Connections.Used, f.Connections.Size), f.HalfOpen.Used, f.HalfOpen.Size)
	}
	if n := s.NAT; n != nil {
		state := ""
		if n.State != "" {
			state = ", as a gateway " + n.State
		}
		line("NAT", "%d egress policies, %d of %d sessions%s", n.Policies, n.Sessions.Used, n.Sessions.Size, state)
	}
	if b := s.BGP; b != nil {
		line("BGP", "%d of %d sessions, %s", b.Neighbours.Up, b.Neighbours.Total, bgpUse(*b))
	}
	line("Dropped", "%s", count(s.Dropped).of(w, "packets"))
	lines.problems(s.Problems)
	if err := lines.write(w); err != nil || len(s.Segments) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return table(w, "SEGMENT VNI ENCAPSULATION UDP-PORT PORTS REMOTES ROUTER GATEWAY", s.Segments, func(g api.SegmentInfo) []any {
		return []any{
			g.Name, positive(int(g.VNI)), g.Encapsulation, positive(int(g.UDPPort)), g.Ports, g.Remotes, g.Router, list(g.Gateway),
		}
	})
}

// verdict is the first line of a status: whether all is well, and how much is not.
func verdict(s api.Status) string {
	notes, warnings, errors := problem.Count(s.Problems, problem.SeverityNote), problem.Count(s.Problems, problem.SeverityWarning), problem.Count(s.Problems, problem.SeverityError)
	text := strings.ToUpper(string(cmp.Or(s.Verdict, problem.Sum(s.Problems)))) // a release before had no verdict
	var counts []string
	for _, c := range []struct {
		n    int
		what string
	}{{errors, "error"}, {warnings, "warning"}, {notes, "note"}} {
		switch {
		case c.n == 1:
			counts = append(counts, "1 "+c.what)
		case c.n > 1:
			counts = append(counts, fmt.Sprintf("%d %ss", c.n, c.what))
		}
	}
	if len(counts) > 0 {
		text += ": " + strings.Join(counts, ", ")
	}
	return text
}

// severityLabel is what stands before a problem.
var severityLabel = map[problem.Severity]string{problem.SeverityError: "Error: ", problem.SeverityWarning: "Warning: ", problem.SeverityNote: "Note: "}

// problems adds a line for each.
func (f *fields) problems(list []problem.Problem) {
	texts := make([]string, len(list))
	for i, p := range list {
		texts[i] = strings.ToLower(severityLabel[p.Severity]) + p.Text
	}
	f.list("Problems", texts)
}

func usage(u api.Usage) string { return fmt.Sprintf("%d of %d entries", u.Used, u.Size) }

func flowCache(w Writer, s api.Status) string {
	if !s.FlowCache {
		return "off"
	}
	used := usage(s.Flows)
	if s.Transit != nil {
		used += fmt.Sprintf(", transit %d of %d", s.Transit.Used, s.Transit.Size)
	}
	if s.LookUps == 0 {
		return used + ", no look-ups"
	}
	return fmt.Sprintf("%s, %s hits of %s", used, percent(float64(s.Hits)/float64(s.LookUps)), count(s.LookUps).of(w, "look-ups"))
}

// endpoint is an address, with its port where the protocol has ports.
func endpoint(a netip.Addr, f api.FlowInfo, port uint16) string {
	if f.SrcPort == 0 && f.DstPort == 0 {
		return a.String()
	}
	return netip.AddrPortFrom(a, port).String()
}
