package edge

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/selvage/selvage/internal/problem"
)

// lines keeps a log for a test to read.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// Where pins end with the mount namespace, the edge says so when it starts, while it runs and when it stops; where that ends
// with the process, it ends its data path in order.
func TestPinsThatEnd(t *testing.T) {
	for _, withProcess := range []bool{false, true} {
		w, log := newWorld(t), &lines{}
		w.opts.RemoveAtExit = false
		w.opts.Logger = slog.New(slog.NewTextHandler(log, nil))
		w.opts.PinsEnd = func(string) (bool, bool) { return true, withProcess }
		c, stop := w.run()
		w.within("a warning in status", func() bool {
			s, err := c.Status(t.Context())
			return err == nil && slices.ContainsFunc(s.Problems, func(p problem.Problem) bool {
				return p.Severity == problem.SeverityWarning && strings.Contains(p.Text, "/sys/fs/bpf here is")
			})
		})
		if err := stop(); err != nil {
			t.Error(err)
		}
		removed := w.called("remove") > 0
		if removed != withProcess {
			t.Errorf("data path removed: %v, want %v", removed, withProcess)
		}
		last := "keeps forwarding only until this mount namespace"
		if withProcess {
			last = "edge stops, and so does its data path"
		}
		for _, text := range []string{"level=WARN msg=\"the data path ends with this mount namespace", last} {
			if !strings.Contains(log.text.String(), text) {
				t.Errorf("%q is not in the log:\n%s", text, log.text.String())
			}
		}
	}
}
