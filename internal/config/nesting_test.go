package config

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

// blocks is a mapping in block style of so many levels.
func blocks(levels int) string {
	var b strings.Builder
	for i := range levels {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String() + strings.Repeat(" ", levels) + "b"
}

// What is nested deeply is refused before the parser has it, and what only looks so is not.
func TestNesting(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		deep bool
	}{
		"lists in brackets":            {"a: " + strings.Repeat("[", maxNesting) + "b" + strings.Repeat("]", maxNesting), true},
		"as many as may be":            {strings.Repeat("[", maxNesting) + "b" + strings.Repeat("]", maxNesting), false},
		"mappings in brackets":         {strings.Repeat("{a: ", maxNesting+1), true},
		"lists in one line":            {strings.Repeat("- ", maxNesting+1) + "b", true},
		"as many in one line":          {strings.Repeat("- ", maxNesting) + "b", false},
		"mappings in block style":      {blocks(maxNesting + 1), true},
		"as many in block style":       {blocks(maxNesting), false},
		"brackets within blocks":       {blocks(maxNesting-1) + "b: [[c]]", true},
		"many short ones":              {"a:\n" + strings.Repeat("- [[b], {c: d}]\n- e:\n    f: [g]\n", 1000), false},
		"in quotes":                    {"a: \"" + strings.Repeat("[", 1000) + "\"\nb: '" + strings.Repeat("- ", 1000) + "'", false},
		"in a comment":                 {"a: b # " + strings.Repeat("[", 1000) + "\n#" + strings.Repeat("{", 1000), false},
		"in a text of several lines":   {"a: |\n  " + strings.Repeat("[", 1000) + "\n" + strings.ReplaceAll("  "+blocks(200), "\n", "\n  ") + "\nb: c", false},
		"within a word":                {"a: b" + strings.Repeat("[", 1000), false},
		"a quote that is never closed": {strings.Repeat("[\"", 1) + strings.Repeat("[", 1000), false},
		"documents":                    {strings.Repeat("- - - b\n---\n", 200), false},
	} {
		_, err := parseYAML([]byte(c.text))
		var deep *tooDeepError
		if errors.As(err, &deep) != c.deep {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// As much of these as the parser may get took gigabytes, or hours.
func TestDeepTextsAreCheap(t *testing.T) {
	for _, c := range []struct {
		unit string
		size int
	}{
		{"[", maxParserSize}, {"{a: ", maxParserSize}, {"- ", maxParserSize}, {"? ", maxParserSize}, {"a: ", maxParserSize}, {"[a, ", maxParserSize},
		{"- a: [", maxParserSize}, {"]", maxParserSize}, {"&a ", maxParserSize}, {"'a' ", maxParserSize},
		{"[", 100 << 10}, {"- ", 100 << 10}, {"&a ", 200 << 10}, {"*a ", 200 << 10}, {"!a ", 200 << 10}, {"]", 200 << 10},
	} {
		text := []byte(strings.Repeat(c.unit, c.size/len(c.unit)))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Parse("edge.yaml", text)
		runtime.ReadMemStats(&after)
		if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; err == nil || allocated > 150 {
			t.Errorf("%d bytes of %q: %d MiB allocated, %.100v", c.size, c.unit, allocated, err)
		}
	}
}

// Of many problems some are printed, and how many there are.
func TestManyProblems(t *testing.T) {
	errs := make(Errors, 299_901)
	lines := strings.Split(errs.Error(), "\n")
	if last := lines[len(lines)-1]; len(lines) != mostPrinted+1 || last != "and 299,801 more" {
		t.Errorf("%d lines, the last is %q", len(lines), last)
	}
	if n := strings.Count(errs[:mostPrinted+1].Error(), "\n"); n != mostPrinted {
		t.Errorf("%d lines for one problem more than are printed", n+1)
	}
}
