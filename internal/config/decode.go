package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// decoder walks the nodes of a file and a Go value together, collecting problems and
// remembering where every path was written.
type decoder struct {
	file   *fileErrors
	path   []byte // of the value that is being decoded
	shapes map[reflect.Type][]field
	within int // values around this one that know their positions themselves
}

func newDecoder(file string) *decoder {
	return &decoder{file: newFileErrors(file), shapes: map[reflect.Type][]field{}}
}

// wrong reports what is wrong with n, the value that is being decoded.
func (d *decoder) wrong(n *node, message, hint string) {
	d.file.report(d.position(n), string(d.path), message, hint)
}

func (d *decoder) position(n *node) Position {
	return Position{d.file.name, int(n.line), int(n.column)}
}

// field goes to a field of the value that is being decoded, and back leaves it.
func (d *decoder) field(name string) (back int) {
	back = len(d.path)
	d.path = appendName(d.path, name)
	return back
}

func (d *decoder) item(i int) (back int) {
	back = len(d.path)
	d.path = append(strconv.AppendInt(append(d.path, '['), int64(i), 10), ']')
	return back
}

func (d *decoder) back(to int) { d.path = d.path[:to] }

func (d *decoder) fieldsOf(t reflect.Type) []field {
	fields, ok := d.shapes[t]
	if !ok {
		fields = fieldsOf(t)
		d.shapes[t] = fields
	}
	return fields
}

// located is for values of which there may be a hundred thousand: those remember where
// they were written themselves, and what is inside them is not in fileErrors.seen.
type located struct{ line, column int32 }

func (l *located) locate(n *node) { l.line, l.column = n.line, n.column }

// either is a scalar that may also be written as a mapping.
type either interface {
	scalar
	// form returns a pointer to the struct of the mapping's fields.
	form() any
}

// value decodes n into v, which r limits.
func (d *decoder) value(n *node, v reflect.Value, r rule) {
	self := v.Addr().Interface()
	if l, ok := self.(interface{ locate(*node) }); ok {
		l.locate(n)
		d.within++
		defer func() { d.within-- }()
	} else if d.within == 0 {
		d.file.seen[string(d.path)] = d.position(n)
	}
	if !d.plain(n) {
		return
	}
	if own, ok := self.(interface{ decode(*decoder, *node, rule) }); ok {
		own.decode(d, n, r)
		return
	}
	if s, ok := self.(scalar); ok {
		if e, ok := s.(either); ok && n.kind == kindMapping {
			d.structure(n, reflect.ValueOf(e.form()).Elem(), r)
			return
		}
		d.scalar(n, s, r)
		return
	}
	switch v.Kind() {
	case reflect.Pointer: // nil when it is left out
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), r)
	case reflect.Struct:
		d.structure(n, v, r)
	case reflect.Slice:
		d.list(n, v, r)
	case reflect.String:
		d.word(n, v, r)
	case reflect.Bool:
		if n.kind == kindBool {
			v.SetBool(n.text == "true")
		} else {
			d.wrongType(n, "true or false", r)
		}
	default:
		d.integer(n, v, r)
	}
}

// plain refuses what makes a value mean something else than what is written.
func (d *decoder) plain(n *node) bool {
	switch n.kind {
	case kindAnchor, kindAlias, kindTag:
		d.wrong(n, n.kind.String()+" is not supported here", "write the value out")
		return false
	}
	return true
}

func (d *decoder) structure(n *node, v reflect.Value, r rule) {
	fields := d.fieldsOf(v.Type())
	if n.kind != kindMapping {
		r.about = "fields here: " + strings.Join(names(fields), ", ")
		d.wrongType(n, "a mapping", r)
		return
	}
	lines, unknown := make([]int32, len(fields)), map[string]int32(nil)
	for j := 0; j < len(n.items); j += 2 {
		key, value := &n.items[j], &n.items[j+1]
		if !d.isName(key) {
			continue
		}
		back := d.field(key.text)
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == key.text })
		first := unknown[key.text]
		if i >= 0 {
			first = lines[i]
		}
		switch {
		case first > 0:
			d.wrong(key, fmt.Sprintf("appears twice, first in line %d", first), "keep one")
		case i < 0:
			unknown = d.unknownField(key, fields, lines, unknown)
			d.file.failed[string(d.path[:back])] = true // it may be one that a check misses
		default:
			lines[i] = key.line
			d.value(value, v.FieldByIndex(fields[i].index), fields[i].rule)
		}
		d.back(back)
	}
	d.leftOut(n, v, fields, lines)
}

