package config

import (
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/selvage/selvage/internal/overlay"
)

func TestLoadExample(t *testing.T) {
	got, err := Load("../../examples/host-a.yaml")
	if err != nil {
		t.Fatal(err)
	}
	remote := netip.MustParseAddr("192.0.2.2")
	want := overlay.Edge{
		Name:      "host-a",
		Underlay:  overlay.Underlay{Interfaces: []string{"eth0"}, TEP: netip.MustParseAddr("192.0.2.1")},
		FlowCache: overlay.FlowCache{Enabled: true, Size: 262144},
		FDB:       overlay.FDB{Size: 65536, Ageing: 300 * time.Second},
		Segments: []overlay.Segment{{
			Name: "blue", VNI: 100, Encapsulation: overlay.VXLAN, UDPPort: 4789,
			Remotes: []netip.Addr{remote},
			Static: []overlay.StaticMAC{
				{MAC: overlay.MAC{2, 0, 0, 0, 0, 1}, Port: "p0"},
				{MAC: overlay.MAC{2, 0, 0, 0, 0, 2}, Remote: remote},
			},
		}},
		Ports: []overlay.Port{{Name: "p0", Interface: "veth0", Segment: "blue"}},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Error(diff)
	}
}

func TestDefaults(t *testing.T) {
	got, err := Parse("f", []byte(header+`spec:
  underlay: {interfaces: [eth0], tep: 192.0.2.1}
  flowCache: {enabled: false}
  fdb: {ageing: 0}
  segments: [{name: blue, vni: 0x64}]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := overlay.Edge{
		Name:      "a",
		Underlay:  overlay.Underlay{Interfaces: []string{"eth0"}, TEP: netip.MustParseAddr("192.0.2.1")},
		FlowCache: overlay.FlowCache{Enabled: false, Size: 262144},
		FDB:       overlay.FDB{Size: 65536},
		Segments:  []overlay.Segment{{Name: "blue", VNI: 100, Encapsulation: "vxlan", UDPPort: 4789}},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	for _, file := range files {
		if _, err := Load(file); err != nil {
			t.Error(err)
		}
	}
}

func TestLoadMissingFile(t *testing.T) {
	_, err := Load("nowhere.yaml")
	if want := "configuration: open nowhere.yaml: no such file or directory"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestSuggest(t *testing.T) {
	fields := []string{"name", "vni", "udpPort", "remotes"}
	for word, want := range map[string]string{
		"udpport": `did you mean "udpPort"?`,
		"vin":     `did you mean "vni"?`,
		"remote":  `did you mean "remotes"?`,
		"colour":  "fields here: name, vni, udpPort, remotes",
		"":        "fields here: name, vni, udpPort, remotes",
	} {
		if got := suggest(word, fields, "fields here"); got != want {
			t.Errorf("suggest(%q) = %s, want %s", word, got, want)
		}
	}
	if got := suggest("x", nil, "segments"); got != "there are no segments" {
		t.Error(got)
	}
}

// The parser is asked for a large file only now and then, but then it must not
// take the edge's time.
func BenchmarkParse(b *testing.B) {
	text := []byte(header + "spec:\n  underlay: {interfaces: [eth0], tep: 192.0.2.1}\n  segments:\n  - name: blue\n    vni: 1\n    remotes: [192.0.2.2]\n    fdb:\n")
	for i := range 10000 {
		mac := overlay.MAC{2, 0, 0, 0, byte(i >> 8), byte(i)}
		text = append(text, "    - {mac: \""+mac.String()+"\", remote: 192.0.2.2}\n"...)
	}
	for b.Loop() {
		if _, err := Parse("f", text); err != nil {
			b.Fatal(err)
		}
	}
}
