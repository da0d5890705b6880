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
	"os"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/selvage/selvage/internal/overlay"
)

// maxFileSize bounds what is read, in bytes: room for some 60,000 static MACs.
const maxFileSize = 4 << 20

// Load reads the file at path. The error is an Errors when the file could be
// read but not used.
func Load(path string) (overlay.Edge, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return overlay.Edge{}, fmt.Errorf("configuration: %w", err)
	}
	return Parse(path, data)
}

// Parse reads the content of a file; name stands in messages for its path. The
// error is an Errors with every problem found, in the order of the file.
func Parse(name string, data []byte) (overlay.Edge, error) {
	d := &decoder{file: name, seen: map[string]Position{}, failed: map[string]bool{}}
	var doc document
	if root := d.root(data); root != nil {
		d.into(&doc, root)
		checkDocument(d, &doc)
	}
	if len(d.errs) > 0 {
		d.errs.sort()
		return overlay.Edge{}, d.errs
	}
	return doc.edge(), nil
}

// root parses the YAML and returns the node of its only document, or nil after
// reporting why there is none.
func (d *decoder) root(data []byte) ast.Node {
	start := Position{File: d.file, Line: 1, Column: 1}
	if len(data) > maxFileSize {
		d.report(start, "", fmt.Sprintf("the file is larger than %d MiB", maxFileSize>>20), "give the path of an edge's configuration")
		return nil
	}
	if at := invalidUTF8(data); at >= 0 {
		line, column := lineColumn(data[:at])
		d.report(Position{d.file, line, column}, "", "the file is not UTF-8 text", "save it as UTF-8")
		return nil
	}
	file, err := parseYAML(data)
	if err != nil {
		pos, message := start, err.Error()
		var syntax yaml.Error
		if errors.As(err, &syntax) {
			pos, message = d.position(syntax.GetToken()), syntax.GetMessage()
		}
		d.report(pos, "", "not YAML: "+oneLine(message), "check the indentation, quotes and brackets around here")
		return nil
	}
	return d.onlyDocument(file, start)
}

// onlyDocument returns the one document of a file. Directives and empty
// documents after a last "---" do not count.
func (d *decoder) onlyDocument(file *ast.File, start Position) ast.Node {
	var root ast.Node
	for _, doc := range file.Docs {
		if _, directive := doc.Body.(*ast.DirectiveNode); doc.Body == nil || directive {
			continue
		}
		if root != nil {
			d.report(d.positionOf(doc.Body), "", "a second document begins here", "give each edge a file of its own")
			return nil
		}
		root = doc.Body
	}
	if root == nil {
		d.report(start, "", "the file is empty", "see examples/host-a.yaml for a configuration")
	}
	return root
}

// parseYAML keeps a panic of the YAML parser, which is not ours, from ending a
// running edge that reads its file again.
func parseYAML(data []byte) (file *ast.File, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			file, err = nil, fmt.Errorf("the parser gave up: %v", cause)
		}
	}()
	return parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
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
