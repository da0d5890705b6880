package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// decoder walks a YAML tree and a Go value together, collecting problems and
// remembering where every path was written.
type decoder struct {
	file   string
	seen   map[string]Position
	failed map[string]bool // paths with a problem
	errs   Errors
}

func (d *decoder) report(at Position, path, message, hint string) {
	d.failed[path] = true
	d.errs = append(d.errs, Error{Position: at, Path: path, Message: message, Hint: hint})
}

// at returns where path was written or, for one that was left out, the nearest
// of its parents.
func (d *decoder) at(path string) Position {
	for {
		if pos, ok := d.seen[path]; ok {
			return pos
		}
		end := strings.LastIndexAny(path, ".[")
		if end < 0 {
			return Position{d.file, 1, 1}
		}
		path = path[:end]
	}
}

func (d *decoder) position(tk *token.Token) Position {
	if tk == nil || tk.Position == nil {
		return Position{d.file, 1, 1}
	}
	return Position{d.file, max(1, tk.Position.Line), max(1, tk.Position.Column)}
}

// positionOf is where a node begins; the token of a block mapping is only its
// first colon.
func (d *decoder) positionOf(n ast.Node) Position {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return d.position(m.Values[0].Key.GetToken())
	}
	if v, ok := n.(*ast.MappingValueNode); ok {
		return d.position(v.Key.GetToken())
	}
	return d.position(n.GetToken())
}

// into decodes the root of a file.
func (d *decoder) into(doc *document, root ast.Node) {
	d.value(root, "", reflect.ValueOf(doc).Elem(), rule{})
}

// value decodes n into v, which r limits.
func (d *decoder) value(n ast.Node, path string, v reflect.Value, r rule) {
	d.seen[path] = d.positionOf(n)
	if !d.plain(n, path) {
		return
	}
	if s, ok := v.Addr().Interface().(scalar); ok {
		d.scalar(n, path, s, r)
		return
	}
	switch v.Kind() {
	case reflect.Pointer: // nil when it is left out
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, path, v.Elem(), r)
	case reflect.Struct:
		d.structure(n, path, v, r)
	case reflect.Slice:
		d.list(n, path, v, r)
	case reflect.String:
		d.word(n, path, v, r)
	case reflect.Bool:
		if b, ok := n.(*ast.BoolNode); ok {
			v.SetBool(b.Value)
		} else {
			d.wrongType(n, path, "true or false", r)
		}
	default:
		d.integer(n, path, v, r)
	}
}

// plain refuses what makes a value mean something else than what is written.
func (d *decoder) plain(n ast.Node, path string) bool {
	var what string
	switch n.(type) {
	case *ast.AnchorNode:
		what = "an anchor"
	case *ast.AliasNode:
		what = "an alias"
	case *ast.TagNode:
		what = "a tag"
	default:
		return true
	}
	d.report(d.positionOf(n), path, what+" is not supported here", "write the value out")
	return false
}

func (d *decoder) structure(n ast.Node, path string, v reflect.Value, r rule) {
	fields := fieldsOf(v.Type())
	entries, ok := mapping(n)
	if !ok {
		r.about = "fields here: " + strings.Join(names(fields), ", ")
		d.wrongType(n, path, "a mapping", r)
		return
	}
	lines, meant := map[string]int{}, map[string]bool{}
	for _, e := range entries {
		name, ok := d.fieldName(e.Key, path)
		if !ok {
			continue
		}
		at := d.position(e.Key.GetToken())
		if first, twice := lines[name]; twice {
			d.report(at, join(path, name), fmt.Sprintf("appears twice, first in line %d", first), "keep one")
			continue
		}
		lines[name] = at.Line
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if i < 0 {
			d.report(at, join(path, name), "unknown field", suggest(name, names(fields), "fields here"))
			d.failed[path] = true // it may be one that a check misses
			meant[nearest(name, names(fields))] = true
			continue
		}
		d.value(e.Value, join(path, name), v.FieldByIndex(fields[i].index), fields[i].rule)
	}
	for _, f := range fields {
		_, given := lines[f.name]
		switch {
		case given || meant[f.name]:
		case f.required:
			d.report(d.seen[path], join(path, f.name), "is missing", "add it: "+f.about)
		default:
			setDefaults(v.FieldByIndex(f.index), f.rule)
		}
	}
}

