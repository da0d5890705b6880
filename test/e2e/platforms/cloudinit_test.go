package platforms

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/test/tier"
)

// What cloud-init writes is a good configuration, and is that of the service it starts.
func TestCloudInit(t *testing.T) {
	text, err := os.ReadFile(deploy + "/cloud-init/user-data")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "#cloud-config\n") {
		t.Error("cloud-init knows its format by the first line, #cloud-config")
	}
	var data struct {
		Files []struct{ Path, Permissions, Content string } `yaml:"write_files"`
		Runs  [][]string                                    `yaml:"runcmd"`
	}
	if err := yaml.UnmarshalWithOptions(text, &data, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if len(data.Files) != 1 || len(data.Runs) == 0 {
		t.Fatalf("%+v", data)
	}
	file := data.Files[0]
	edge, err := config.Parse(file.Path, []byte(file.Content))
	if err != nil {
		t.Fatal(err)
	}
	if want := "/etc/selvage/" + edge.Name + ".yaml"; file.Path != want {
		t.Errorf("the file is %s, and that of selvage@%s is %s", file.Path, edge.Name, want)
	}
	if last := strings.Join(data.Runs[len(data.Runs)-1], " "); last != "systemctl enable --now selvage@"+edge.Name {
		t.Errorf("it ends with %s", last)
	}
}

// cloud-init itself finds no fault. It is unpacked, not installed: an installed one takes over the machine at its
// next boot.
func TestCloudInitSchema(t *testing.T) {
	tier.Long(t, "TestCloudInit, but for cloud-init's own schema")
	tier.Root(t) // apt's lists
	dir := t.TempDir()
	archives := filepath.Join(dir, "archives")
	root := filepath.Join(dir, "root")
	if err := os.MkdirAll(filepath.Join(archives, "partial"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "apt-get", "-y", "-q", "--download-only", "--no-install-recommends", "-o", "APT::Sandbox::User=root", "-o", "Dir::Cache::archives="+archives, "install", "cloud-init").CombinedOutput()
	if err != nil {
		t.Skipf("apt-get has no cloud-init: %v: %s", err, out)
	}
	packages, err := filepath.Glob(archives + "/*.deb")
	if err != nil || len(packages) == 0 {
		t.Fatalf("%v: nothing was downloaded: %s", err, out)
	}
	for _, p := range packages {
		if out, err := exec.CommandContext(t.Context(), "dpkg", "-x", p, root).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", p, err, out)
		}
	}
	check := func(file string) (string, error) {
		c := exec.CommandContext(t.Context(), "/usr/bin/python3", root+"/usr/bin/cloud-init", "schema", "--config-file", file)
		c.Env = append(os.Environ(), "PYTHONPATH="+root+"/usr/lib/python3/dist-packages")
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := check(deploy + "/cloud-init/user-data"); err != nil || !strings.Contains(out, "Valid") {
		t.Errorf("%v: %s", err, out)
	}
	wrong := filepath.Join(dir, "wrong")
	if err := os.WriteFile(wrong, []byte("#cloud-config\nwrite_files: 7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := check(wrong); err == nil {
		t.Errorf("a wrong file is valid: %s", out)
	}
}
