package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	problems "github.com/selvage/selvage/internal/problem"
)

// Position is a place in a file; lines and columns count from 1. A live object is a place without lines.
type Position struct {
	File   string
	Line   int
	Column int
}

// String returns the form that editors and terminals make clickable; of what stands in no file it is what it is.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Error is one problem of a configuration.
type Error struct {
	Position
	// Path names the field, as in spec.segments[1].vni; "" is the file itself.
	Path    string
	Message string
	Hint    string // what to do about it; may be empty
}

// Error returns "file:line:column: path: message; hint" on one line.
func (e Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Position.String() + ": ")
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Message)
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Errors are all problems of one file, in its order.
type Errors []Error

// mostPrinted is how many problems of a configuration are printed. Who mends these and asks again learns of the others.
const mostPrinted = 100

// Error returns one line for each problem, and for many how many more there are.
func (e Errors) Error() string {
	var lines []string
	for _, one := range e[:min(len(e), mostPrinted)] {
		lines = append(lines, one.Error())
	}
	if more := len(e) - len(lines); more == 1 {
		lines = append(lines, e[mostPrinted].Error())
	} else if more > 1 {
		lines = append(lines, fmt.Sprintf("and %s more", problems.Grouped(more)))
	}
	return strings.Join(lines, "\n")
}

func (e Errors) sort() {
	slices.SortStableFunc(e, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// oneLine keeps a message of the YAML parser from spreading over several lines.
func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(s, "\t", `\t`)), " ")
}
