package cni_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"

	"github.com/selvage/selvage/kube/internal/cni"
)

// lists are as their projects write them.
var lists = map[string]string{
	"flannel": `{
  "name": "cbr0",
  "cniVersion": "0.3.1",
  "plugins": [
    {
      "type": "flannel",
      "delegate": { "hairpinMode": true, "isDefaultGateway": true }
    },
    {
      "type": "portmap",
      "capabilities": { "portMappings": true }
    }
  ]
}
`,
	"one":           `{"cniVersion":"1.0.0","plugins":[{"type":"bridge"}],"name":"x"}`,
	"plugins first": `{"plugins" : [ {"type":"ptp", "plugins": [1, {"type": "selvage"}]} ] , "name":"x","cniVersion":"1.0.0", "n": 1.50}` + "\n",
}

// An entry comes to the first list, and goes again; all else stays byte by byte.
func TestChain(t *testing.T) {
	t.Parallel()
	for name, text := range lists {
		dir := t.TempDir()
		file := filepath.Join(dir, "10-x.conflist")
		put(t, file, text)
		put(t, filepath.Join(dir, "20-y.conflist"), lists["one"])
		for range 2 {
			must(t, cni.Chain(dir))
		}
		list, err := libcni.NetworkConfFromFile(file)
		must(t, err)
		if last := list.Plugins[len(list.Plugins)-1]; last.Network.Type != cni.Name || strings.Count(get(t, file), cni.Name) != 1 {
			t.Errorf("%s: is %s", name, get(t, file))
		}
		if i, err := os.Stat(file); err != nil || i.Mode().Perm() != 0o640 {
			t.Errorf("%s: %v, %v", name, i.Mode(), err)
		}
		for range 2 {
			must(t, cni.Unchain(dir))
		}
		if got := get(t, file); got != text {
			t.Errorf("%s: was %s, is %s", name, text, got)
		}
		if got := get(t, filepath.Join(dir, "20-y.conflist")); got != lists["one"] {
			t.Errorf("the second list is %s", got)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
			t.Errorf("%s: there is %v, %v", name, entries, err)
		}
	}
}

// An entry goes wherever it is, and however it was written.
func TestUnchain(t *testing.T) {
	t.Parallel()
	ours := `{"type": "selvage-egress", "state": "/x"}`
	for text, want := range map[string]string{
		`{"plugins":[{"type":"a"}, ` + ours + ` ,{"type":"b"}]}`: `{"plugins":[{"type":"a"} ,{"type":"b"}]}`,
		`{"plugins":[` + ours + `, {"type":"b"}]}`:               `{"plugins":[{"type":"b"}]}`,
		`{"plugins":[` + ours + `]}`:                             `{"plugins":[]}`,
		`{"plugins":[{"type":"a"},` + ours + `,` + ours + `]}`:   `{"plugins":[{"type":"a"}]}`,
		`{"plugins":[{"type":"selvage-egress-of-others"}]}`:      `{"plugins":[{"type":"selvage-egress-of-others"}]}`,
	} {
		dir := t.TempDir()
		put(t, filepath.Join(dir, "x.conflist"), text)
		must(t, cni.Unchain(dir))
		if got := get(t, filepath.Join(dir, "x.conflist")); got != want {
			t.Errorf("%s became %s", text, got)
		}
	}
	must(t, cni.Unchain(filepath.Join(t.TempDir(), "none")))
}

// Where runtimes would not come to the entry, nothing is written.
func TestChainRefused(t *testing.T) {
	t.Parallel()
	for want, files := range map[string]map[string]string{
		"there is none":          {"readme.txt": "x", ".10-x.conflist.new": "{}"},
		"make it a list":         {"10-x.conf": `{"type":"bridge"}`, "20-y.conflist": lists["one"]},
		"it has no plugins":      {"10-x.conflist": `{"plugins":[]}`},
		"it is no JSON":          {"10-x.conflist": `{"plugins":[`},
		"it is no JSON object":   {"10-x.conflist": `[]`},
		"its plugins are no":     {"10-x.conflist": `{"plugins":{}}`},
		"it has plugins twice":   {"10-x.conflist": `{"plugins":[{"type":"a"}],"plugins":[{"type":"b"}]}`},
		"no such file or direct": nil,
	} {
		dir := t.TempDir()
		for name, text := range files {
			put(t, filepath.Join(dir, name), text)
		}
		if files == nil {
			dir = filepath.Join(dir, "none")
		}
		if err := cni.Chain(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
		for name, text := range files {
			if got := get(t, filepath.Join(dir, name)); got != text {
				t.Errorf("%q: %s is %s", want, name, got)
			}
		}
	}
}

// The program is a plugin of the folder, then it is not.
func TestInstall(t *testing.T) {
	t.Parallel()
	dir, self := t.TempDir(), filepath.Join(t.TempDir(), "program")
	put(t, self, "one")
	place, path := cni.Place{Program: self, Plugins: dir}, filepath.Join(dir, "selvage-egress")
	must(t, place.Install())
	was, err := os.Stat(path)
	must(t, err)
	must(t, place.Install())
	if is, err := os.Stat(path); err != nil || !os.SameFile(was, is) || is.Mode().Perm() != 0o755 {
		t.Errorf("what is the same is written: %v, %v", is, err)
	}
	put(t, self, "two")
	must(t, place.Install())
	if get(t, path) != "two" {
		t.Error("what is newer is not written")
	}
	for range 2 {
		must(t, place.Uninstall())
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("there is %v, %v", entries, err)
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o640))
}

func get(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
