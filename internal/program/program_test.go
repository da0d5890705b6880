package program

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write makes a program of a shell script.
func write(t *testing.T, path, script string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestFind(t *testing.T) {
	const name = "selvage-test-other"
	bin := t.TempDir()
	path := filepath.Join(bin, name)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	if got, err := Find(t.Context(), name); err == nil || !strings.Contains(err.Error(), "there is no program "+name+" beside ") {
		t.Errorf("without it: %q, %v", got, err)
	}
	for script, want := range map[string]string{
		"echo '" + Line(name) + "'":      "",
		"echo '" + Line("another") + "'": "another build",
		"echo " + name + " v0":           `it is "` + name + ` v0" and should be "` + Line(name) + `"`,
		"exit 3":                         path + " --version: exit status 3",
		"kill -9 $$":                     "killed",
	} {
		write(t, path, script)
		got, err := Find(t.Context(), name)
		if want == "" && (err != nil || got != path) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %q, %v; want %q", script, got, err, want)
		}
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := Path(name); err == nil {
		t.Errorf("a file that is no program is taken for one: %s", got)
	}
}

// The one beside this program goes before that of $PATH.
func TestBeside(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, name := t.TempDir(), filepath.Base(own) // which is beside itself
	write(t, filepath.Join(bin, name), "true")
	t.Setenv("PATH", bin)
	if got, err := Path(name); err != nil || got != own {
		t.Errorf("%q, %v; want %s", got, err, own)
	}
}

func TestLine(t *testing.T) {
	if line := Line("x"); !strings.HasPrefix(line, "x "+Version()+" (") || strings.Contains(line, "\n") {
		t.Errorf("%q", line)
	}
}
