package config

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// samePlain reports where readPlain and the YAML parser differ about a text that the
// former takes.
func samePlain(t *testing.T, data []byte) (taken bool) {
	t.Helper()
	got, ok := readPlain(data)
	if !ok {
		return false
	}
	file, err := parseYAML(data)
	if err != nil {
		t.Fatalf("the YAML parser does not take it: %v\n%q", err, data)
	}
	d := newDecoder("f")
	want := d.onlyDocument(file, Position{"f", 1, 1}, "")
	if want == nil {
		t.Fatalf("it has more or less than one document: %v\n%q", d.file.errs, data)
	}
	if !reflect.DeepEqual(*want, got) {
		t.Fatalf("other nodes than the YAML parser's:\n%s\nof\n%q", cmp.Diff(*want, got, cmp.AllowUnexported(node{})), data)
	}
	return true
}

var plainTexts = []string{
	"a: 1\n", "a: 1", "\n\n# c\na: x # c\n\n", "a:\n  b: x\n  c:\n    d: y\ne: z\n", "a:\n- x\n- y\nb: z\n", "a:\n  - x\n\n  - y\nb: z\n",
	"- a: 1\n  b: 2\n- c: 3\n", "-\n  a: 1\n-\n  - x\n  - y\n", "- x\n- - y\n", "a: [x, y]\nb: {c: d, e: [f]}\n", "a: [\n  x,\n  y\n  ]\n", "a: {}\nb: []\n",
	`{"a": [1, true, "x\ty\u00e4"], "b":{"c":"d"}}`, "{\n\t\"a\": 1\n}\n", "a: \"x # y: z\"\nb: 'x, y' # c\n", "'a': x\n\"b\": y\n", "ä: x\n", "a: \"ä\" # ö\nb: [\"äö\", x]\n",
	"a: 10.0.0.1\nb: 10.0.0.0/24\nc: 2h4m\nd: 8000-8999\ne: 10.0.0.1-10.0.0.9\nf: tcp/80\ng: fd00::1\nh: fd00::/64\ni: 2001:db8::5/64\n",
	"a: 1\n\x00", "{}\x00", "a: \x00\n", "a: 1.5\n", "a: 0x10\n", "a: 010\n", "a: 99999999999999999999\n", "a: 1e5\n", "a: 1_000\n", "a: -1\n", "a: 12:30:45\n", "a: true\nb: false\n", "a: True\n", "a: null\n", "a: ~\n", "a:\n", "a: yes\n",
	"a: &x 1\nb: *x\n", "a: !!str 1\n", "a: |\n  x\n", "a: >\n  x\n", "<<: {a: 1}\n", "? a\n: b\n", "--- \na: 1\n", "a: 1\n---\nb: 2\n", "a: 1\n...\n", "%YAML 1.2\n---\na: 1\n",
	"a: x\n  y\n", "a: x\n y: z\n", "- x\n  y\n", "a:\n  b: 1\n c: 2\n", "a: [x\ny]\n", "a: [x,\ny]\n", "a:\tb\n", "\ta: b\n", "a: b\t\n", "a: x: y\n", "a: [x: y]\n", "a: {x}\n", "a: [x,]\n", "a: [,x]\n", "a: [x y, z]\n",
	"a: it's, (all) x=1+2 right\n", "a: x#y\n", "a:#y\n", "a: #y\n  b\n", "a: [x #y\n  ]\n", "a: [x, # c\n  y]\n", "a: x\r\nb: y\r\n", "# c\r\na: 0 # c", "a : b\n", "a b: c d\n", "\"a\" : b\n", "{\"a\" :1}\n", "{a:1}\n", "{a: 1}x\n", "{} # c\n", "{}\n{}\n", "a: 'it''s'\n", "a: \"x\n  y\"\n",
	"x\n", "\"x\"\n", "-x\n", "- \n", "-\n", "a: -\n", "a: - b\n", "a: b-c\n", "- a:\n  - b\n  - c: d\n    e: f\n  g: h\n", "- a:\n    - b\n  c: d\n", "- # c\n  a: b\n", "- [a]: b\n", "a:\n- b: c\n- d\n", "a:\n- b\nc:\n- d\n - e\n", "\"\\/\"\n",
	"{\"a\": \"\\/\"}", "{\"a\": \"\\ud83d\\ude00\"}", "{\"a\": \"\\ud83d x\"}", "\ufeffa: 1\n", "a: \u00a0x\n", "a: \"\u2028\"\n", "a: \"\x7f\"\n", "a: b # \t\n", "# c\n", "   a: 1\n   b: 2\n", "  - a\n  - b\n", "a: 'b': c\n", "a: \"b\" c\n", "a: {b: c} d\n", "e5: e5\n1h: 2\n", "1: 2\n", "a: 1-2\nb: 1.2.3\nc: 1.2.3-4\nd: 1/2\n",
}

func TestPlain(t *testing.T) {
	taken := 0
	for _, text := range plainTexts {
		t.Run(text, func(t *testing.T) {
			if strings.Contains(text, "\n\t") { // JSON may have tabs, YAML may not
				t.Skip("JSON alone")
			}
			if samePlain(t, []byte(text)) {
				taken++
			}
		})
	}
	t.Logf("%d of %d texts are plain", taken, len(plainTexts))
	if taken < 20 {
		t.Errorf("%d of %d texts are plain", taken, len(plainTexts))
	}
}

// What people and programs write is read fast.
func TestExamplesArePlain(t *testing.T) {
	for _, name := range []string{"firewall.yaml", "policy.json", "gateway.yaml", "egress.yaml", "evpn.yaml", "evpn-uplink.yaml", "host-a.yaml"} {
		text, err := os.ReadFile("../../examples/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if !samePlain(t, text) {
			t.Errorf("%s is not read fast", name)
		}
	}
	for _, asJSON := range []bool{false, true} {
		if !samePlain(t, []byte(generated(50, asJSON))) {
			t.Error("a generated policy is not read fast")
		}
	}
}

// FuzzPlain: what readPlain takes the YAML parser takes too, and makes the same of it.
func FuzzPlain(f *testing.F) {
	for _, text := range plainTexts {
		f.Add([]byte(text))
	}
	for _, name := range []string{"firewall.yaml", "policy.json", "gateway.yaml", "egress.yaml", "evpn.yaml", "evpn-uplink.yaml"} {
		text, err := os.ReadFile("../../examples/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 || invalidUTF8(data) >= 0 || bytes.ContainsRune(data, '\t') {
			return
		}
		samePlain(t, data)
	})
}
