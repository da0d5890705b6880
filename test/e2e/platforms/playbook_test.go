package platforms

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/selvage/selvage/internal/config"
)

// All files of the role are YAML, its tasks name their modules in full, and what the variables of the group make for a
// host is a good configuration.
func TestPlaybookFiles(t *testing.T) {
	files, err := filepath.Glob(deploy + "/ansible/roles/selvage/*/main.yaml")
	if err != nil || len(files) != 4 {
		t.Fatalf("%v: %v", files, err)
	}
	for _, file := range append(files, deploy+"/ansible/site.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var content any
		if err := yaml.Unmarshal(text, &content); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for line := range strings.Lines(string(text)) {
			for _, module := range []string{"copy:", "command:", "file:", "package:", "systemd:", "template:", "service:"} {
				if strings.TrimSpace(line) == module {
					t.Errorf("%s: %q: write ansible.builtin.%s", file, line, module)
				}
			}
		}
	}
	text, err := os.ReadFile(deploy + "/ansible/group_vars/edges.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// What Ansible would put there.
	filled := strings.NewReplacer(`"{{ inventory_hostname }}"`, "host-a", `"{{ selvage_edge }}"`, "host-a", `"{{ selvage_tep }}"`, "192.0.2.1",
		`"{{ groups['edges'] | map('extract', hostvars, 'selvage_tep') | difference([selvage_tep]) | sort }}"`, "[192.0.2.2]").Replace(string(text))
	var variables struct {
		Config map[string]any `yaml:"selvage_config"`
	}
	if err := yaml.Unmarshal([]byte(filled), &variables); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(variables.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.Parse("host-a.yaml", out); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
