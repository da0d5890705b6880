// Package config reads an edge's YAML file into the overlay model.
//
// Its one invariant: what it returns without an error is complete, in range and
// consistent, so nobody downstream checks it again; and every problem it
// reports has a position in the file. It looks at the file alone: whether an
// interface exists or an address is reachable is for the edge to find out.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/selvage/selvage/internal/overlay"
)

// Load reads the file at path, and those that it includes or that hold its secrets. The error
// is an Errors when the file could be read but not used.
func Load(path string) (overlay.Edge, error) {
	edge, _, err := LoadSource(path)
	return edge, err
}

// Parse reads the content of a file; name stands in messages for its path. The
// error is an Errors with every problem found, in the order of the file. A file that
// needs others is for Load.
func Parse(name string, data []byte) (overlay.Edge, error) {
	return parse(name, data, 0, nil)
}

// parse reads the content of a file with a mode; those that it needs are read by f, if any.
func parse(name string, data []byte, mode fs.FileMode, f *files) (overlay.Edge, error) {
	edge, _, err := parseBase(name, data, mode, f)
	return edge, err
}

// parseBase is parse, and returns what live objects are added to.
func parseBase(name string, data []byte, mode fs.FileMode, f *files) (overlay.Edge, *Base, error) {
	d := newDecoder(name)
	var doc document
	var policies []policySource
	var warnings []string
	if root := d.root(data, "examples/host-a.yaml"); root != nil {
		d.value(root, reflect.ValueOf(&doc).Elem(), rule{})
		warnings = d.secrets(&doc, f).warn(mode)
		policies = d.policies(&doc, f)
		checkDocument(d.file, &doc, policies)
	}
	d.file.errs.sort()
	for _, p := range policies {
		if p.file != d.file {
			p.file.errs.sort()
			d.file.errs = append(d.file.errs, p.file.errs...)
		}
	}
	if len(d.file.errs) > 0 {
		return overlay.Edge{}, nil, d.file.errs
	}
	edge := doc.edge(policies)
	edge.Warnings, edge.HTTP = warnings, doc.http(f)
	return edge, newBase(edge, doc, d.file, policies), nil
}

// root reads the text and returns the node of its only document, or nil after
// reporting why there is none; example is the path of a good one.
func (d *decoder) root(data []byte, example string) *node {
	start := Position{File: d.file.name, Line: 1, Column: 1}
	if len(data) > maxFileSize {
		d.file.report(start, "", fmt.Sprintf("the file is larger than %d MiB", maxFileSize>>20), "give the path of an edge's configuration")
		return nil
	}
	if at := invalidUTF8(data); at >= 0 {
		line, column := lineColumn(data[:at])
		d.file.report(Position{d.file.name, line, column}, "", "the file is not UTF-8 text", "save it as UTF-8")
		return nil
	}
	root, err := readJSON(data)
	switch {
	case err == nil:
		return &root
	case len(data) > maxParserSize:
		d.file.report(d.position(&root), "", fmt.Sprintf("the file is larger than %d MiB and not JSON: %s", maxParserSize>>20, oneLine(err.Error())),
			largeHint)
		return nil
	}
	file, err := parseYAML(data)
	if err != nil {
		d.reportYAML(start, err)
		return nil
	}
	return d.onlyDocument(file, start, example)
}

// largeHint is what to do about a file that is too large for the YAML parser.
const largeHint = "write large files as JSON"

// reportYAML reports why a text is not taken; start is its beginning.
func (d *decoder) reportYAML(start Position, err error) {
	place := func(at *token.Position) Position {
		if at == nil {
			return start
		}
		return Position{start.File, max(1, at.Line), max(1, at.Column)}
	}
	var (
		deep   *tooDeepError
		syntax yaml.Error
	)
	const hint = "check the indentation, quotes and brackets around here"
	switch {
	case errors.As(err, &deep):
		d.file.report(place(&deep.at), "", fmt.Sprintf("lists and mappings are nested more than %d levels deep", maxNesting), hint)
	case errors.Is(err, errTooManyTokens):
		d.file.report(start, "", err.Error()+", and is not JSON", largeHint)
	case errors.As(err, &syntax): // its Error quotes the text, in a time that grows with the square of a line's length
		at := start
		if t := syntax.GetToken(); t != nil {
			at = place(t.Position)
		}
		d.file.report(at, "", "not YAML: "+oneLine(syntax.GetMessage()), hint)
	default:
		d.file.report(start, "", "not YAML: "+oneLine(err.Error()), hint)
	}
}

// onlyDocument returns the one document of a file. Directives and empty
// documents after a last "---" do not count.
func (d *decoder) onlyDocument(file *ast.File, start Position, example string) *node {
	var root ast.Node
	for _, doc := range file.Docs {
		if _, directive := doc.Body.(*ast.DirectiveNode); doc.Body == nil || directive {
			continue
		}
		if root != nil {
			second := fromYAML(doc.Body)
			d.file.report(d.position(&second), "", "a second document begins here", "give each edge a file of its own")
			return nil
		}
		root = doc.Body
	}
	if root == nil {
		d.file.report(start, "", "the file is empty", "see "+example+" for a configuration")
		return nil
	}
	out := fromYAML(root)
	return &out
}

// invalidUTF8 returns the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(data []byte) int {
	for at := 0; at < len(data); {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size <= 1 {
			return at
		}
		at += size
	}
	return -1
}

// lineColumn is the 1-based position just after before.
func lineColumn(before []byte) (line, column int) {
	line, column = 1, 1
	for _, r := range string(before) {
		column++
		if r == '\n' {
			line, column = line+1, 1
		}
	}
	return line, column
}
