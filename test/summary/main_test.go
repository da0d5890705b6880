package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func summarise(t *testing.T, events string) (out string, unprivileged []string) {
	t.Helper()
	var b strings.Builder
	s := summary{out: &b, progress: io.Discard, output: map[test][]string{}}
	if err := s.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	unprivileged = s.finish()
	return b.String(), unprivileged
}

func TestSummary(t *testing.T) {
	got, unprivileged := summarise(t, `go: downloading example.com/x v1.0.0
{"Action":"output","Package":"p","Test":"TestQuiet","Output":"    q_test.go:1: chatter\n"}
{"Action":"pass","Package":"p","Test":"TestQuiet"}
{"Action":"output","Package":"p","Test":"TestBad","Output":"    b_test.go:2: 1, want 2\n"}
{"Action":"output","Package":"p","Test":"TestBad","Output":"        of 3\n"}
{"Action":"output","Package":"p","Test":"TestBad","Output":"--- FAIL: TestBad (0.00s)\n"}
{"Action":"pass","Package":"p","Test":"TestBad/good","Elapsed":1.2}
{"Action":"fail","Package":"p","Test":"TestBad","Elapsed":1.26}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p","Elapsed":1.3}
{"Action":"output","Package":"q","Test":"TestVLAN","Output":"=== RUN   TestVLAN\n"}
{"Action":"output","Package":"q","Test":"TestVLAN","Output":"    v_test.go:3: this kernel has no vlan devices\n"}
{"Action":"output","Package":"q","Test":"TestVLAN","Output":"--- SKIP: TestVLAN (0.00s)\n"}
{"Action":"skip","Package":"q","Test":"TestVLAN"}
{"Action":"output","Package":"q","Test":"TestTags","Output":"    t_test.go:9: this kernel has no vlan devices\n"}
{"Action":"skip","Package":"q","Test":"TestTags"}
{"Action":"output","Package":"q","Output":"PASS\n"}
{"Action":"output","Package":"q","Output":"ok  \tq\t0.2s\n"}
{"Action":"pass","Package":"q","Elapsed":20.04}
{"Action":"output","Package":"r","Output":"?   \tr\t[no test files]\n"}
{"Action":"skip","Package":"r"}
`)
	want := "go: downloading example.com/x v1.0.0\n" +
		"    b_test.go:2: 1, want 2\n        of 3\n--- FAIL: TestBad (0.00s)\n" +
		"2 skipped: this kernel has no vlan devices\n    q TestVLAN\n    q TestTags\n" +
		"FAIL\tp\t0.1s\nok  \tq\t0.2s\n?   \tr\t[no test files]\n" +
		"slowest packages:\n    20.0 s  q\n     1.3 s  p\n" +
		"slowest tests:\n     1.3 s  p TestBad\n" +
		"failed: p TestBad\n    b_test.go:2: 1, want 2\n        of 3\n" +
		"2 tests passed, 1 failed, 2 skipped\n"
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("output (-want +got):\n%s", d)
	}
	if unprivileged != nil {
		t.Errorf("skipped for want of privilege: %v, want none", unprivileged)
	}
}

func TestPanicShowsTestsThatNeverEnded(t *testing.T) {
	got, _ := summarise(t, `{"Action":"output","Package":"p","Test":"TestHang","Output":"panic: test timed out after 20m\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t1200s\n"}
{"Action":"fail","Package":"p"}
`)
	if !strings.Contains(got, "panic: test timed out") {
		t.Errorf("the panic is missing in:\n%s", got)
	}
}

// Ten are named, the slowest first.
func TestSlowest(t *testing.T) {
	var events strings.Builder
	for i := range 12 {
		fmt.Fprintf(&events, `{"Action":"pass","Package":"p","Test":"Test%d","Elapsed":%d}`+"\n", i, i)
	}
	got, _ := summarise(t, events.String())
	if strings.Count(got, " s  p ") != 10 || !strings.Contains(got, "slowest tests:\n    11.0 s  p Test11\n    10.0 s  p Test10\n") {
		t.Errorf("it prints\n%s", got)
	}
}

// What test/tier leaves to another run is no want of privilege, whatever else it says.
func TestSkipsOfOtherRuns(t *testing.T) {
	tier, err := os.ReadFile("../tier/tier.go")
	if err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(`t\.Skip\("([^"]*)"`).FindAllStringSubmatch(string(tier), -1)
	if len(said) < 3 {
		t.Errorf("test/tier says %q, want skips of three kinds", said)
	}
	for _, m := range said {
		if (skip{why: m[1] + "TestX as root, with CAP_NET_ADMIN"}).isUnprivileged() {
			t.Errorf("%q is taken for want of privilege", m[1])
		}
	}
	if !(skip{why: "needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN: network namespaces)"}).isUnprivileged() {
		t.Error("a test that was not root is not")
	}
}

func TestPrivilegeSkips(t *testing.T) {
	for why, want := range map[string]bool{
		"needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN)": true,
		"not root":                                         true,
		"open /sys/fs/bpf: permission denied":              true,
		"load program: operation not permitted":            true,
		"this test requires privileges":                    true,
		"this kernel has no geneve device":                 false,
		"ovs-vswitchd is not installed":                    false,
		"the root qdisc of this kernel cannot be replaced": false,
	} {
		if got := privilege.MatchString(why); got != want {
			t.Errorf("%q: is about privilege: %v, want %v", why, got, want)
		}
	}
}
