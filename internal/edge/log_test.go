package edge

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/alarm"
)

// Lines of the log that are lost are a problem until no more are.
func TestLostLogLinesAreAProblem(t *testing.T) {
	w := newWorld(t)
	var lost atomic.Uint64
	w.opts.LostLogLines, w.opts.Resync = lost.Load, 10*time.Millisecond
	c, _ := w.run()
	if w.problem(c, alarm.WriteLog) {
		t.Error("there is a problem, and nothing was lost")
	}
	w.within("the problem is told", func() bool {
		lost.Add(3)
		return w.problem(c, alarm.WriteLog, "lines are lost")
	})
	w.within("the problem ends", func() bool { return !w.problem(c, alarm.WriteLog) })
}
