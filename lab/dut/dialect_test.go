package dut

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/lab/topo"
)

// build is a program that prints a schema.
func build(t *testing.T, schema string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "selvage")
	if err := os.WriteFile(path, []byte("#!/bin/sh\ntest \"$1\" = schema || exit 1\ncat <<'END'\n"+schema+"\nEND\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTranslate(t *testing.T) {
	const text = "apiVersion: selvage.dev/v1alpha2\nkind: Edge\nmetadata: {name: a}\nspec: {underlay: {interfaces: [eth0], tep: 192.0.2.1, bfd: {}}}\n"
	previous := strings.NewReplacer("v1alpha2", "v1alpha1", "bfd", "liveness").Replace(text)
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ program, want, failure string }{
		"itself":       {own, text, ""},
		"same":         {build(t, `{"properties": {"apiVersion": {"enum": ["selvage.dev/v1alpha2"]}}}`), text, ""},
		"previous":     {build(t, `{"properties": {"apiVersion": {"enum": ["selvage.dev/v1alpha1"]}}}`), previous, ""},
		"both":         {build(t, `{"properties": {"apiVersion": {"enum": ["selvage.dev/v9", "selvage.dev/v1alpha2"]}}}`), text, ""},
		"other":        {build(t, `{"properties": {"apiVersion": {"enum": ["selvage.dev/v9"]}}}`), "", "reads configurations of selvage.dev/v9; this lab writes selvage.dev/v1alpha2 and selvage.dev/v1alpha1"},
		"no version":   {build(t, `{}`), "", "names no apiVersion"},
		"no schema":    {build(t, `none`), "", "schema of"},
		"no such file": {"/nowhere/selvage", "", "ask /nowhere/selvage for its schema"},
	} {
		got, err := translate(t.Context(), c.program, text)
		if got != c.want || (err == nil) != (c.failure == "") || err != nil && !strings.Contains(err.Error(), c.failure) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A build is asked once, and again when another takes its place.
func TestBuildsAreAskedOnce(t *testing.T) {
	path := build(t, `{"properties": {"apiVersion": {"enum": ["first"]}}}`)
	asked := filepath.Join(t.TempDir(), "asked")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("\n"), []byte("\necho >>"+asked+"\n"), 1)
	for _, name := range []string{"first", "first", "another"} {
		if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte("first"), []byte(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if name == "first" { // as if it had not been written again
			if err := os.Chtimes(path, time.Time{}, time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := readVersions(t.Context(), path); err != nil || !slices.Equal(got, []string{name}) {
			t.Errorf("%v, %v, want %s", got, err, name)
		}
	}
	if times, err := os.ReadFile(asked); err != nil || len(times) != 2 {
		t.Errorf("asked %d times, want 2: %v", len(times), err)
	}
}

// What the lab writes for an edge is in the version that it says it writes.
func TestConfigurationsAreOfTheVersion(t *testing.T) {
	for name, text := range map[string]string{
		"two hosts": SelvageHalf{}.Config("a", topo.Site{Host: &topo.Host{}}),
	} {
		if !strings.HasPrefix(text, "apiVersion: "+config.Version+"\n") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