// unknownField reports one, and takes the field that it was meant to be as given.
func (d *decoder) unknownField(key *node, fields []field, lines []int32, unknown map[string]int32) map[string]int32 {
	d.wrong(key, "unknown field", suggest(key.text, names(fields), "fields here"))
	meant := nearest(key.text, names(fields))
	if i := slices.IndexFunc(fields, func(f field) bool { return f.name == meant }); i >= 0 && lines[i] == 0 {
		lines[i] = -1
	}
	if unknown == nil {
		unknown = map[string]int32{}
	}
	unknown[key.text] = key.line
	return unknown
}

// leftOut gives the fields of v that are in no line their defaults.
func (d *decoder) leftOut(n *node, v reflect.Value, fields []field, lines []int32) {
	for i, f := range fields {
		switch {
		case lines[i] != 0:
		case f.required:
			back := d.field(f.name)
			d.wrong(n, "is missing", "add it: "+f.about)
			d.back(back)
		default:
			d.setDefaults(v.FieldByIndex(f.index), f.rule)
		}
	}
}

// isName reports keys that are not words.
func (d *decoder) isName(key *node) bool {
	if key.kind == kindString {
		return true
	}
	message, hint := "the name of a field must be a plain word", "write it like name: value"
	switch {
	case d.within > 0 && key.kind == kindInteger:
		hint = "put an address with colons in quotes"
	case key.kind == kindMerge:
		message, hint = "a merge key is not supported here", "write the fields out"
	}
	d.wrong(key, message, hint)
	return false
}

func (d *decoder) list(n *node, v reflect.Value, r rule) {
	if n.kind != kindList {
		d.wrongType(n, "a list", r)
		return
	}
	if len(n.items) < r.minItems {
		d.wrong(n, "the list is empty", "give "+r.about)
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.items), len(n.items)))
	for i := range n.items {
		back := d.item(i)
		d.value(&n.items[i], v.Index(i), rule{})
		d.back(back)
	}
}

func (d *decoder) scalar(n *node, s scalar, r rule) {
	text, ok := n.string()
	if _, takesIntegers := s.(integral); takesIntegers && n.kind == kindInteger {
		text, ok = n.text, true
	}
	if !ok {
		d.wrongType(n, "a string", r)
		return
	}
	if p := s.parse(strings.Clone(text)); p != nil {
		d.wrong(n, p.message, p.hint)
	}
}

func (d *decoder) word(n *node, v reflect.Value, r rule) {
	text, ok := n.string()
	known := slices.Index(r.enum, text)
	switch {
	case !ok:
		d.wrongType(n, "a string", r)
	case len(r.enum) == 0:
		v.SetString(strings.Clone(text))
	case known < 0:
		d.wrong(n, fmt.Sprintf("%q is not supported", text), "write "+strings.Join(r.enum, " or "))
	default:
		v.SetString(r.enum[known])
	}
}

func (d *decoder) integer(n *node, v reflect.Value, r rule) {
	text, ok := digits(n)
	if !ok {
		d.wrongType(n, "an integer", r)
		return
	}
	if len(text) > 1 && text[0] == '0' && isDigit(text[1]) {
		d.wrong(n, text+" is octal to some parsers and decimal to others", "remove the leading zeros")
		return
	}
	value, err := strconv.ParseUint(text, 0, 64)
	if err != nil || value < r.minimum || value > r.maximum {
		d.wrong(n, fmt.Sprintf("%s is outside %d to %d", text, r.minimum, r.maximum), r.hint)
		return
	}
	v.SetUint(value)
}

// wrongType reports that n should have been want, with the cause where one is
// likely, else with the description of the field.
func (d *decoder) wrongType(n *node, want string, r rule) {
	hint := r.about
	switch {
	case n.kind == kindNothing:
		hint = "give a value or remove the line"
	case want == "a string" && n.kind != kindList && n.kind != kindMapping:
		hint = "put it in quotes"
	case want == "a string" && n.kind == kindMapping && hint == "":
		hint = "put what has a colon in quotes"
	case want == "a list" && n.kind != kindMapping:
		hint = "put it in brackets: [" + oneLine(n.text) + "]"
	case want != "a mapping" && n.quoted:
		hint = "remove the quotes"
	case want == "true or false":
		hint = "write true or false"
	}
	d.wrong(n, fmt.Sprintf("must be %s, is %s", want, n.kind), hint)
}

// digits returns the text of an integer. To the YAML parser one of more than 64
// bits is a string.
func digits(n *node) (string, bool) {
	if n.kind == kindInteger {
		return n.text, true
	}
	return n.text, n.kind == kindString && !n.quoted && n.text != "" && strings.Trim(n.text, "0123456789") == ""
}

// appendName appends a field to a path, quoting what would make it ambiguous.
func appendName(path []byte, name string) []byte {
	if len(path) > 0 {
		path = append(path, '.')
	}
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !isWord(r) }) {
		return strconv.AppendQuote(path, name)
	}
	return append(path, name...)
}

func isWord(r rune) bool {
	return r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}
