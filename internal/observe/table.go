package observe

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/selvage/selvage/internal/printable"
)

// Writer is where text goes, and how wide it may be.
type Writer struct {
	io.Writer
	// Wide tables have all columns, and each row on one line.
	Wide bool
	// Rates stand beside counters unless it is nil.
	Rates *Rates
}

const (
	// lineWidth is that of a table that is not wide, in characters.
	lineWidth = 120
	// columnGap is between two columns.
	columnGap = "  "
	// narrowest is how far a column of words is narrowed before other cells are broken.
	narrowest = 24
)

// table aligns one row of cells for each of rows under header, the columns of which are
// one word each. One that begins with + is of wide tables only. An empty cell becomes "-".
// Where a row would be too long, its cells go on below themselves.
func table[T any](w Writer, header string, rows []T, cells func(T) []any) error {
	columns := strings.Fields(header)
	all := make([][]any, len(rows))
	for i, row := range rows {
		all[i] = cells(row)
	}
	lines := make([][]string, len(rows)+1)
	for i, c := range columns {
		name, isWide := strings.CutPrefix(c, "+")
		if isWide && !w.Wide {
			continue
		}
		lines[0] = append(lines[0], name)
		isCounter := w.Rates != nil && slices.ContainsFunc(all, func(row []any) bool {
			_, is := row[i].(counter)
			return is
		})
		if isCounter {
			lines[0] = append(lines[0], "/S")
		}
		for r, row := range all {
			lines[r+1] = append(lines[r+1], cmp.Or(printable.Line(fmt.Sprint(row[i])), "-"))
			if isCounter {
				lines[r+1] = append(lines[r+1], cellRate(w.Rates, keyOf(header, row)+"\x00"+name, row[i]))
			}
		}
	}
	widths := columnWidths(lines)
	if !w.Wide {
		narrow(widths, lines)
	}
	var b strings.Builder
	for _, line := range lines {
		writeRow(&b, line, widths)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func cellRate(r *Rates, key string, cell any) string {
	c, ok := cell.(counter)
	if !ok {
		return "-"
	}
	return cmp.Or(r.rate(key, c.n), "-")
}

func columnWidths(lines [][]string) []int {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, text := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	return widths
}

// breaks are the characters behind which a cell may go on below, the best first; in the
// end it may anywhere.
var breaks = []string{" ", " ,;>/]", " ,;>/]:-._", ""}

// narrow makes columns narrower, the widest first, until a row fits in a line.
func narrow(widths []int, lines [][]string) {
	excess := len(columnGap)*(len(widths)-1) - lineWidth
	for _, w := range widths {
		excess += w
	}
	for _, after := range breaks {
		if excess <= 0 {
			return
		}
		least := leastWidths(widths, lines, after)
		for excess > 0 {
			widest := -1
			for i, w := range widths {
				if w > least[i] && (widest < 0 || w > widths[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				break
			}
			widths[widest]--
			excess--
		}
	}
}

// leastWidths are how narrow columns can be when cells are broken behind those characters.
func leastWidths(widths []int, lines [][]string, after string) []int {
	least := make([]int, len(widths))
	for row, line := range lines {
		for i, text := range line {
			switch {
			case row == 0:
				least[i] = utf8.RuneCountInString(text)
			case after != "":
				for _, piece := range pieces(text, after) {
					least[i] = max(least[i], utf8.RuneCountInString(strings.TrimRight(piece, " ")))
				}
			}
		}
	}
	for i, w := range widths {
		if after != "" {
			least[i] = max(least[i], min(w, narrowest))
		}
	}
	return least
}

// pieces are the parts of text that stay together.
func pieces(text, after string) (list []string) {
	for text != "" {
		end := strings.IndexAny(text, after) + 1
		if end == 0 {
			end = len(text)
		}
		list, text = append(list, text[:end]), text[end:]
	}
	return list
}

// writeRow writes one row, on several lines where cells are wider than their columns.
func writeRow(b *strings.Builder, cells []string, widths []int) {
	rests := slices.Clone(cells)
	for more := true; more; {
		more = false
		pending := 0
		for i, rest := range rests {
			part, left := cut(rest, widths[i])
			rests[i], more = left, more || left != ""
			if part != "" {
				b.WriteString(strings.Repeat(" ", pending))
				b.WriteString(part)
				pending = 0
			}
			pending += widths[i] - utf8.RuneCountInString(part) + len(columnGap)
		}
		b.WriteByte('\n')
	}
}

// cut is the beginning of text that fits in width, broken where it reads best, and the rest.
func cut(text string, width int) (part, rest string) {
	if utf8.RuneCountInString(text) <= width {
		return text, ""
	}
	for _, after := range breaks[:len(breaks)-1] {
		used, end := 0, 0
		for _, piece := range pieces(text, after) {
			if used+utf8.RuneCountInString(strings.TrimRight(piece, " ")) > width {
				break
			}
			used, end = used+utf8.RuneCountInString(piece), end+len(piece)
		}
		if end > 0 {
			return strings.TrimRight(text[:end], " "), text[end:]
		}
	}
	runes := []rune(text)
	return string(runes[:width]), string(runes[width:])
}

// fill writes text after label, at most lineWidth wide, and the lines after the first below
// the text.
func fill(w Writer, label, text string) error {
	text = printable.Line(text)
	width := lineWidth - utf8.RuneCountInString(label)
	if w.Wide {
		width = utf8.RuneCountInString(text)
	}
	for first := true; first || text != ""; first = false {
		part, rest := cut(text, width)
		if _, err := fmt.Fprintf(w, "%s%s\n", label, part); err != nil {
			return err
		}
		text, label = rest, strings.Repeat(" ", utf8.RuneCountInString(label))
	}
	return nil
}

// fields are lines of a label and a text, aligned. A line without a label goes on with the
// one before.
type fields []struct{ label, text string }

func (f *fields) add(label, format string, args ...any) {
	if label != "" {
		label += ":"
	}
	*f = append(*f, struct{ label, text string }{label, fmt.Sprintf(format, args...)})
}

// list adds a line for each text, and one that says none where there is none.
func (f *fields) list(label string, texts []string) {
	if len(texts) == 0 {
		f.add(label, "none")
	}
	for _, text := range texts {
		f.add(label, "%s", text)
		label = ""
	}
}

func (f *fields) write(w Writer) error {
	widest := 0
	for _, line := range *f {
		widest = max(widest, utf8.RuneCountInString(line.label))
	}
	for _, line := range *f {
		if err := fill(w, fmt.Sprintf("%-*s%s", widest, line.label, columnGap), line.text); err != nil {
			return err
		}
	}
	return nil
}
