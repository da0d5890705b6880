package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runs writes the output of so many runs whose figures are times a factor.
func runs(t *testing.T, n int, factor float64) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		wobble := 1 + 0.002*float64(i%5)
		if factor != 1 {
			wobble = 1 + 0.002*float64((i+2)%5)
		}
		fmt.Fprintf(&b, "goos: linux\npkg: x\nBenchmarkPort/hit/IPv4-2 \t 100\t 0 ns/op\t %.3f ns/packet\nBenchmarkSame-2 \t 100\t 0 ns/op\t %.3f ns/out\t 7 B/op\nPASS\n", 100*factor*wobble, 50*wobble)
	}
	path := filepath.Join(t.TempDir(), "out.txt")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		n      int
		factor float64
		want   string
	}{
		{10, 1.05, "worse"}, {10, 0.95, "better"}, {10, 1, "no difference above"}, {5, 1.05, "no verdict: fewer than 8 runs"},
	} {
		var out strings.Builder
		if err := run(&out, []string{runs(t, c.n, 1), runs(t, c.n, c.factor)}); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 3 || !strings.HasPrefix(lines[1], "Port/hit/IPv4 packet") || !strings.HasPrefix(lines[2], "Same out") {
			t.Fatalf("%s", &out)
		}
		if !strings.Contains(lines[1], c.want) {
			t.Errorf("%d runs, × %v: %s", c.n, c.factor, lines[1])
		}
	}
}

func TestRunFails(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"usage":               {"one"},
		"no such file":        {"/nowhere", empty},
		"no benchmark":        {empty, empty},
		"nowhere/else: no su": {empty, "/nowhere/else"},
	} {
		if err := run(&strings.Builder{}, args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}
