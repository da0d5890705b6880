package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mostMethods is how many a type may have, with those that it has by embedding.
const mostMethods = 30

// manyMethods are the types that have more, and how many: numbers here fall, and types go.
var manyMethods = map[string]int{
	"lab/chart.View":                         37,
	"lab/dut/evpn.Edge":                      56,
	"lab/dut/evpn.Guest":                     58,
	"lab/dut/evpn.Reflector":                 54,
	"lab/experiment/ab.round":                35,
	"lab/experiment/ab.view":                 51,
	"lab/experiment/attack.view":             50,
	"lab/experiment/attack/network.Guest":    53,
	"lab/experiment/cache.view":              45,
	"lab/experiment/converge.view":           58,
	"lab/experiment/converge/fabric.kernel":  46,
	"lab/experiment/converge/fabric.selvage": 41,
	"lab/experiment/egress.evidence":         33,
	"lab/experiment/egress.view":             55,
	"lab/experiment/failover.view":           59,
	"lab/experiment/latency.view":            71,
	"lab/experiment/mtu.view":                64,
	"lab/experiment/offload.view":            54,
	"lab/experiment/rfc2544.evidence":        33,
	"lab/experiment/rfc2544.rateSample":      38,
	"lab/experiment/rfc2544.view":            66,
	"lab/topo.Host":                          54,
	"test/e2e/harness.EgressNet":             74,
	"test/e2e/harness.Guest":                 57,
	"test/e2e/harness.Hub":                   64,
	"test/e2e/harness.Network":               45,
	"test/e2e/harness.RoutedHub":             64,
	"test/e2e/harness.TwoHosts":              68,
	"lab/experiment/egress/places.view":      46,
	"lab/experiment/latency/places.view":     44,
	"lab/experiment/mtu/places.view":         42,
	"lab/experiment/offload/places.view":     44,
	"lab/experiment/rfc2544/ports.view":      49,
	"lab/experiment/why.view":                42,
	"lab/turns.View":                         39,
	"lab/experiment/ab/paths.view":           55,
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// No type has more methods than a reader keeps in mind, but for those that had before.
func TestTypesHaveFewMethods(t *testing.T) {
	found := map[string]int{}
	packages := goList(t)
	for _, p := range packages {
		if !strings.HasPrefix(p.ImportPath, module) {
			continue
		}
		pkg := checked(t, p, packages)
		for _, name := range pkg.Scope().Names() {
			obj, ok := pkg.Scope().Lookup(name).(*types.TypeName)
			if !ok || obj.IsAlias() {
				continue
			}
			if n := methods(obj.Type()); n > mostMethods {
				found[strings.TrimPrefix(p.ImportPath, module)+"."+name] = n
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if most := max(manyMethods[name], mostMethods); found[name] > most {
			t.Errorf("%s has %d methods, at most %d: split it by subject", name, found[name], most)
		}
	}
	for name, n := range manyMethods {
		if found[name] < n {
			t.Errorf("%s has %d methods: say so in manyMethods, or leave it out from %d down", name, found[name], mostMethods)
		}
	}
}

// methods is how many of this module a type and a pointer to it have.
func methods(t types.Type) (n int) {
	if !types.IsInterface(t) {
		t = types.NewPointer(t)
	}
	for m := range types.NewMethodSet(t).Methods() {
		if pkg := m.Obj().Pkg(); pkg != nil && strings.HasPrefix(pkg.Path(), module) {
			n++
		}
	}
	return n
}

// goList are the packages of the module and those that they import, by path.
func goList(t *testing.T) map[string]listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("go list: %s", exit.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]listed{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
	}
}

// checked is a package with its types.
func checked(t *testing.T, p listed, all map[string]listed) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	exports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if all[path].Export == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(all[path].Export)
	})
	pkg, err := (&types.Config{Importer: exports}).Check(p.ImportPath, fset, files, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pkg
}
