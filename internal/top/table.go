package top

import (
	"cmp"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/printable"
)

// table is the lines of a page, in an order, with one of them selected. What is selected stays so while lines come and go.
type table struct {
	columns []column
	by      int // the column by which they are sorted, -1: as they were read
	reverse bool
	filter  string

	lines  []line
	chosen string // key of the line that is selected
	first  int    // the one on top of the screen
}

// set takes the lines of a new reading.
func (t *table) set(lines []line) {
	for i := range lines {
		lines[i].detail = printable.Line(lines[i].detail)
		for j := range lines[i].cells {
			lines[i].cells[j].text = printable.Line(lines[i].cells[j].text)
		}
	}
	t.lines = lines
}

// shown are the lines that the filter chooses, in order.
func (t *table) shown() []line {
	var lines []line
	for _, l := range t.lines {
		if t.filter == "" || strings.Contains(strings.ToLower(l.text()), strings.ToLower(t.filter)) {
			lines = append(lines, l)
		}
	}
	if t.by >= 0 {
		slices.SortStableFunc(lines, func(a, b line) int { return compare(a.cells[t.by], b.cells[t.by]) })
	}
	if t.reverse {
		slices.Reverse(lines)
	}
	return lines
}

// compare has the larger number first, and texts in their order.
func compare(a, b cell) int { return cmp.Or(cmp.Compare(b.by, a.by), cmp.Compare(a.text, b.text)) }

// text is all that a line says.
func (l line) text() string {
	var b strings.Builder
	for _, c := range l.cells {
		b.WriteString(c.text)
		b.WriteByte(' ')
	}
	b.WriteString(l.detail)
	return b.String()
}

// index is that of the selected line among those shown: the first where it is gone.
func (t *table) index(lines []line) int {
	return max(0, slices.IndexFunc(lines, func(l line) bool { return l.key == t.chosen }))
}

// selected is the line that is.
func (t *table) selected() (line, bool) {
	lines := t.shown()
	if len(lines) == 0 {
		return line{}, false
	}
	return lines[t.index(lines)], true
}

// key obeys a key that moves or sorts, with so many lines on the screen.
func (t *table) key(k string, rows int) {
	switch k {
	case "up", "k":
		t.move(-1)
	case "down", "j":
		t.move(1)
	case "pgup":
		t.move(-rows)
	case "pgdown":
		t.move(rows)
	case "home", "g":
		t.move(-len(t.lines))
	case "end", "G":
		t.move(len(t.lines))
	case "s":
		if t.by++; t.by >= len(t.columns) {
			t.by = -1
		}
	case "r":
		t.reverse = !t.reverse
	}
}

// move selects another line.
func (t *table) move(by int) {
	lines := t.shown()
	if len(lines) > 0 {
		t.chosen = lines[min(max(t.index(lines)+by, 0), len(lines)-1)].key
	}
}

// window is the part of the lines that so many rows show, with the selected one in it, and its place there.
func (t *table) window(lines []line, rows int) (part []line, selected int) {
	if len(lines) == 0 || rows <= 0 {
		return nil, 0
	}
	at := t.index(lines)
	t.first = min(max(t.first, at-rows+1, 0), at, max(len(lines)-rows, 0))
	return lines[t.first:min(t.first+rows, len(lines))], at - t.first
}
