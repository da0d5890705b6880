// Command summary reads `go test -json` and prints what a person needs: the
// output of what failed, why tests skipped, go test's own line for every
// package, and at the end where the time went.
//
// Its one invariant: with CI=true it fails when a test skipped for want of
// privilege, so a green run has run everything that was to be run; what
// test/tier leaves to another run is no such skip. Whether tests failed go test
// itself says by its exit status. Not for use outside scripts/test.sh.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	s := summary{out: os.Stdout, progress: os.Stderr, output: map[test][]string{}}
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
		os.Exit(1)
	}
	unprivileged := s.finish()
	if len(unprivileged) > 0 && os.Getenv("CI") == "true" {
		fmt.Fprintf(os.Stderr, "summary: with CI=true no test may skip for want of privilege: %s\n", strings.Join(unprivileged, ", "))
		os.Exit(1)
	}
}

// event is a line of go test -json; see go doc test2json.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64 // seconds
}

// test is a test or, with an empty name, what its package says outside of tests.
type test struct{ pkg, name string }

type skip struct {
	test
	why string
}

// failure is a test that failed, with the lines that have a position in its code.
type failure struct {
	test
	said []string
}

// took is how long a package or a test ran.
type took struct {
	test
	seconds float64
}

type summary struct {
	out, progress io.Writer
	output        map[test][]string // of what has not ended
	packages      []string          // go test's line for each
	skips         []skip
	passed        int
	failures      []failure
	packageTimes  []took
	testTimes     []took // without subtests, whose times are in those of their tests
}

// read takes events until EOF. Lines that are not events, such as messages of
// the go command, are printed.
func (s *summary) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil {
				fmt.Fprint(s.out, line)
			} else {
				s.take(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read events: %w", err)
		}
	}
}

// packageLine is go test's own about a package.
var packageLine = regexp.MustCompile(`^(ok  |FAIL|\?   )\t`)

func (s *summary) take(e event) {
	t := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(s.out, e.Output)
	case "output":
		if e.Test == "" && packageLine.MatchString(e.Output) {
			s.packages = append(s.packages, e.Output)
			fmt.Fprintf(s.progress, "done %s\n", e.Package)
			return
		}
		s.output[t] = append(s.output[t], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.packageTimes = append(s.packageTimes, took{t, e.Elapsed})
			s.endPackage(e)
			return
		}
		if !strings.Contains(e.Test, "/") {
			s.testTimes = append(s.testTimes, took{t, e.Elapsed})
		}
		s.endTest(t, e.Action)
	}
}

func (s *summary) endTest(t test, action string) {
	switch action {
	case "pass":
		s.passed++
	case "fail":
		s.failures = append(s.failures, failure{t, errors(s.output[t])})
		s.print(t)
	case "skip":
		s.skips = append(s.skips, skip{t, reason(s.output[t])})
	}
	delete(s.output, t)
}

// endPackage shows, when it failed, also what never ended: a panic or a timeout.
func (s *summary) endPackage(e event) {
	var left []test
	for t := range s.output {
		if t.pkg == e.Package {
			left = append(left, t)
		}
	}
	slices.SortFunc(left, func(a, b test) int { return strings.Compare(a.name, b.name) })
	for _, t := range left {
		if e.Action == "fail" {
			s.print(t)
		}
		delete(s.output, t)
	}
}

func (s *summary) print(t test) {
	for _, line := range s.output[t] {
		if line != "PASS\n" && line != "FAIL\n" {
			fmt.Fprint(s.out, line)
		}
	}
}

// Of each failed test the end repeats so much: so many messages, with so many of the lines
// that follow their first.
const (
	mostErrors    = 3
	mostFollowing = 8
	longestOfLine = 300 // bytes
)

