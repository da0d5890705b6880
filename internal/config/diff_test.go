package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const diffBase = `apiVersion: selvage.dev/v1alpha2
kind: Edge
metadata: {name: a}
spec:
  underlay: {interfaces: [eth0], tep: 192.0.2.1}
  segments:
    - {name: blue, vni: 100, remotes: [192.0.2.2, 192.0.2.3]}
    - name: red
      vni: 200
  ports:
    - {name: p0, interface: veth0, segment: blue}
    - {name: p1, interface: veth1, segment: blue}
`

func sourceOf(text string) Source {
	return Source{Path: "a.yaml", Files: []File{{"a.yaml", []byte(text)}}}
}

func TestDiff(t *testing.T) {
	for _, c := range []struct {
		name     string
		was, now string // replaced
		want     []string
	}{
		{"nothing", "", "", nil},
		{"only the layout", "    - name: red\n      vni: 200\n", "    # a comment\n    - {vni: 200, name: red}\n", nil},
		{"a value", "vni: 200", "vni: 201", []string{"changed spec.segments[red].vni 200 201"}},
		{"an element", "    - name: red\n      vni: 200\n", "", []string{"removed spec.segments[red]  "}},
		{"an element's name", "{name: p1,", "{name: p2,", []string{"added spec.ports[p2]  ", "removed spec.ports[p1]  "}},
		{"a word of a list", "192.0.2.3]", "192.0.2.4]", []string{"added spec.segments[blue].remotes[192.0.2.4]  ", "removed spec.segments[blue].remotes[192.0.2.3]  "}},
		{"a field", "  ports:", "  fdb: {size: 1000}\n  ports:", []string{"added spec.fdb  "}},
		{"a field of one", "{name: p0, ", "{name: p0, deliver: redirect, ", []string{"added spec.ports[p0].deliver  redirect"}},
		{"the order", "    - {name: p0, interface: veth0, segment: blue}\n    - {name: p1, interface: veth1, segment: blue}\n",
			"    - {name: p1, interface: veth1, segment: blue}\n    - {name: p0, interface: veth0, segment: blue}\n", []string{"moved spec.ports[p0]  "}},
		{"one of two with the same key", "segment: blue}\n    - {name: p1,", "segment: blue}\n    - {name: p1, interface: veth7, segment: blue}\n    - {name: p1,",
			[]string{"changed spec.ports[p1].interface veth1 veth7", "added spec.ports[p1]  "}},
		{"a secret", "  ports:", "  bgp: {neighbours: [{address: 192.0.2.9, password: \"hush hush\"}]}\n  ports:", []string{"added spec.bgp  "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			list, err := Diff(sourceOf(diffBase), sourceOf(strings.Replace(diffBase, c.was, c.now, 1)))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range list {
				got = append(got, strings.Join([]string{d.Kind, d.Path, d.Was, d.Now}, " "))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestDiffShowsNoSecret(t *testing.T) {
	with := strings.Replace(diffBase, "  ports:", "  bgp: {neighbours: [{address: 192.0.2.9, password: hush}]}\n  ports:", 1)
	list, err := Diff(sourceOf(with), sourceOf(strings.Replace(with, "hush", "louder", 1)))
	if err != nil || len(list) != 1 || list[0].Path != "spec.bgp.neighbours[192.0.2.9].password" || list[0].Was != "(secret)" || list[0].Now != "(secret)" {
		t.Errorf("%+v, %v", list, err)
	}
}

// A source is read again as it was, also when its files have gone.
func TestSourceIsWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	text := diffBase + "  firewall: {include: [policy.yaml]}\n"
	rules := "sections: [{name: web, rules: [{name: ssh, action: allow}]}]\n"
	for name, text := range map[string]string{"a.yaml": text, "policy.yaml": rules} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, source, err := LoadSource(path)
	if err != nil || len(source.Files) != 2 {
		t.Fatalf("%d files, %v", len(source.Files), err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	again, err := source.Edge()
	if err != nil || again.Name != first.Name || len(again.Firewall.Rules) != 1 {
		t.Errorf("%+v, %v", again.Firewall, err)
	}
	changed := source
	changed.Files = slices.Clone(source.Files)
	changed.Files[1].Text = []byte(strings.Replace(rules, "allow", "drop", 1))
	list, err := Diff(source, changed)
	if err != nil || len(list) != 1 || list[0].Path != filepath.Join(dir, "policy.yaml")+".sections[web].rules[ssh].action" {
		t.Errorf("%+v, %v", list, err)
	}
	if source.Equal(changed) || !source.Equal(source) {
		t.Error("equal is not what it should be")
	}
}
