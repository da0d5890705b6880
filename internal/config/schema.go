package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

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

// JSONSchemaExtend adds the defaults that the reflector drops from fields that
// may be a string or an integer.
func (fdb) JSONSchemaExtend(s *jsonschema.Schema) { addDefaults[fdb](s) }

// JSONSchemaExtend does the same for fields that may be taken from the inner packet.
func (outer) JSONSchemaExtend(s *jsonschema.Schema) { addDefaults[outer](s) }

// JSONSchemaExtend does the same for the number of hops.
func (liveness) JSONSchemaExtend(s *jsonschema.Schema) { addDefaults[liveness](s) }

// JSONSchemaExtend does the same for ports, in what has them.
func (natRange) JSONSchemaExtend(s *jsonschema.Schema) { addDefaults[natRange](s) }

// JSONSchemaExtend does the same for times that may be 0.
func (bgpRestart) JSONSchemaExtend(s *jsonschema.Schema) { addDefaults[bgpRestart](s) }

// JSONSchemaExtend does the same for times that may be 0.
func (macDuplicates) JSONSchemaExtend(s *jsonschema.Schema) { addDefaults[macDuplicates](s) }
func (duplicates) JSONSchemaExtend(s *jsonschema.Schema)    { addDefaults[duplicates](s) }

// JSONSchemaExtend allows no members only where some may be added while the edge runs.
func (group) JSONSchemaExtend(s *jsonschema.Schema) {
	one := uint64(1)
	filled, live := jsonschema.NewProperties(), jsonschema.NewProperties()
	filled.Set("members", &jsonschema.Schema{MinItems: &one})
	live.Set("live", &jsonschema.Schema{Enum: []any{true}})
	s.AnyOf = []*jsonschema.Schema{{Required: []string{"members"}, Properties: filled}, {Required: []string{"live"}, Properties: live}}
}

func addDefaults[T any](s *jsonschema.Schema) {
	for _, f := range fieldsOf(reflect.TypeFor[T]()) {
		property, ok := s.Properties.Get(f.name)
		if !ok || property.Default != nil {
			continue
		}
		property.Default = f.preset
		if n, err := strconv.Atoi(f.preset); err == nil {
			property.Default = n
		}
	}
}
