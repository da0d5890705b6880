package docs

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/event"
)

var updateEvents = flag.Bool("update-events", false, "write the table of docs/reference/events.md")

// TestEventKinds checks that docs/reference/events.md has the list of internal/event, in its order.
func TestEventKinds(t *testing.T) {
	const path, marker = "docs/reference/events.md", "<!-- generated from internal/event/kind.go: go test ./test/docs -run TestEventKinds -update-events -->\n"
	document := readFile(t, path)
	before, got, found := strings.Cut(document, marker)
	if !found {
		t.Fatalf("%s has no line %s", path, marker)
	}
	var want strings.Builder
	want.WriteString("\n| kind | object | busy | what happened |\n|---|---|---|---|\n")
	for _, a := range event.Kinds() {
		object, busy := "edge", ""
		if a.Object != "" {
			object = a.Object
		}
		if a.Busy {
			busy = "busy"
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", a.Kind, object, busy, a.Text)
	}
	if *updateEvents {
		if err := os.WriteFile("../../"+path, []byte(before+marker+want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(want.String(), got); d != "" {
		t.Errorf("%s (-code +document): go test ./test/docs -run TestEventKinds -update-events writes it\n%s", path, d)
	}
}
