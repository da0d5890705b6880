// Package chart draws results for people: the shell of a page, SVG charts, and tables for a terminal.
//
// Its invariant: output is a function of the result alone. Clock, host and
// version come from the result, so the same result gives the same bytes, and the
// file asks no network for anything (its content security policy forbids it). It knows no
// experiment; what a page holds is the experiment's own.
// Do not compute figures here; that is stats, and judging them is diagnose.
package chart

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

// shared is what all pages have.
//
//go:embed shared.html
var shared string

// Page writes data, a view, by the template of its page: self-contained. It errors when the
// result is not of this version's schema or holds figures that JSON cannot carry, since the page
// carries the result itself; nothing is written then.
func Page(w io.Writer, page string, data any) error {
	t, err := template.New("page").Parse(shared + page)
	if err != nil {
		return fmt.Errorf("parse report page: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, data); err != nil {
		return fmt.Errorf("draw report: %w", err)
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
