package fault

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/problem"
)

// A fault is logged when it begins, when it is another one and when it ends, and is a problem meanwhile.
func TestFaults(t *testing.T) {
	var log bytes.Buffer
	f := New(slog.New(slog.NewTextHandler(&log, nil)))
	logged := func(want int, words ...string) {
		t.Helper()
		if n := strings.Count(log.String(), "\n"); n != want {
			t.Errorf("%d lines, want %d: %s", n, want, log.String())
		}
		for _, word := range words {
			if !strings.Contains(log.String(), word) {
				t.Errorf("no %q: %s", word, log.String())
			}
		}
		log.Reset()
	}
	problems := func() []problem.Problem {
		return f.Problems(func(what string) problem.Severity {
			if what == "read" {
				return problem.SeverityWarning
			}
			return problem.SeverityError
		})
	}
	f.Report("write", nil)
	logged(0)
	f.Report("write", errors.New("full"))
	logged(1, "level=ERROR", "full")
	f.Report("write", errors.New("full"))
	logged(0)
	f.Report("write", errors.New("refused"))
	f.Report("read", errors.New("gone"))
	logged(2, "refused", "gone")
	want := []problem.Problem{{Severity: problem.SeverityWarning, Text: "read: gone"}, {Severity: problem.SeverityError, Text: "write: refused"}}
	if got := problems(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	f.Report("write", nil)
	logged(1, "write: works again")
	if f.Of("write") != nil || f.Of("read") == nil || len(problems()) != 1 {
		t.Errorf("%v, %v, %v", f.Of("write"), f.Of("read"), problems())
	}
}
