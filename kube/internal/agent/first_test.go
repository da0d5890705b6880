package agent

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

// An edge takes the first file; one that is there stays.
func TestFirst(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run", "edge.yaml")
	if err := First(file, "node-1", netip.MustParseAddr("192.0.2.77")); err == nil {
		t.Fatal("no interface has that address")
	}
	own := netip.MustParseAddr("127.0.0.1")
	if err := First(file, "node-1", own); err == nil {
		t.Fatal("loopback is no node's")
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("there"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := First(file, "node-1", own); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "there" {
		t.Errorf("%s %v", text, err)
	}
}
