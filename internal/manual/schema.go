package manual

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"
)

// File is what a schema does not say of a configuration file.
type File struct {
	Name, Brief string
	Parts       []Part // before the fields
	SeeAlso     []string
}

// FilePage is the page of a configuration file: its fields in the order of the schema, each object in a
// subsection by its place in the file.
func FilePage(schema []byte, f File, e Edition) (Page, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return Page{}, fmt.Errorf("schema of %s: %w", f.Name, err)
	}
	const section = "5"
	var r roff
	r.title(f.Name, section, e)
	r.section("NAME")
	r.line(escape(f.Name) + ` \- ` + escape(f.Brief))
	r.parts(f.Parts)
	r.section("FIELDS")
	r.object("", &s)
	r.seeAlso(f.SeeAlso)
	return Page{f.Name, section, r.String()}, nil
}

// object writes the fields of an object, then those that have fields themselves.
func (r *roff) object(at string, s *jsonschema.Schema) {
	if at != "" {
		r.subsection(at)
		r.paragraph(sentence(s.Description))
	}
	type inner struct {
		at     string
		schema *jsonschema.Schema
	}
	var objects []inner
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		place := strings.TrimPrefix(at+"."+p.Key, ".")
		object, list := objectIn(p.Value)
		if object == nil {
			r.term(bold(p.Key)+" ("+escape(about(p.Key, p.Value, s.Required))+")", sentence(p.Value.Description))
			continue
		}
		r.term(bold(p.Key)+" ("+escape(about(p.Key, p.Value, s.Required))+")", "See "+place+list+" below.")
		if object.Description == "" {
			object.Description = p.Value.Description
		}
		objects = append(objects, inner{place + list, object})
	}
	for _, o := range objects {
		r.object(o.at, o.schema)
	}
}

// objectIn is the schema whose fields stand in a field: its own, or that of the items of a list, for
// which list is "[]", or of the values by name, "{}".
func objectIn(s *jsonschema.Schema) (object *jsonschema.Schema, list string) {
	switch {
	case s == nil:
		return nil, ""
	case s.Properties.Len() > 0:
		return s, ""
	case s.Items != nil:
		object, list = objectIn(s.Items)
		return object, "[]" + list
	case s.AdditionalProperties != nil && s.AdditionalProperties.Properties.Len() > 0:
		return s.AdditionalProperties, "{}"
	}
	return nil, ""
}

// about is a field's type, whether it must be there, its words and its default.
func about(name string, s *jsonschema.Schema, required []string) string {
	parts := []string{typeOf(s)}
	if slices.Contains(required, name) {
		parts = append(parts, "required")
	}
	if words := enum(s); words != "" {
		parts = append(parts, words)
	}
	if s.Default != nil {
		parts = append(parts, fmt.Sprintf("default %v", s.Default))
	}
	return strings.Join(parts, ", ")
}

func typeOf(s *jsonschema.Schema) string {
	switch {
	case s.Type == "array" && s.Items != nil:
		return "list of " + typeOf(s.Items) + "s"
	case s.Type != "":
		return s.Type
	}
	var types []string
	for _, one := range slices.Concat(s.OneOf, s.AnyOf) {
		if one.Type != "" && !slices.Contains(types, one.Type) {
			types = append(types, one.Type)
		}
	}
	if len(types) == 0 {
		return "value"
	}
	return strings.Join(types, " or ")
}

// enum are the words that a field may be.
func enum(s *jsonschema.Schema) string {
	if len(s.Enum) == 0 && s.Items != nil {
		s = s.Items
	}
	var words []string
	for _, word := range s.Enum {
		words = append(words, fmt.Sprint(word))
	}
	return strings.Join(words, "|")
}

// sentence is a description of the schema as one.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}
