package simulation

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutant is a defect that somebody might make.
type mutant struct {
	name     string
	file     string // from the module's root
	was, now string
}

// found is how many mutants the simulation must find.
const found = 18

// The simulation finds planted defects: each is compiled in, alone, and seeds are run until one
// fails. A mutant whose text is no longer in its file fails too: plant it anew.
func TestMutants(t *testing.T) {
	if os.Getenv("SELVAGE_TEST_LONG") == "" {
		t.Skip("compiles the simulation once for each defect: make test-long")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := simulate(root, ""); err != nil {
		t.Fatalf("without any mutant: %v\n%s", err, out)
	}
	killed := 0
	for _, m := range mutants {
		path := filepath.Join(root, m.file)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), m.was); n != 1 {
			t.Errorf("%s: its text is %d times in %s, want it once", m.name, n, m.file)
			continue
		}
		dir := t.TempDir()
		changed, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
		replaced, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{changed: strings.Replace(string(text), m.was, m.now, 1), overlay: string(replaced)} {
			if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err := simulate(root, overlay)
		switch {
		case err == nil:
			t.Logf("not found: %s", m.name)
		case !bytes.Contains(out, []byte("--- FAIL: TestSimulation")):
			t.Errorf("%s: %v\n%s", m.name, err, out)
		default:
			killed++
		}
	}
	if killed < found {
		t.Errorf("%d of %d mutants were found, want %d", killed, len(mutants), found)
	}
}

// simulate runs seeds with files replaced, see go help build.
func simulate(root, overlay string) ([]byte, error) {
	args := []string{"test", "-count=1", "-run", "TestSimulation$|TestFailoverDuringReload$", "./internal/simulation", "-sim.seeds", "1-100", "-sim.short=false"}
	if overlay != "" {
		args = append(args[:1], append([]string{"-overlay", overlay}, args[1:]...)...)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "SELVAGE_TEST_LONG=")
	return cmd.CombinedOutput()
}
