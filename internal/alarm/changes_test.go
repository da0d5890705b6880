package alarm

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/problem"
)

// A problem whose figures changed is another one to LogChanges, and the same to LogKinds.
func TestChangesAreLoggedOnce(t *testing.T) {
	down := func(since string) []problem.Problem {
		return []problem.Problem{problem.Error("neighbour rr1, 192.0.2.1: no session for %s (3 attempts)", since)}
	}
	for _, c := range []struct {
		name string
		log  func(*slog.Logger, []problem.Problem, []problem.Problem)
		want [3]int // lines: when it begins, when its figures change, when it ends
	}{{"LogChanges", LogChanges, [3]int{1, 2, 1}}, {"LogKinds", LogKinds, [3]int{1, 0, 1}}} {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		twice := append(down("11s"), down("11s")...)
		for i, step := range [][2][]problem.Problem{{nil, twice}, {down("11s"), down("1m02s")}, {down("1m02s"), nil}} {
			text.Reset()
			c.log(log, step[0], step[1])
			if n := strings.Count(text.String(), "\n"); n != c.want[i] {
				t.Errorf("%s, step %d: %d lines, want %d:\n%s", c.name, i, n, c.want[i], &text)
			}
		}
	}
}
