package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sources are the files that we write, by suffix.
func sources(t *testing.T, suffixes ...string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == ".git" || name == "bin" || name == "results" || strings.HasSuffix(path, "bpf/include")):
			return filepath.SkipDir
		case !entry.IsDir() && slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) }) && !strings.HasSuffix(name, "_bpfel.go"):
			files = append(files, path)
		}
		return nil
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files of %v: %v", len(files), suffixes, err)
	}
	return files
}

func relative(t *testing.T, path string) string {
	t.Helper()
	name, err := filepath.Rel(root, path)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// One spelling of a word: the right one, and others that mean the same. Commands and
// options of other programs keep theirs.
var spellings = []struct {
	right  string
	others *regexp.Regexp
}{
	{"learned", regexp.MustCompile(`(?i)\blearnt\b`)},
	{"neighbour", regexp.MustCompile(`(?i)\bneighbors?\b`)},
	{"behaviour", regexp.MustCompile(`(?i)\bbehaviors?\b`)},
	{"data path", regexp.MustCompile(`(?i)\bdata-?planes\b|\bdata-paths?\b`)},
	{"fall back", regexp.MustCompile(`(?i)\bfallbacked\b`)},
	{"advertise", regexp.MustCompile(`(?i)\badvertiz`)},
}

// ofOthers is where others' spellings stand: in commands and code of other programs.
var ofOthers = regexp.MustCompile("`[^`]*`|\"[^\"]*\"|^    .*$|^\\s*(ip|bridge|vtysh|neighbor|router|show) .*$")

func TestOneSpelling(t *testing.T) {
	for _, path := range sources(t, ".md") {
		name := relative(t, path)
		if name == "docs/reference/glossary.md" || strings.HasPrefix(name, "docs/decisions/") {
			continue
		}
		fenced := false
		for i, line := range strings.Split(readFile(t, name), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			}
			if fenced {
				continue
			}
			for _, s := range spellings {
				if m := s.others.FindString(ofOthers.ReplaceAllString(line, "")); m != "" {
					t.Errorf("%s:%d: %q is %q here", name, i+1, m, s.right)
				}
			}
		}
	}
}
