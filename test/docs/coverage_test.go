package docs

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// covered are the commands of commands.txt, and whether a document shows them.
type covered map[string]bool

// coverage reads commands.txt and checks that the tests it names exist.
func coverage(t *testing.T) covered {
	t.Helper()
	text, err := os.ReadFile("commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	c := covered{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		command, where, ok := strings.Cut(line, " -> ")
		place := strings.Fields(where)
		if !ok || len(place) != 2 {
			t.Errorf("commands.txt: %q: want COMMAND -> FOLDER TEST", line)
			continue
		}
		if !hasTest(t, place[0], place[1]) {
			t.Errorf("commands.txt: %s has no %s, which should run %q", place[0], place[1], command)
		}
		c[strings.Join(strings.Fields(command), " ")] = false
	}
	return c
}

func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	function := regexp.MustCompile(`(?m)^func ` + regexp.QuoteMeta(name) + `\(t \*testing\.T\)`)
	return slices.ContainsFunc(files, func(file string) bool {
		source, err := os.ReadFile(file)
		return err == nil && function.Match(source)
	})
}

// by says whether a line covers the command, perhaps with more arguments, and
// marks the longest such line as used.
func (c covered) by(words []string) bool {
	for n := len(words); n > 0; n-- {
		command := strings.Join(words[:n], " ")
		if _, ok := c[command]; ok {
			c[command] = true
			return true
		}
	}
	return false
}

func (c covered) unused() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for command := range maps.Keys(c) {
			if !c[command] && !yield(command) {
				return
			}
		}
	})
}
