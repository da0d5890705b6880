package config

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Of a file that is JSON both readers make the same nodes, with the same positions.
func TestJSON(t *testing.T) {
	policy, err := os.ReadFile("../../examples/policy.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		string(policy), generated(50, true), `{}`, ` [ ] `, `"ä"`, "{\"a\": [1, true, false,\n  \"x\\ty\\u00e4\"],\"b\":{ \"ä\" : \"ö\", \"c\":[[]]}}",
		`{"a": "\/", "b": "\ud83d\ude00"}`, "{\"a\"\n: null, \"b\": -12.5,\n\t\"c\": []}",
	} {
		got, err := readJSON([]byte(text))
		if err != nil {
			t.Errorf("%v\n%s", err, text)
		}
		file, err := parseYAML([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if want := fromYAML(file.Docs[0].Body); !cmp.Equal(want, got, cmp.AllowUnexported(node{})) {
			t.Errorf("other nodes than the YAML parser's:\n%s\nof\n%q", cmp.Diff(want, got, cmp.AllowUnexported(node{})), text)
		}
	}
}
