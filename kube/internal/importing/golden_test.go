package importing_test

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/selvage/selvage/kube/internal/importing"
	"github.com/selvage/selvage/kube/internal/importing/source"
)

var update = flag.Bool("update", false, "write what is expected anew")

// jsonNumbers is an object with the numbers that the API server gets.
func jsonNumbers(t testing.TB, o map[string]any) (out map[string]any) {
	t.Helper()
	text, err := json.Marshal(o)
	if err == nil {
		err = utiljson.Unmarshal(text, &out) // whole numbers as int64
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func all(value string) []importing.Setting { return []importing.Setting{{Value: value}} }

func at(gateway, value string) importing.Setting {
	return importing.Setting{Gateway: gateway, Value: value}
}

// given is what the objects of all projects do not say.
func given() importing.Options {
	return importing.Options{Interfaces: all("eth1"), NextHops: append(all("203.0.113.1"), all("2001:db8:51::1")...)}
}

// convert reads the files of a directory and writes what becomes of them.
func convert(t *testing.T, dir string, o importing.Options) (importing.Result, string) {
	t.Helper()
	objects, err := source.Files([]string{dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return written(t, objects, o)
}

// written is what becomes of objects.
func written(t *testing.T, objects []importing.Object, o importing.Options) (importing.Result, string) {
	t.Helper()
	r, err := importing.Convert(objects, o)
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.YAML()
	if err != nil {
		t.Fatal(err)
	}
	return r, string(out)
}

func report(r importing.Result) string {
	var b strings.Builder
	for _, n := range r.Notes {
		b.WriteString(n.String() + "\n")
	}
	return b.String()
}

// golden compares a text with a file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not what is written; see with -update and git diff. It is:\n%s", file, got)
	}
}

func TestGolden(t *testing.T) {
	for name, more := range map[string]func(*importing.Options){
		"spidernet": func(o *importing.Options) {
			o.Except = []string{"192.0.2.0/24"}
		},
		"cilium": func(o *importing.Options) {
			o.Addresses = []importing.Setting{at("by-interface", "203.0.113.64")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := given()
			more(&o)
			r, out := convert(t, filepath.Join("testdata", name, "in"), o)
			golden(t, filepath.Join("testdata", name, "out.yaml"), out)
			golden(t, filepath.Join("testdata", name, "report.txt"), report(r))
			for _, doc := range documents(out) {
				if why := refused(t, doc); len(why) > 0 {
					t.Errorf("%v:\n%s", why, doc)
				}
			}
		})
	}
}

// TestOrder has the objects come in another order: the output is the same, byte for byte.
func TestOrder(t *testing.T) {
	names := []string{"testdata/spidernet/in", "testdata/cilium/in"}
	o := given()
	o.Addresses = all("203.0.113.80-203.0.113.89")
	objects, err := source.Files(names, nil)
	if err != nil {
		t.Fatal(err)
	}
	var outs []string
	for range 2 {
		r, err := importing.Convert(objects, o)
		if err != nil {
			t.Fatal(err)
		}
		out, err := r.YAML()
		if err != nil {
			t.Fatal(err)
		}
		outs = append(outs, string(out)+report(r))
		slices.Reverse(objects)
	}
	if outs[0] != outs[1] {
		t.Errorf("in one order:\n%s\nin the other:\n%s", outs[0], outs[1])
	}
}

// TestNeeded converts without what objects do not say.
func TestNeeded(t *testing.T) {
	for name, want := range map[string]string{
		"spidernet": "nodes Interfaces, nodes NextHops, partners Interfaces, partners NextHops",
		"cilium":    "bank Interfaces, bank NextHops, bots Interfaces, bots NextHops, by-interface NextHops, by-interface Addresses",
	} {
		objects, err := source.Files([]string{filepath.Join("testdata", name, "in")}, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := importing.Convert(objects, importing.Options{})
		var needed importing.Needed
		if !errors.As(err, &needed) {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for _, n := range needed {
			got = append(got, n.Gateway+" "+n.Option)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: needed are %s; want %s", name, strings.Join(got, ", "), want)
		}
		if len(r.Gateways)+len(r.Policies)+len(r.ClusterPolicies) > 0 {
			t.Errorf("%s: objects are written that lack something", name)
		}
	}
}
