package printable

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// hostile texts, as a line and as text of several lines.
var hostile = []struct{ text, line, lines string }{
	{"büro 1 → 2", "büro 1 → 2", "büro 1 → 2"},
	{"\b\x1b]0;title\a\x1b[2J", "��]0;title��[2J", "��]0;title��[2J"},
	{"a\r\nselvage:\tb", "a  selvage: b", "a \nselvage:\tb"},
	{"\u009b2J\u0085\u2028\u202e\u2066x\x7f", "�2J  ��x�", "�2J  ��x�"},
	{"eth\xff\xe2\x82", "eth���", "eth���"},
}

func TestHostile(t *testing.T) {
	for _, c := range hostile {
		if got := Line(c.text); got != c.line || !utf8.ValidString(got) {
			t.Errorf("line of %q: %q", c.text, got)
		}
		for size := 1; size <= len(c.text); size++ { // however the text is cut
			var out bytes.Buffer
			w := NewWriter(NewWriter(&out))
			for rest := []byte(c.text + "."); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				if n, err := w.Write(rest[:min(size, len(rest))]); err != nil || n != min(size, len(rest)) {
					t.Fatal(n, err)
				}
			}
			if got := out.String(); got != c.lines+"." {
				t.Errorf("%q in pieces of %d: %q", c.text, size, got)
			}
		}
		document, err := json.Marshal(map[string][]string{c.text: {c.text, `\u001b`, `"quoted" \n`}})
		if err != nil {
			t.Fatal(err)
		}
		var read map[string][]string
		if err := json.Unmarshal(JSON(document), &read); err != nil {
			t.Fatalf("%s: %v", JSON(document), err)
		}
		for key, got := range read {
			if strings.Contains(c.text, "\t") != strings.Contains(key, "\t") {
				t.Errorf("tabs of %q: %q", c.text, key)
			}
			key, got[0] = strings.ReplaceAll(key, "\t", " "), strings.ReplaceAll(got[0], "\t", " ")
			if key != Line(key) || len(got) != 3 || got[0] != key || got[1] != `\u001b` || got[2] != `"quoted" \n` {
				t.Errorf("%q in JSON: %q: %q", c.text, key, got)
			}
		}
	}
}

// What is too long ends between two characters.
func TestBounded(t *testing.T) {
	if got := Bounded(strings.Repeat("ä", 20), 12); got != "ääää…" {
		t.Errorf("%q", got)
	}
}
