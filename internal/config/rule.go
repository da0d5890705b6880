package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// rule is what the tags of a field say about its value.
type rule struct {
	about            string // the description
	hint             string
	enum             []string
	minimum, maximum uint64
	minItems         int
	preset           string // the default, "" without one
}

// field is one field of a struct of the file's shape.
type field struct {
	name     string
	index    []int // also of embedded structs
	required bool
	rule
}

// fieldsOf reads the tags of a struct. A mistake in them is one of ours, which
// every test that parses anything meets, hence the panics below.
func fieldsOf(t reflect.Type) []field {
	fields := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Type == reflect.TypeFor[located]() || !f.IsExported() && !f.Anonymous {
			continue
		}
		if f.Anonymous {
			for _, inner := range fieldsOf(f.Type) {
				inner.index = append([]int{i}, inner.index...)
				fields = append(fields, inner)
			}
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields = append(fields, field{
			name:     name,
			index:    f.Index,
			required: options != "omitempty",
			rule:     ruleOf(f.Tag),
		})
	}
	return fields
}

func ruleOf(tag reflect.StructTag) rule {
	r := rule{about: tag.Get("jsonschema_description"), hint: tag.Get("hint"), maximum: math.MaxUint32}
	for item := range strings.SplitSeq(tag.Get("jsonschema"), ",") {
		key, value, _ := strings.Cut(item, "=")
		switch key {
		case "default":
			r.preset = value
		case "enum":
			r.enum = append(r.enum, value)
		case "minimum":
			r.minimum = number(value)
		case "maximum":
			r.maximum = number(value)
		case "minItems":
			r.minItems = int(number(value))
		}
	}
	return r
}

func number(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("config: a struct tag wants a number, has %q", text))
	}
	return n
}

// setDefaults fills a field that was left out; in a struct, all of its fields.
func (d *decoder) setDefaults(v reflect.Value, r rule) {
	if s, ok := v.Addr().Interface().(scalar); ok {
		if r.preset != "" {
			if p := s.parse(r.preset); p != nil {
				panic("config: default: " + p.message)
			}
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, f := range d.fieldsOf(v.Type()) {
			d.setDefaults(v.FieldByIndex(f.index), f.rule)
		}
	case reflect.String:
		v.SetString(r.preset)
	case reflect.Bool:
		v.SetBool(r.preset == "true")
	case reflect.Uint16, reflect.Uint32:
		if r.preset != "" {
			v.SetUint(number(r.preset))
		}
	}
}

func names(fields []field) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.name
	}
	return out
}
