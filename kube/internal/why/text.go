package why

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/selvage/selvage/internal/printable"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// Text writes an answer for people.
func (a *Answer) Text(w io.Writer) error {
	if _, err := fmt.Fprintln(w, printable.Line(a.Summary)); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, printable.Line(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintln(w)
	row("Pod", "%s", a.Pod.text())
	for _, o := range a.Others {
		if o.Earlier {
			row("Before", "%s %s: %s", o.Kind, o.Key, o.Why)
		}
	}
	if p := a.Policy; p != nil {
		row("Policy", "%s", p.text())
		if len(p.To) > 0 {
			row("  to", "%s", strings.Join(p.To, ", "))
		}
		if len(p.Except) > 0 {
			row("  except", "%s", strings.Join(p.Except, ", "))
		}
	}
	for _, o := range a.Others {
		if !o.Earlier {
			row("After", "%s %s: %s", o.Kind, o.Key, o.Why)
		}
	}
	if n := a.Node; n != nil {
		has := fmt.Sprintf("has the policy, with %d of its pods", n.Pods)
		if !n.Programmed {
			has = n.Lacks
		}
		row("Node", "%s: %s", n.Name, has)
	}
	if g := a.Gateway; g != nil {
		g.rows(row)
		row("No gateway", "%s", map[string]string{"Drop": "packets are dropped while no node serves (whenNoGateway: Drop)", "Node": "pods leave by their node while no node serves (whenNoGateway: Node)"}[a.Policy.WhenNoGateway])
	}
	for _, n := range a.Notes {
		row("Note", "%s", n)
	}
	for _, p := range a.Problems {
		row("Problem", "%s", p)
	}
	return t.Flush()
}

func (p Pod) text() string {
	text := p.Namespace + "/" + p.Name
	if p.Phase != "" {
		text += ", " + p.Phase
	}
	if p.Node != "" {
		text += ", on node " + p.Node
	}
	if len(p.Addresses) > 0 {
		text += ": " + strings.Join(p.Addresses, ", ")
	}
	return text
}

func (p *Policy) text() string {
	is := "accepted"
	if !p.Accepted {
		is = "not accepted"
	}
	text := fmt.Sprintf("%s %s, priority %d, generation %d, %s", p.Kind, p.Key, p.Priority, p.Generation, is)
	switch {
	case p.AddressType == string(v1alpha1.AddressNode):
		text += ": that of the gateway's node"
	case len(p.Addresses) > 0:
		text += ": " + strings.Join(p.Addresses, ", ")
	}
	return text
}

func (g *Gateway) rows(row func(name, format string, args ...any)) {
	row("Gateway", "%s, %s: %d of %d nodes serve", g.Name, g.Mode, g.Serving, len(g.Nodes))
	for _, n := range g.Nodes {
		has := "has none of the addresses"
		if len(n.Addresses) > 0 {
			has = "has " + strings.Join(n.Addresses, ", ")
		}
		if n.Message != "" && n.State != string(v1alpha1.Serving) {
			has += ": " + n.Message
		}
		if n.Lacks != "" {
			has += "; its tables: " + n.Lacks
		}
		row("  "+n.Name, "%s, %s", n.State, has)
	}
	if f := g.LastFailover; f != nil {
		text := fmt.Sprintf("%s %s at %s, tables written after %s", f.Node, f.Change, f.Seen.UTC().Format("2006-01-02T15:04:05.000Z"), microseconds(f.WrittenMicroseconds))
		if f.AnnouncedMicroseconds >= 0 {
			text += ", announced after " + microseconds(f.AnnouncedMicroseconds)
		}
		row("Failover", "%s, says %s", text, f.ReportedBy)
	}
}

func microseconds(us int64) string {
	return fmt.Sprintf("%.1f ms", float64(us)/float64(time.Millisecond/time.Microsecond))
}
