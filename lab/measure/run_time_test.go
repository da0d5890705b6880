package measure

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
)

// What another process runs counts, to less than a tick, also when it began between the looks.
func TestRunTime(t *testing.T) {
	busy := exec.Command("sh", "-c", "while :; do :; done")
	before, err := ReadRunTime()
	if err != nil {
		t.Fatal(err)
	}
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = busy.Process.Kill(), busy.Wait() }()
	ran := func(then RunTime) (time.Duration, RunTime) {
		now, err := ReadRunTime()
		if err != nil {
			t.Fatal(err)
		}
		return RunTime{busy.Process.Pid: now[busy.Process.Pid]}.Since(then), now
	}
	then := before
	for _, least := range []time.Duration{time.Millisecond, 3 * time.Millisecond} {
		var now RunTime
		err := await.That(t.Context(), "the process to run", func() error {
			var took time.Duration
			if took, now = ran(then); took < least {
				return fmt.Errorf("it ran %s", took)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		then = now
	}
	if got := (RunTime{1: 7, 2: 5}).Since(RunTime{1: 3, 2: 6, 3: 1}); got != 4 {
		t.Errorf("%d ns, want 4: one ran 4, of one the clock went back, one ended", got)
	}
}
