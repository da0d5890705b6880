package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/kube/internal/commandline"
)

// TestGuide runs the commands that docs/guide/kubernetes-migrate.md shows. Lines of their output come in that order,
// blanks count as one, and "..." stands for anything.
func TestGuide(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs/guide/kubernetes-migrate.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(root, "kube"), filepath.Join(dir, "kube")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	ran, compared := 0, 0
	for _, part := range strings.Split(string(text), "```console\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		line, shown, _ := strings.Cut(block, "\n")
		args, is := strings.CutPrefix(line, "$ selvage-kube ")
		if !is {
			t.Errorf("not run: %s", line)
			continue
		}
		ran++
		var out, errs strings.Builder
		status := self.Run(t.Context(), &commands{}, strings.Fields(args), &commandline.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		if want := strings.Contains(shown, "nothing is written"); (status != commandline.ExitOK) != want {
			t.Errorf("%s: status %d\n%s", line, status, errs.String())
		}
		inOrder(t, line, shown, out.String()+errs.String())
		if written, is := strings.CutPrefix(part[len(block):], "```\n\nEach object in `selvage.yaml` says what it was made of, and what of that it lacks:\n\n```text\n"); is {
			made, err := os.ReadFile("selvage.yaml")
			if err != nil {
				t.Fatal(err)
			}
			written, _, _ = strings.Cut(written, "```")
			inOrder(t, "selvage.yaml", written, string(made))
			compared++
		}
	}
	if ran != 3 || compared != 1 {
		t.Errorf("%d commands ran, and %d files were compared", ran, compared)
	}
}

// inOrder says whether what a guide shows comes in a text.
func inOrder(t *testing.T, at, shown, text string) {
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