// errors are the first lines of what a test said.
func errors(output []string) []string {
	var said []string
	messages, following := 0, mostFollowing // none follows before the first
	for _, line := range output {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || ofGoTest(trimmed):
			continue
		case position.MatchString(trimmed):
			messages, following = messages+1, 0
		default:
			following++
			trimmed = "    " + trimmed
		}
		if messages > mostErrors {
			break
		}
		if following <= mostFollowing && messages > 0 {
			said = append(said, strings.ToValidUTF8(trimmed[:min(len(trimmed), longestOfLine)], ""))
		}
	}
	return said
}

// position is where a line of a test's log comes from.
var position = regexp.MustCompile(`^\S+\.go:\d+: `)

// reason is what a test said before it skipped, without go test's own lines.
func reason(output []string) string {
	var said []string
	for _, line := range output {
		line = position.ReplaceAllString(strings.TrimSpace(line), "")
		if line != "" && !ofGoTest(line) {
			said = append(said, line)
		}
	}
	return strings.Join(said, " ")
}

// ofGoTest tells lines of go test itself, such as "=== RUN", from those of tests.
func ofGoTest(line string) bool {
	return strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ")
}

// privilege is what a skip says when the test was not allowed to do something.
var privilege = regexp.MustCompile(`(?i)\b(un)?privileged?s?\b|\b(needs?|requires?|must be|run as|not) root\b|\bCAP_[A-Z_]+|permission denied|operation not permitted`)

// otherRun is how the skips of test/tier begin: the test is part of another run, which has
// the privilege.
var otherRun = regexp.MustCompile(`^(not part of make check|part of make test-long)\b`)

// isUnprivileged reports whether a skip is for want of privilege.
func (k skip) isUnprivileged() bool {
	return privilege.MatchString(k.why) && !otherRun.MatchString(k.why)
}

// most is how many of the slowest are named.
const most = 10

// finish prints the end and returns the names of tests that skipped for want of privilege.
func (s *summary) finish() (unprivileged []string) {
	s.printSkips()
	for _, k := range s.skips {
		if k.isUnprivileged() {
			unprivileged = append(unprivileged, k.name)
		}
	}
	for _, line := range s.packages {
		fmt.Fprint(s.out, line)
	}
	s.printSlowest("packages", s.packageTimes)
	s.printSlowest("tests", s.testTimes)
	s.printFailures()
	fmt.Fprintf(s.out, "%d tests passed, %d failed, %d skipped\n", s.passed, len(s.failures), len(s.skips))
	return unprivileged
}

// printFailures repeats near the end, which is what a reader of a long log sees, what failed.
func (s *summary) printFailures() {
	for _, f := range s.failures {
		fmt.Fprintf(s.out, "failed: %s %s\n", f.pkg, f.name)
		for _, line := range f.said {
			fmt.Fprintf(s.out, "    %s\n", line)
		}
	}
}

// printSkips prints each reason once, with the tests that gave it.
func (s *summary) printSkips() {
	tests := make(map[string][]string)
	var reasons []string
	for _, k := range s.skips {
		if tests[k.why] == nil {
			reasons = append(reasons, k.why)
		}
		tests[k.why] = append(tests[k.why], k.pkg+" "+k.name)
	}
	for _, why := range reasons {
		fmt.Fprintf(s.out, "%d skipped: %s\n", len(tests[why]), why)
		for _, name := range tests[why] {
			fmt.Fprintf(s.out, "    %s\n", name)
		}
	}
}

// printSlowest prints those that took longest, without those that took no time.
func (s *summary) printSlowest(what string, times []took) {
	slices.SortStableFunc(times, func(a, b took) int { return cmp.Compare(b.seconds, a.seconds) })
	times = slices.DeleteFunc(times, func(t took) bool { return t.seconds == 0 })
	if len(times) == 0 {
		return
	}
	fmt.Fprintf(s.out, "slowest %s:\n", what)
	for _, t := range times[:min(len(times), most)] {
		fmt.Fprintf(s.out, "%8.1f s  %s\n", t.seconds, strings.TrimSpace(t.pkg+" "+t.name))
	}
}
