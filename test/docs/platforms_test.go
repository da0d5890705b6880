package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// systemdLine is a section or a setting (systemd.syntax(7)).
var systemdLine = regexp.MustCompile(`^(\[[A-Z]\w*\]|[A-Z]\w*=\S.*|#.*|)$`)

// TestPlatforms parses the files of other programs that the page shows, and checks the configuration in user-data.
func TestPlatforms(t *testing.T) {
	blocks, _ := split(readFile(t, "docs/guide/platforms.md"))
	units, clouds := 0, 0
	for _, b := range blocks {
		text := strings.Join(b.lines, "\n")
		switch {
		case b.lang == "ini":
			units++
			for i, line := range b.lines {
				if !systemdLine.MatchString(line) {
					t.Errorf("platforms.md:%d: systemd does not parse %q", b.line+i+1, line)
				}
			}
		case strings.HasPrefix(text, "#cloud-config\n"):
			clouds++
			checkCloudConfig(t, text)
		}
	}
	if units < 3 || clouds != 1 {
		t.Errorf("%d files of systemd, %d of cloud-init", units, clouds)
	}
}

func checkCloudConfig(t *testing.T, text string) {
	t.Helper()
	var data struct {
		Files []struct{ Path, Permissions, Content string } `yaml:"write_files"`
		Runs  [][]string                                    `yaml:"runcmd"`
	}
	if err := yaml.UnmarshalWithOptions([]byte(text), &data, yaml.Strict()); err != nil || len(data.Files) != 1 || len(data.Runs) == 0 {
		t.Fatalf("%v: %+v", err, data)
	}
	dir, name := t.TempDir(), filepath.Base(data.Files[0].Path)
	if err := os.WriteFile(filepath.Join(dir, name), []byte(data.Files[0].Content), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, status, err := shell(t.Context(), dir, "selvage check "+name); err != nil || status != 0 {
		t.Errorf("%v\n%s", err, output)
	}
	edge := strings.TrimSuffix(name, ".yaml")
	if last := strings.Join(data.Runs[len(data.Runs)-1], " "); last != "systemctl enable --now selvage@"+edge {
		t.Errorf("it ends with %s", last)
	}
}
