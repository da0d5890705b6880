package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Fields are found by their types, so that a new one needs nothing here.
func TestConfidentialFields(t *testing.T) {
	if got := confidentialFields(); !slices.Contains(got, "password") || !slices.Contains(got, "key") {
		t.Errorf("fields %q", got)
	}
}

func TestConfidential(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pw"), []byte("# of the reflector\nfrom-a-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := `
spec:
  bgp:
    neighbours:
    - {name: a, password: "in, quotes: yes"}
    - name: b
      password: |
        of
        lines
    - {name: c, passwordFile: pw}
  egress:
    gateways: [{name: g, replication: {key: "0123456789abcdef"}}]
  unknown: {password: wrong-place}
`
	values, known := Confidential(filepath.Join(dir, "a.yaml"), []byte(text))
	want := []string{"in, quotes: yes", "of\nlines\n", "from-a-file", "0123456789abcdef", "wrong-place"}
	if !known || !slices.Equal(values, want) {
		t.Errorf("%q, %t; want %q", values, known, want)
	}
	if _, known := Confidential("a.yaml", []byte("a: [")); known {
		t.Error("what is no YAML is known")
	}
}

// What cannot be read has none of its secrets either.
func TestHide(t *testing.T) {
	text := `spec: [
  bgp:
    - {name: a, password: CANARY, as: 1}
      - password: |
           CANARY
        CANARY
      "key" : 'CANARY
          CANARY'
    kept: yes
`
	got := Hide(text)
	if strings.Contains(got, "CANARY") || !strings.Contains(got, "name: a") || !strings.Contains(got, "kept: yes") || strings.Count(got, "(secret)") < 2 {
		t.Errorf("%s", got)
	}
}
