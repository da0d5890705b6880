// Package privilege decides what a test does that needs root.
//
// Its one invariant: with CI=true such a test never skips, so a green run has
// run it. It is for tests only.
package privilege

import (
	"os"
	"testing"
)

// Require skips the test when the process is not root, naming the privilege,
// and fails it instead when CI=true.
func Require(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	const why = "needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN: network namespaces, interfaces, BPF): run it with sudo"
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}
