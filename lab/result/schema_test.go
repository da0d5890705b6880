package result

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite result.schema.json")

const schemaFile = "result.schema.json"

func TestSchemaFile(t *testing.T) {
	got, err := JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(schemaFile, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(schemaFile)
	if err != nil || string(want) != string(got) {
		t.Errorf("%s is not the schema of the types (%v): run go test -update, and change Schema if older results are misread", schemaFile, err)
	}
}

// The recorded results of all experiments are what the schema says, and Read reads them.
func TestRecordedResults(t *testing.T) {
	files, err := filepath.Glob("../experiment/*/testdata/*.json.gz")
	if err != nil || len(files) < 11 {
		t.Fatalf("only %d recorded results: %v", len(files), err)
	}
	var schema node
	decode(t, schemaFile, &schema)
	for _, file := range files {
		r, err := ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		var b bytes.Buffer
		if err := Write(&b, r); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		var document any
		if err := json.Unmarshal(b.Bytes(), &document); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if err := schema.check(schema.Defs, "", document); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	wrong := map[string]any{"schema": Schema, "experiment": 1.0}
	if err := schema.check(schema.Defs, "", wrong); err == nil {
		t.Error("a document without samples is a result")
	}
}

func decode(t *testing.T, file string, v any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// node is as much of JSON Schema as the reflector writes.
type node struct {
	Ref        string          `json:"$ref"`
	Defs       map[string]node `json:"$defs"`
	Type       string          `json:"type"`
	Properties map[string]node `json:"properties"`
	Required   []string        `json:"required"`
	Items      *node           `json:"items"`
	OneOf      []node          `json:"oneOf"`
	AnyOf      []node          `json:"anyOf"`
	Additional json.RawMessage `json:"additionalProperties"`
}

// check says where a value is not what n says.
func (n node) check(defs map[string]node, at string, v any) error {
	if n.Ref != "" {
		return defs[strings.TrimPrefix(n.Ref, "#/$defs/")].check(defs, at, v)
	}
	if some := slices.Concat(n.OneOf, n.AnyOf); len(some) > 0 {
		var errs []error
		for _, one := range some {
			errs = append(errs, one.check(defs, at, v))
		}
		if slices.Contains(errs, nil) {
			return nil
		}
		return errs[0]
	}
	kinds := map[string]bool{}
	switch x := v.(type) {
	case nil:
		kinds["null"] = true
	case bool:
		kinds["boolean"] = true
	case float64:
		kinds["number"], kinds["integer"] = true, x == float64(int64(x))
	case string:
		kinds["string"] = true
	case []any:
		kinds["array"] = true
		if n.Items == nil {
			return fmt.Errorf("%s is a list", at)
		}
		for i, e := range x {
			if err := n.Items.check(defs, fmt.Sprintf("%s[%d]", at, i), e); err != nil {
				return err
			}
		}
	case map[string]any:
		kinds["object"] = true
		if n.Type != "object" {
			return fmt.Errorf("%s is an object", at)
		}
		if err := n.checkObject(defs, at, x); err != nil {
			return err
		}
	}
	if n.Type != "" && !kinds[n.Type] {
		return fmt.Errorf("%s is %T, want %s", at, v, n.Type)
	}
	return nil
}

func (n node) checkObject(defs map[string]node, at string, object map[string]any) error {
	for _, name := range n.Required {
		if _, ok := object[name]; !ok {
			return fmt.Errorf("%s has no %s", at, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		property, ok := n.Properties[name]
		if !ok {
			if string(n.Additional) == "false" || len(n.Additional) == 0 {
				return fmt.Errorf("%s has %s, which is unknown", at, name)
			}
			if err := json.Unmarshal(n.Additional, &property); err != nil {
				return err
			}
		}
		if err := property.check(defs, at+"."+name, object[name]); err != nil {
			return err
		}
	}
	return nil
}
