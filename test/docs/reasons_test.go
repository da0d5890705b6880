package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// said is a word of bpf/core/reasons.h with its text.
type said struct{ Name, Text string }

var (
	entry = regexp.MustCompile(`X\((\w+),\s*\\?\s*"([^"]*)"\)`)
	row   = regexp.MustCompile("^\\| `([a-z0-9-]+)` \\| ([^|]+) \\|")
)

// TestReasons checks that docs/reference/reasons.md lists exactly the words of
// bpf/core/reasons.h, in its order.
func TestReasons(t *testing.T) {
	header, document := readFile(t, "bpf/core/reasons.h"), readFile(t, "docs/reference/reasons.md")
	for _, c := range []struct {
		list, heading string
		hidden        []string // that no user meets
	}{
		{"REASONS", "## Drop reasons", []string{"forwarded"}},
		{"SLOWS", "## Slow-path reasons", []string{"fast"}},
		{"EVENTS", "## Events", nil},
	} {
		want := slices.DeleteFunc(inHeader(header, c.list), func(s said) bool { return slices.Contains(c.hidden, s.Name) })
		got := inSection(document, c.heading)
		if d := cmp.Diff(want, got); d != "" || len(want) == 0 {
			t.Errorf("docs/reference/reasons.md, %q (-%s of bpf/core/reasons.h +document):\n%s", c.heading, c.list, d)
		}
	}
}

// inHeader returns one X-macro list, its names as the program spells them.
func inHeader(header, list string) (words []said) {
	_, body, _ := strings.Cut(header, "#define "+list+"(X)")
	body, _, _ = strings.Cut(body, "\n\n")
	for _, m := range entry.FindAllStringSubmatch(body, -1) {
		words = append(words, said{strings.ReplaceAll(strings.ToLower(m[1]), "_", "-"), m[2]})
	}
	return words
}

// inSection returns the rows `name` | text of the tables below a heading, up to
// the next heading.
func inSection(document, heading string) (words []said) {
	_, body, _ := strings.Cut(document, "\n"+heading+"\n")
	body, _, _ = strings.Cut(body, "\n#")
	for line := range strings.Lines(body) {
		if m := row.FindStringSubmatch(line); m != nil {
			words = append(words, said{m[1], strings.TrimSpace(m[2])})
		}
	}
	return words
}
