package config

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/invopop/jsonschema"
)

// Schema returns the JSON Schema (draft 2020-12) of the file, indented, for
// editors and other tools. It comes from the structs that Parse fills, so it
// knows the same fields; what compares fields with each other only Parse checks.
func Schema() ([]byte, error) {
	r := jsonschema.Reflector{
		Anonymous:      true, // no $id made of a Go import path
		DoNotReference: true,
	}
	s := r.Reflect(&document{})
	s.Title = "Selvage edge"
	s.Description = "Configuration of one overlay network edge on one host."
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	return append(out, '\n'), nil
}

// JSONSchemaExtend adds the default that the reflector drops from a field that
// may be a string or an integer.
func (fdb) JSONSchemaExtend(s *jsonschema.Schema) {
	if ageing, ok := s.Properties.Get("ageing"); ok {
		f, _ := reflect.TypeFor[fdb]().FieldByName("Ageing")
		ageing.Default = ruleOf(f.Tag).preset
	}
}
