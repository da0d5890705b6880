package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A command that only reads and computes leaves signals alone, so that they end it. One that must not be cut short
// catches them.
func TestWhoCatchesSignals(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	if err := os.WriteFile(file, []byte("[[["), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SELVAGE_RUNTIME_DIR", dir)
	t.Setenv("SELVAGE_PIN_ROOT", filepath.Join(dir, "pins"))
	for _, c := range []struct {
		args    []string
		catches bool
	}{
		{[]string{"check", file}, false},
		{[]string{"import", "proxmox", dir}, false},
		{[]string{"schema"}, false},
		{[]string{"status"}, true},
		{[]string{"remove", "none"}, true},
	} {
		caught := 0
		_ = run(func() context.Context { caught++; return t.Context() }, c.args, &streams{out: io.Discard, err: io.Discard})
		if want := map[bool]int{true: 1}[c.catches]; caught != want {
			t.Errorf("%v: catches signals %d times, want %d", c.args, caught, want)
		}
	}
}
