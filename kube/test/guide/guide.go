// Package guide compares what guides show of commands with what these say.
package guide

import (
	"os"
	"strings"
	"testing"
)

// Command is one that a guide shows, in a block of its own.
type Command struct {
	Line  string // as it is typed
	Shown string // its output: lines in their order, "..." for anything
	After string // what of the guide follows the block
}

// Commands are those of a guide's blocks of a console.
func Commands(t *testing.T, file string) (list []Command) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(text), "```console\n")[1:] {
		block, after, _ := strings.Cut(part, "```")
		line, shown, _ := strings.Cut(block, "\n")
		list = append(list, Command{strings.TrimPrefix(line, "$ "), shown, after})
	}
	return list
}

// InOrder says whether what a guide shows comes in a text. Blanks count as one.
func InOrder(t *testing.T, at, shown, text string) {
	t.Helper()
	rest := strings.Join(strings.Fields(text), " ")
	for want := range strings.SplitSeq(strings.TrimSpace(shown), "...") {
		want = strings.Join(strings.Fields(want), " ")
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Errorf("%s: %q does not come in\n%s", at, want, rest)
		}
		rest = after
	}
}
