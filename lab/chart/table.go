package chart

import (
	"fmt"
	"io"
	"strings"

	"github.com/selvage/selvage/lab/result"
)

// tableWidth is the width at which the verdict is wrapped, in columns.
const tableWidth = 96

// WriteText ends a text with the verdict and its findings, and writes it.
func WriteText(w io.Writer, b *strings.Builder, v result.Verdict) error {
	Wrap(b, "", v.String())
	for _, f := range v.Findings {
		b.WriteByte('\n')
		Wrap(b, "  ", f.String())
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// Wrap writes s in lines of at most tableWidth, later lines indented.
func Wrap(b *strings.Builder, indent, s string) {
	column := 0
	for i, word := range strings.Fields(s) {
		n := len([]rune(word))
		switch {
		case i == 0:
		case column+1+n > tableWidth:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	b.WriteByte('\n')
}
