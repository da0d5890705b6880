// Command summary reads `go test -json` and prints what a person needs: the
// output of what failed, why tests skipped, and at the end go test's own line
// for every package.
//
// Its one invariant: with CI=true it fails when a test skipped for want of
// privilege, so a green run has run everything. Whether tests failed go test
// itself says by its exit status. Not for use outside scripts/test.sh.
package main

import (
	"bufio"
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
}

// test is a test or, with an empty name, what its package says outside of tests.
type test struct{ pkg, name string }

type skip struct {
	test
	why string
}

type summary struct {
	out, progress io.Writer
	output        map[test][]string // of what has not ended
	packages      []string          // go test's line for each
	skips         []skip
	passed        int
	failed        int
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
			s.endPackage(e)
			return
		}
		s.endTest(t, e.Action)
	}
}

func (s *summary) endTest(t test, action string) {
	switch action {
	case "pass":
		s.passed++
	case "fail":
		s.failed++
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

// reason is what a test said before it skipped, without go test's own lines.
func reason(output []string) string {
	var said []string
	for _, line := range output {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			said = append(said, line)
		}
	}
	return strings.Join(said, " ")
}

// privilege is what a skip says when the test was not allowed to do something.
var privilege = regexp.MustCompile(`(?i)\b(un)?privileged?s?\b|\b(needs?|requires?|must be|run as|not) root\b|\bCAP_[A-Z_]+|permission denied|operation not permitted`)

// finish prints the end and returns the names of tests that skipped for want of privilege.
func (s *summary) finish() (unprivileged []string) {
	for _, k := range s.skips {
		fmt.Fprintf(s.out, "skipped %s %s: %s\n", k.pkg, k.name, k.why)
		if privilege.MatchString(k.why) {
			unprivileged = append(unprivileged, k.name)
		}
	}
	fmt.Fprintf(s.out, "%d tests passed, %d failed, %d skipped\n", s.passed, s.failed, len(s.skips))
	for _, line := range s.packages {
		fmt.Fprint(s.out, line)
	}
	return unprivileged
}
