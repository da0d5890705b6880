package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/kube/internal/commandline"
	"github.com/selvage/selvage/kube/test/guide"
)

// TestGuide runs the commands that docs/guide/kubernetes-migrate.md shows. Lines of their output come in that order,
// blanks count as one, and "..." stands for anything.
func TestGuide(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	shown := guide.Commands(t, filepath.Join(root, "docs/guide/kubernetes-migrate.md"))
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(root, "kube"), filepath.Join(dir, "kube")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	ran, compared := 0, 0
	for _, c := range shown {
		args, is := strings.CutPrefix(c.Line, "selvage-kube ")
		if !is {
			t.Errorf("not run: %s", c.Line)
			continue
		}
		ran++
		var out, errs strings.Builder
		status := self.Run(t.Context(), &commands{}, strings.Fields(args), &commandline.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		if want := strings.Contains(c.Shown, "nothing is written"); (status != commandline.ExitOK) != want {
			t.Errorf("%s: status %d\n%s", c.Line, status, errs.String())
		}
		guide.InOrder(t, c.Line, c.Shown, out.String()+errs.String())
		if written, is := strings.CutPrefix(c.After, "\n\nEach object in `selvage.yaml` says what it was made of, and what of that it lacks:\n\n```text\n"); is {
			made, err := os.ReadFile("selvage.yaml")
			if err != nil {
				t.Fatal(err)
			}
			written, _, _ = strings.Cut(written, "```")
			guide.InOrder(t, "selvage.yaml", written, string(made))
			compared++
		}
	}
	if ran != 3 || compared != 1 {
		t.Errorf("%d commands ran, and %d files were compared", ran, compared)
	}
}
