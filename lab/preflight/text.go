package preflight

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/selvage/selvage/internal/doctor"
	"github.com/selvage/selvage/internal/doctor/compare"
	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/internal/doctor/fix"
)

// text is the report for people: what is there, what lies between the hosts, what changed, and then each host.
func (r *Report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Examined at %s:\n", r.Taken.Format("2006-01-02 15:04:05 UTC"))
	for _, h := range r.Hosts {
		b.WriteString(doctor.Paragraph("  "+h.Place+"  ", fmt.Sprintf("%s; %s", h.Facts.Name, h.Facts.Machine)))
	}
	r.tables(&b)
	if len(r.Hosts) > 1 {
		section(&b, "BETWEEN THEM", r.Between, "no difference that matters")
	}
	for _, h := range r.Hosts {
		if drift, ok := r.Drift[h.Place]; ok {
			section(&b, "CHANGED AT "+h.Place, drift, "nothing")
		}
	}
	r.single(&b)
	r.unknown(&b)
	var all []doctor.Finding
	for _, h := range r.Hosts {
		all = append(all, h.Report.Findings...)
	}
	for _, f := range r.Between.Findings {
		all = append(all, f.Finding)
	}
	b.WriteString(doctor.StudiesText(all))
	return b.String()
}

// single writes the findings of single hosts: those of several ones once.
func (r *Report) single(b *strings.Builder) {
	var order []string
	findings := map[string][]doctor.Finding{} // by the places that have them
	for i, h := range r.Hosts {
		for _, f := range h.Report.Findings {
			if r.isBetween(h.Place, f) {
				continue
			}
			places, first := []string{}, i
			for j, other := range r.Hosts {
				if slices.ContainsFunc(other.Report.Findings, f.Alike) {
					places, first = append(places, other.Place), min(first, j)
				}
			}
			if first != i {
				continue // the first one has it
			}
			at := strings.Join(places, ", ")
			if !slices.Contains(order, at) {
				order = append(order, at)
			}
			findings[at] = append(findings[at], f)
		}
	}
	for _, at := range order {
		var all compare.Result
		for _, f := range doctor.Together(findings[at]) {
			all.Findings = append(all.Findings, compare.Finding{Finding: f})
		}
		section(b, "AT "+at, all, "nothing that slows an overlay")
	}
}

// isBetween says whether a finding at a place is one that the hosts differ by, which has its fixes.
func (r *Report) isBetween(place string, f doctor.Finding) bool {
	var fixes []fix.Fix
	for _, o := range r.Between.Findings {
		if o.At == place {
			fixes = append(fixes, o.Fixes...)
		}
	}
	return len(f.Fixes) > 0 && !slices.ContainsFunc(f.Fixes, func(x fix.Fix) bool {
		return !slices.ContainsFunc(fixes, func(y fix.Fix) bool { return doctor.SameOffload(x, y) })
	})
}

// section writes findings. What is good is counted, and what does not matter named.
func section(b *strings.Builder, title string, r compare.Result, none string) {
	fmt.Fprintf(b, "\n%s\n", title)
	found, good := 0, 0
	for _, f := range r.Findings {
		if f.Severity == doctor.OK {
			good++
			continue
		}
		found++
		b.WriteString(doctor.FindingText(f.Finding))
	}
	if found == 0 {
		fmt.Fprintln(b, "  "+none)
	}
	if good > 0 {
		fmt.Fprintf(b, "\n  good: %d more\n", good)
	}
	if len(r.Folded) > 0 {
		var names []string
		for _, d := range r.Folded {
			name := d.Name
			if d.A.Interface != "" {
				name += " of " + d.A.Interface
			}
			names = append(names, name)
		}
		const most = 12
		over := ""
		if len(names) > most {
			over = fmt.Sprintf(" and %d more", len(names)-most)
			names = names[:most]
		}
		b.WriteString("\n" + doctor.Paragraph("  ", fmt.Sprintf("%d differ that no figure is known to depend on (-o json has their values): %s%s", len(r.Folded), strings.Join(names, ", "), over)))
	}
}

// tables lists interfaces and paths.
func (r *Report) tables(b *strings.Builder) {
	tw := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\nPLACE\tINTERFACE\tDRIVER\tFIRMWARE\tMBIT/S\tMTU\tRX-RING\tQUEUES\tRSS-UDP4\tRSS-UDP6\tSLOT\tPCI-ID\tNUMA\tVFS")
	var rows [][]any
	for _, h := range r.Hosts {
		for _, i := range h.Facts.Interfaces {
			rows = append(rows, append([]any{h.Place, i.Name}, cells(i)...))
		}
	}
	doctor.Rows(tw, rows, 1)
	if len(r.Paths) > 0 {
		fmt.Fprintln(tw, "\nFROM\tTO\tADDRESS\tINTERFACE\tMTU\tLARGEST\tREPORTED")
		rows = nil
		for _, p := range r.Paths {
			rows = append(rows, []any{p.From, p.To, p.Addr, p.Interface, p.MTU, p.Largest, p.Reported})
		}
		doctor.Rows(tw, rows)
	}
	tw.Flush() // to a builder, which takes everything
}

func cells(i facts.Interface) []any {
	driver, ring, queues, slot, id, numa, vfs := i.Driver, "", 0, "", "", "", ""
	if driver == "" {
		driver = i.Kind
	}
	if i.Ring != nil {
		ring = fmt.Sprintf("%d/%d", i.Ring.Rx, i.Ring.RxMax)
	}
	if i.Channels != nil {
		queues, _ = i.Channels.Receive()
	}
	if p := i.PCI; p != nil {
		slot, id = p.Address, p.ID
		if p.NUMA != nil {
			numa = "node " + fmt.Sprint(*p.NUMA)
		}
		if p.VFsMax > 0 {
			vfs = fmt.Sprintf("%d/%d", p.VFs, p.VFsMax)
		}
	}
	return []any{driver, i.Firmware, i.Mbps, i.MTU, ring, queues, i.Hash4, i.Hash6, slot, id, numa, vfs}
}

// unknown lists what could not be read, with the places where it could not.
func (r *Report) unknown(b *strings.Builder) {
	var order []facts.Unknown
	places := map[facts.Unknown][]string{}
	add := func(place string, u facts.Unknown) {
		if len(places[u]) == 0 {
			order = append(order, u)
		}
		places[u] = append(places[u], place)
	}
	for _, h := range r.Hosts {
		for _, u := range h.Facts.Unknown {
			add(h.Place, u)
		}
	}
	for _, p := range r.Paths {
		if p.Error != "" {
			add(p.From, facts.Unknown{What: "path MTU to " + p.Addr.String(), Why: p.Error})
		}
	}
	if len(order) > 0 {
		b.WriteString("\nNOT KNOWN\n")
	}
	for _, u := range order {
		b.WriteString(doctor.Paragraph("  ", fmt.Sprintf("%s: %s (%s)", u.What, u.Why, strings.Join(places[u], ", "))))
	}
}
