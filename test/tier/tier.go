// Package tier decides which run of the tests a test is part of: make check, make test or
// make test-long.
//
// Its one invariant: a test that make test holds is never skipped there, so with CI=true a
// green run has run it. A test without a call belongs to all three. It is for tests only.
package tier

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// longEnv has the tests of make test-long run too when it is not empty.
const longEnv = "SELVAGE_TEST_LONG"

// Root is for tests that need root, which make check has not: it skips where that runs
// (go test -short) and where the process is not root, naming the privilege. With CI=true the
// latter fails.
func Root(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("not part of make check: it makes namespaces or loads programs")
	}
	if os.Geteuid() == 0 {
		return
	}
	const why = "needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN: network namespaces, interfaces, BPF): run it with sudo"
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// Slow is for tests that need nothing but seconds, which make check has not.
func Slow(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("not part of make check: it takes seconds")
	}
}

// Long is for what only make test-long runs: soaks, scale, long searches, statistics. holds
// names the test of make test that holds the same fact, at less length.
func Long(t testing.TB, holds string) {
	t.Helper()
	if !IsLong() {
		t.Skip("part of make test-long; in make test: " + holds)
	}
}

// IsLong says whether this is make test-long, for tests that then try more of the same.
func IsLong() bool { return os.Getenv(longEnv) != "" && !testing.Short() }

// SideBySide has up to so many parallel tests of a package run at a time, however few the
// cores are, because they wait more than they work. TestMain calls it first; go test's
// -parallel has precedence.
func SideBySide(tests int) {
	flag.Parse()
	const parallel = "test.parallel"
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == parallel })
	if !given {
		_ = flag.Set(parallel, strconv.Itoa(tests)) // a number is what it takes
	}
}
