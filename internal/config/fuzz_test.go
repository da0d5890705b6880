package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzParse: whatever the bytes, Parse returns an edge or problems that each
// have a position in the file, and never panics.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		edge, err := Parse("f", data)
		if err == nil {
			if edge.Name == "" || !edge.Underlay.TEP.IsValid() || len(edge.Underlay.Interfaces) == 0 {
				t.Errorf("an incomplete edge without an error: %+v", edge)
			}
			return
		}
		var list Errors
		if !errors.As(err, &list) || len(list) == 0 {
			t.Fatalf("got %T %v, want Errors", err, err)
		}
		lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + 1
		for _, one := range list {
			if one.File != "f" || one.Line < 1 || one.Line > lines || one.Column < 1 || one.Message == "" {
				t.Errorf("%#v has no position among %d lines", one, lines)
			}
			if strings.ContainsAny(one.Error(), "\n\r") {
				t.Errorf("%q is not one line", one.Error())
			}
		}
	})
}
