package topo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	const config = "apiVersion: selvage.dev/v1alpha1\nkind: Edge\n"
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ program, want, failure string }{
		"itself":       {own, config, ""},
		"same":         {build(t, `{"properties": {"apiVersion": {"enum": ["selvage.dev/v1alpha1"]}}}`), config, ""},
		"both":         {build(t, `{"properties": {"apiVersion": {"enum": ["selvage.dev/v9", "selvage.dev/v1alpha1"]}}}`), config, ""},
		"other":        {build(t, `{"properties": {"apiVersion": {"enum": ["selvage.dev/v9"]}}}`), "", "reads configurations of selvage.dev/v9; this lab writes selvage.dev/v1alpha1"},
		"no version":   {build(t, `{}`), "", "names no apiVersion"},
		"no schema":    {build(t, `none`), "", "schema of"},
		"no such file": {"/nowhere/selvage", "", "ask /nowhere/selvage for its schema"},
	} {
		got, err := translate(t.Context(), c.program, config)
		if got != c.want || (err == nil) != (c.failure == "") || err != nil && !strings.Contains(err.Error(), c.failure) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// What the lab writes for an edge is in the version that it says it writes.
func TestConfigurationsAreOfTheVersion(t *testing.T) {
	for name, config := range map[string]string{
		"two hosts": SelvageHalf{}.Config("a", Site{Host: &Host{}}),
	} {
		if !strings.HasPrefix(config, "apiVersion: "+apiVersion+"\n") {
			t.Errorf("%s: %s", name, config)
		}
	}
}