// fieldName returns the text of a key and reports keys that are not words.
func (d *decoder) fieldName(key ast.MapKeyNode, path string) (string, bool) {
	switch k := key.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.MergeKeyNode:
		d.report(d.position(key.GetToken()), path, "a merge key is not supported here", "write the fields out")
	default:
		d.report(d.position(key.GetToken()), path, "the name of a field must be a plain word", "write it like name: value")
	}
	return "", false
}

func (d *decoder) list(n ast.Node, path string, v reflect.Value, r rule) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.wrongType(n, path, "a list", r)
		return
	}
	if len(seq.Values) < r.minItems {
		d.report(d.positionOf(n), path, "the list is empty", "give "+r.about)
	}
	v.Set(reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values)))
	for i, item := range seq.Values {
		d.value(item, fmt.Sprintf("%s[%d]", path, i), v.Index(i), rule{})
	}
}

func (d *decoder) scalar(n ast.Node, path string, s scalar, r rule) {
	text, ok := stringOf(n)
	if _, takesIntegers := s.(integral); !ok && takesIntegers {
		_, ok = n.(*ast.IntegerNode)
		text = n.GetToken().Value
	}
	if !ok {
		d.wrongType(n, path, "a string", r)
		return
	}
	if p := s.parse(text); p != nil {
		d.report(d.positionOf(n), path, p.message, p.hint)
	}
}

func (d *decoder) word(n ast.Node, path string, v reflect.Value, r rule) {
	text, ok := stringOf(n)
	switch {
	case !ok:
		d.wrongType(n, path, "a string", r)
	case len(r.enum) > 0 && !slices.Contains(r.enum, text):
		d.report(d.positionOf(n), path, fmt.Sprintf("%q is not supported", text), "write "+strings.Join(r.enum, " or "))
	default:
		v.SetString(text)
	}
}

func (d *decoder) integer(n ast.Node, path string, v reflect.Value, r rule) {
	text, ok := digits(n)
	if !ok {
		d.wrongType(n, path, "an integer", r)
		return
	}
	if len(text) > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9' {
		d.report(d.positionOf(n), path, text+" is octal to some and decimal to others", "remove the leading zeros")
		return
	}
	value, err := strconv.ParseUint(text, 0, 64)
	if err != nil || value < r.minimum || value > r.maximum {
		d.report(d.positionOf(n), path, fmt.Sprintf("%s is outside %d to %d", text, r.minimum, r.maximum), r.hint)
		return
	}
	v.SetUint(value)
}

// wrongType reports that n should have been want, with the cause where one is
// likely, else with the description of the field.
func (d *decoder) wrongType(n ast.Node, path, want string, r rule) {
	have, hint := kindOf(n), r.about
	switch {
	case have == "nothing":
		hint = "give a value or remove the line"
	case want == "a string" && have != "a list" && have != "a mapping":
		hint = "put it in quotes"
	case want == "a list" && have != "a mapping":
		hint = "put it in brackets: [" + oneLine(n.String()) + "]"
	case want != "a mapping" && isQuoted(n):
		hint = "remove the quotes"
	case want == "true or false":
		hint = "write true or false"
	}
	d.report(d.positionOf(n), path, fmt.Sprintf("must be %s, is %s", want, have), hint)
}

// mapping returns the entries of a node that is a mapping.
func mapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch m := n.(type) {
	case *ast.MappingNode:
		return m.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{m}, true
	}
	return nil, false
}

func stringOf(n ast.Node) (string, bool) {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value, true
	case *ast.LiteralNode:
		return s.Value.Value, true
	}
	return "", false
}

// digits returns the text of an integer. To the YAML parser one of more than 64
// bits is a string.
func digits(n ast.Node) (string, bool) {
	text := n.GetToken().Value
	if _, ok := n.(*ast.IntegerNode); ok {
		return text, true
	}
	_, ok := n.(*ast.StringNode)
	return text, ok && !isQuoted(n) && text != "" && strings.Trim(text, "0123456789") == ""
}

func isQuoted(n ast.Node) bool {
	t := n.GetToken().Type
	return t == token.SingleQuoteType || t == token.DoubleQuoteType
}

func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		return "a string"
	case *ast.IntegerNode:
		return "an integer"
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return "a boolean"
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	}
	return "nothing"
}

// join appends a field to a path, quoting what would make it ambiguous.
func join(path, name string) string {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !isWord(r) }) {
		name = strconv.Quote(name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

func isWord(r rune) bool {
	return r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}
