package result

import (
	"encoding/json"
	"fmt"

	"github.com/invopop/jsonschema"
)

// JSONSchema returns the JSON Schema (draft 2020-12) of the document of version Schema,
// indented, for those who read results with other tools. It comes from the types that Read
// fills.
func JSONSchema() ([]byte, error) {
	r := jsonschema.Reflector{Anonymous: true, Mapper: asText} // no $id made of a Go import path
	s := r.Reflect(&Result{})
	s.Title = "Result of an experiment of selvage lab"
	s.Description = "Version " + Schema + ". A summary row can be computed again from the samples in the same document."
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	return append(out, '\n'), nil
}
