package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each promise of SECURITY.md names tests, and there are such tests.
func TestPromisesAreTested(t *testing.T) {
	const root = "../.."
	declared := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range function.FindAllStringSubmatch(string(text), -1) {
			declared[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test\\w+)`")
	promises := 0
	for line := range strings.Lines(readFile(t, "SECURITY.md")) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || strings.HasPrefix(cells[1], "-") || strings.TrimSpace(cells[1]) == "Promise" {
			continue
		}
		promises++
		tests := named.FindAllStringSubmatch(cells[2], -1)
		if len(tests) == 0 {
			t.Errorf("no test shows that%s", cells[1])
		}
		for _, m := range tests {
			if !declared[m[1]] {
				t.Errorf("there is no test %s", m[1])
			}
		}
	}
	if promises < 20 {
		t.Errorf("%d promises", promises)
	}
}
