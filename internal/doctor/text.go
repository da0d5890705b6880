package doctor

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Text writes a report for people: the findings with the worst first, then what
// is there, what is good, and what was not readable.
func Text(w io.Writer, r Report) error {
	var b strings.Builder
	machineText(&b, r)
	findings := Together(r.Findings)
	for _, f := range findings {
		if f.Severity != OK {
			findingText(&b, f)
		}
	}
	if err := tables(&b, r.Inventory); err != nil {
		return err
	}
	goodText(&b, findings)
	if len(r.Unknown) > 0 {
		b.WriteString("\nNOT KNOWN\n")
		for _, u := range r.Unknown {
			paragraph(&b, "  ", u.What+": "+u.Why)
		}
	}
	b.WriteString(StudiesText(findings))
	_, err := io.WriteString(w, b.String())
	return err
}

func machineText(b *strings.Builder, r Report) {
	m := r.Inventory.Machine
	scope := "this host"
	if r.Inventory.Interface != "" {
		scope = "interface " + r.Inventory.Interface
	}
	memory := "memory unknown"
	if m.Memory > 0 {
		memory = fmt.Sprintf("%.1f GB of memory", float64(m.Memory)/1e9)
	}
	fmt.Fprintf(b, "Examined: %s; Linux %s, %s, %s, %s\n", scope, orUnknown(m.Kernel), known(len(m.CPUs), "CPU"), known(len(m.Nodes), "NUMA node"), memory)
	counts := map[Severity]int{}
	for _, f := range r.Findings {
		counts[f.Severity]++
	}
	fmt.Fprintf(b, "Found:    %s, %s, %s; %d good, %d not known\n",
		number(counts[Fault], "fault"), number(counts[Warning], "warning"), number(counts[Note], "note"), counts[OK], len(r.Unknown))
}

// known is a number of what every machine has: none is one that was not read.
func known(n int, noun string) string {
	if n == 0 {
		return noun + "s unknown"
	}
	return number(n, noun)
}

func number(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// tables lists tunnels and the interfaces that were looked at.
func tables(b *strings.Builder, inv Inventory) error {
	tw := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	if len(inv.Tunnels) == 0 {
		fmt.Fprintln(tw, "\nNo tunnel found.")
	} else {
		fmt.Fprintln(tw, "\nTUNNEL\tSOURCE\tENCAPSULATION\tVNI\tUDP-PORT\tLOCAL\tREMOTES\tUNDERLAY\tMTU\tPORTS")
	}
	var rows [][]any
	for _, t := range inv.Tunnels {
		remotes := addrs(t.Remotes)
		if t.Group.IsValid() {
			remotes = strings.TrimPrefix(remotes+", group "+t.Group.String(), ", ")
		}
		if t.named() {
			remotes = "not read"
		}
		if t.External {
			remotes = "with each packet"
		}
		local := ""
		if t.Local.IsValid() {
			local = t.Local.String()
		}
		rows = append(rows, []any{t.Name, t.Source, t.Encapsulation, t.VNI, t.Port, local, remotes, few(slices.Sorted(slices.Values(t.firstHops()))), inv.carries(t), some(t.Ports)})
	}
	Rows(tw, rows, 0, 3, 9) // tunnels that have another VNI and other ports
	rows = nil
	fmt.Fprintln(tw, "\nINTERFACE\tROLE\tKIND\tDRIVER\tFIRMWARE\tMBIT/S\tMTU\tRX-RING\tQUEUES\tSLOT")
	for _, l := range inv.of(Underlay, Device, Port, Spare) {
		if l.NIC != nil {
			rows = append(rows, l.cells())
		}
	}
	Rows(tw, rows, 0)
	return tw.Flush()
}

func (l *Link) cells() []any {
	kind, ring, queues, slot := l.Kind, "", 0, ""
	if l.Physical() {
		kind = "adapter"
	}
	if r := l.NIC.Ring; r != nil {
		ring = fmt.Sprintf("%d/%d", r.Rx, r.RxMax)
	}
	if c := l.NIC.Channels; c != nil {
		queues, _ = c.Receive()
	}
	if l.PCI != nil {
		slot = l.PCI.Address
	}
	return []any{l.Name, l.Role, kind, l.NIC.Driver, strings.TrimSpace(l.NIC.Firmware), l.NIC.Mbps, l.MTU, ring, queues, slot}
}

// FindingText is a finding for people, after an empty line.
func FindingText(f Finding) string {
	var b strings.Builder
	findingText(&b, f)
	return b.String()
}

// Paragraph breaks text into lines, the first after label and the others below it.
func Paragraph(label, text string) string {
	var b strings.Builder
	paragraph(&b, label, text)
	return b.String()
}

func findingText(b *strings.Builder, f Finding) {
	fmt.Fprintf(b, "\n%s  %s  %s\n", strings.ToUpper(string(f.Severity)), f.Check, f.Subject)
	paragraph(b, "  what      ", f.What)
	paragraph(b, "  evidence  ", f.Evidence)
	paragraph(b, "  why       ", f.Why)
	if len(f.Change) == 0 {
		fmt.Fprintln(b, "  change    nothing to set here")
	}
	lines(b, "  change    ", "            ", f.Change)
	lines(b, "  or        ", "  and       ", f.Or) // words that are no commands, for who pastes all of it
	lines(b, "  measure   ", "            ", f.Measure)
}

func lines(b *strings.Builder, label, next string, texts []string) {
	for _, text := range texts {
		fmt.Fprintln(b, label+text)
		label = next
	}
}

// goodText has one line for each check and subject, what they say side by side.
func goodText(b *strings.Builder, findings []Finding) {
	title := "\nGOOD\n"
	for _, f := range findings {
		if f.Severity == OK {
			b.WriteString(title)
			title = ""
			paragraph(b, fmt.Sprintf("  %-15s  ", f.Check), f.Subject+": "+f.What)
		}
	}
}

// width is where paragraphs break. Commands do not: they are to be copied.
const width = 110

// paragraph writes text after label, with further lines indented below it.
func paragraph(b *strings.Builder, label, text string) {
	indent := blank(label)
	if strings.TrimSpace(label) == "" {
		indent = label + "  "
	}
	line := label
	empty := true
	for word := range strings.FieldsSeq(text) {
		if !empty && len([]rune(line))+1+len([]rune(word)) > width {
			fmt.Fprintln(b, line)
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	fmt.Fprintln(b, line)
}

func blank(label string) string { return strings.Repeat(" ", len(label)) }
