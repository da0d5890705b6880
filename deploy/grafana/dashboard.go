package grafana

import "strings"

// Dashboard is one of the dashboards.
type Dashboard struct {
	// Name is that of its file, and the end of its UID.
	Name, Title, Description string
	// OneEdge has the reader choose a single edge, as its panels name ports and rules of one.
	OneEdge bool
	Rows    []Row
}

// Row is panels about one question. They are placed from left to right, 24 columns wide.
type Row struct {
	Title  string
	Panels []Panel
}

// Kind is how a panel shows its data.
type Kind int

// Kinds.
const (
	Series Kind = iota // over time
	Stat               // one number now
	Bars               // some numbers now, each as a part of its maximum
	Table              // a line for each series
)

// Panel shows what queries return.
type Panel struct {
	Kind        Kind
	Title       string
	Description string // what it shows, and what to do about it
	Unit        string // as Grafana names it
	Width       uint32 // of 24; 12 when it is zero
	Stacked     bool
	Full        bool    // the axis ends at 1
	Bad         float64 // from here on a number is red, if it is not zero
	Low         bool    // a number below Bad is red, not one above
	States      map[string]string
	// Columns are the labels that a table shows, in order, with the head of each; those of values are
	// the legends of its queries.
	Columns []Column
	Links   []Link
	Queries []Query
}

// Query is one in PromQL. In a table Legend is the head of its column, and Unit that of its values.
type Query struct {
	Expr, Legend, Unit string
}

// Column is a label in a table.
type Column struct{ Label, Head string }

// Link leads from a panel to another dashboard, or to a page of the documentation.
type Link struct{ Title, URL string }

// Height of a panel, in units of the grid.
func (p Panel) height() uint32 {
	if p.Kind == Stat {
		return 4
	}
	return 8
}

func (p Panel) width() uint32 {
	if p.Width == 0 {
		return 12
	}
	return p.Width
}

// Dashboards are all, the first to look at first.
func Dashboards() []Dashboard {
	return []Dashboard{overview(), edge(), firewall(), egress(), evpn()}
}

// Documentation that panels lead to.
const (
	docs    = "https://github.com/selvage/selvage/blob/main/docs/"
	runbook = docs + "guide/runbook.md"
	reasons = docs + "reference/reasons.md#drop-reasons"
)

// upOrDown is how a gauge that is true or not is shown.
func upOrDown() map[string]string { return map[string]string{"1": "up", "0": "down"} }

// filled is the part of a table that is in use, by a label of its metrics.
func filled(entries, limit string, more ...string) string {
	of := "{" + strings.Join(append([]string{chosen}, more...), ", ") + "}"
	return entries + of + " / " + limit + of
}

// chosen are the edges that the reader chose.
const chosen = `job=~"$job", instance=~"$edge"`

// perSecond is the rate of a counter of the edges that were chosen, summed up by labels.
func perSecond(by, counter string, more ...string) string {
	rate := "rate(" + counter + "{" + strings.Join(append([]string{chosen}, more...), ", ") + "}[$__rate_interval])"
	if by == "" {
		return rate
	}
	return "sum by (" + by + ") (" + rate + ")"
}
