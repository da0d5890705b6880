package top

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/selvage/selvage/internal/observe"
	"github.com/selvage/selvage/internal/printable"
	"github.com/selvage/selvage/internal/problem"
)

// The looks of things. Colours are the terminal's own sixteen, which its user has chosen.
var (
	styles = map[tone]lipgloss.Style{
		plain: lipgloss.NewStyle(), faint: lipgloss.NewStyle().Faint(true),
		good: lipgloss.NewStyle().Foreground(lipgloss.Green), warning: lipgloss.NewStyle().Foreground(lipgloss.Yellow),
		bad: lipgloss.NewStyle().Foreground(lipgloss.Red),
	}
	headerStyle   = lipgloss.NewStyle().Bold(true).Underline(true)
	selectedStyle = lipgloss.NewStyle().Reverse(true)
	tabStyle      = lipgloss.NewStyle().Faint(true)
	currentStyle  = lipgloss.NewStyle().Bold(true).Reverse(true)
)

const (
	columnGap = 2
	// overhead is how many rows stand around the lines of a table.
	overhead = 7
)

// rowsShown is how many lines of a table there is room for.
func (m *model) rowsShown() int { return max(m.height-overhead, 1) }

// View implements tea.Model.
func (m *model) View() tea.View {
	rows := []string{m.titleRow(), m.problemRow(), m.tabRow(), ""}
	if m.help {
		rows = append(rows, helpRows()...)
	} else {
		rows = append(rows, m.tableRows()...)
	}
	for len(rows) < m.height-2 {
		rows = append(rows, "")
	}
	rows = append(rows[:min(len(rows), max(m.height-2, 0))], m.detailRow(), m.footRow())
	for i, row := range rows {
		rows[i] = ansi.Truncate(row, m.width, "…")
	}
	v := tea.NewView(strings.Join(rows, "\n"))
	v.AltScreen = true
	v.WindowTitle = "selvage top " + m.status.Name
	return v
}

// titleRow is the edge at a glance.
func (m *model) titleRow() string {
	s := m.status
	if s.Name == "" {
		return "selvage top: asking the edge"
	}
	verdict := map[problem.Verdict]tone{problem.OK: good, problem.Degraded: warning, problem.Broken: bad}
	parts := []string{
		lipgloss.NewStyle().Bold(true).Render(s.Name), styles[verdict[s.Verdict]].Render(strings.ToUpper(string(s.Verdict))),
		fmt.Sprintf("up %s", observe.Span(time.Since(s.Started).Seconds())),
		fmt.Sprintf("ports %d/%d", s.Ports.Up, s.Ports.Total), fmt.Sprintf("remotes %d/%d", s.TEPs.Up, s.TEPs.Total),
		fmt.Sprintf("flows %s/%s", observe.Count(uint64(s.Flows.Used)), observe.Count(uint64(s.Flows.Size))),
		fmt.Sprintf("FDB %s/%s", observe.Count(uint64(s.FDB.Used)), observe.Count(uint64(s.FDB.Size))),
	}
	if s.LookUps > 0 {
		parts = append(parts, fmt.Sprintf("hits %.1f %%", 100*float64(s.Hits)/float64(s.LookUps)))
	}
	if s.BGP != nil {
		parts = append(parts, fmt.Sprintf("BGP %d/%d", s.BGP.Neighbours.Up, s.BGP.Neighbours.Total))
	}
	return strings.Join(append(parts, fmt.Sprintf("dropped %s", observe.Count(s.Dropped))), "  ")
}

// problemRow is the first problem of the edge, or why it does not answer.
func (m *model) problemRow() string {
	switch n := len(m.status.Problems); {
	case m.err != nil:
		return styles[bad].Render(printable.Line(m.err.Error()))
	case n == 0:
		return ""
	case n == 1:
		return styles[warning].Render(printable.Line(m.status.Problems[0].Text))
	default:
		return styles[warning].Render(fmt.Sprintf("%s (and %d more: selvage status)", printable.Line(m.status.Problems[0].Text), n-1))
	}
}

func (m *model) tabRow() string {
	var tabs []string
	for i, p := range m.pages {
		style := tabStyle
		if i == m.current {
			style = currentStyle
		}
		tabs = append(tabs, style.Render(fmt.Sprintf(" %d %s ", i+1, p.name)))
	}
	row := strings.Join(tabs, " ")
	switch t := m.page().table; {
	case m.typing:
		row += "  /" + t.filter + "█"
	case t.filter != "":
		row += "  /" + t.filter
	}
	if m.paused {
		row += "  " + styles[warning].Render("paused")
	}
	return row
}

// tableRows are the header and the lines.
func (m *model) tableRows() []string {
	p := m.page()
	lines := p.table.shown()
	switch {
	case !p.readOnce && m.err == nil:
		return []string{styles[faint].Render("…")}
	case len(p.table.lines) == 0 && m.err == nil:
		return []string{p.none}
	case len(lines) == 0:
		return []string{fmt.Sprintf("No line has %q; Esc shows all.", p.table.filter)}
	}
	part, selected := p.table.window(lines, m.rowsShown())
	widths := p.table.widths(part)
	rows := []string{p.table.headerRow(widths)}
	for i, l := range part {
		rows = append(rows, p.table.row(l, widths, i == selected))
	}
	return rows
}

// widths are those of the columns, for these lines.
func (t *table) widths(lines []line) []int {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = ansi.StringWidth(c.title) + 1 // an arrow
		for _, l := range lines {
			widths[i] = max(widths[i], ansi.StringWidth(l.cells[i].text))
		}
	}
	return widths
}

func (t *table) headerRow(widths []int) string {
	var cells []string
	for i, c := range t.columns {
		title := c.title
		if i == t.by {
			title += map[bool]string{false: "↓", true: "↑"}[t.reverse]
		}
		cells = append(cells, headerStyle.Render(aligned(title, widths[i], c.right)))
	}
	return strings.Join(cells, strings.Repeat(" ", columnGap))
}

// row is a line; the selected one is one bar, without colours in it.
func (t *table) row(l line, widths []int, selected bool) string {
	var cells []string
	for i, c := range l.cells {
		text := aligned(c.text, widths[i], t.columns[i].right)
		if !selected {
			text = styles[c.tone].Render(text)
		}
		cells = append(cells, text)
	}
	row := strings.Join(cells, strings.Repeat(" ", columnGap))
	if selected {
		return selectedStyle.Render(row)
	}
	return row
}

func aligned(text string, width int, right bool) string {
	blanks := strings.Repeat(" ", max(width-ansi.StringWidth(text), 0))
	if right {
		return blanks + text
	}
	return text + blanks
}

func helpRows() []string {
	var rows []string
	for _, k := range keyHelp {
		rows = append(rows, "  "+aligned(k[0], 16, false)+k[1])
	}
	return rows
}

// detailRow is what more there is to say of the selected line, or of what was typed.
func (m *model) detailRow() string {
	if m.message != "" {
		return styles[warning].Render(m.message)
	}
	l, _ := m.page().table.selected()
	return styles[faint].Render(l.detail)
}

func (m *model) footRow() string {
	t := &m.page().table
	shown := fmt.Sprintf("lines: %d", len(t.lines))
	if t.filter != "" {
		shown = fmt.Sprintf("lines: %d of %d", len(t.shown()), len(t.lines))
	}
	return styles[faint].Render(fmt.Sprintf("%s, every %s · t trace  m monitor  c capture  s sort  / filter  Space pause  ? help  q quit", shown, m.interval))
}
