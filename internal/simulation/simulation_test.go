package simulation

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/selvage/selvage/internal/problem"
)

var (
	seeds = flag.String("sim.seeds", "", "run these seeds, as in 17 or 1-500")
	short = flag.Bool("sim.short", true, "leave out of a failing seed what is not needed for its failure")
	only  = flag.String("sim.only", "", "of one seed run these steps alone, as in 3,7,9")
)

// steps is how long a scenario is.
const steps = 60

// violation ends a run.
type violation struct {
	step int
	text string
}

func (w *world) violate(format string, args ...any) {
	panic(violation{len(w.log), fmt.Sprintf(format, args...)})
}

// check compares what is with what must be.
func (w *world) check(when string) {
	if list := w.machine.Differences(); len(list) > 0 {
		w.violate("%s: the model is not the kernel: %s", when, strings.Join(list, "\n  "))
	}
	faulty := w.faulty()
	list := w.differences(w.inForce)
	if len(list) == 0 {
		return
	}
	if !faulty {
		w.violate("%s: %v; problems: %v", when, list, w.problems())
	}
	missing := map[string]int{}
	for _, d := range list {
		w.mu.Lock()
		f := w.faults[d.table]
		refused := f != nil && (f.deletes || f.refusedDelete)
		w.mu.Unlock()
		if !d.extra {
			missing[d.table]++
		}
		if f != nil && f.one && missing[d.table] > 1 {
			w.violate("%s: one entry is refused and more are missing: %v", when, list)
		}
		if d.extra && !refused {
			w.violate("%s: %s, and nobody refused to remove it; problems: %v", when, d, w.problems())
		}
	}
	for _, p := range w.problems() {
		if p.Severity == problem.SeverityError {
			return
		}
	}
	w.violate("%s: %v, and no problem says why", when, list)
}

// run plays a scenario and says what went wrong, nil when nothing did.
func run(t *testing.T, boot booted, seed uint64, s shape, ops []op) (failed *violation, log []string) {
	t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, boot, seed, s)
			defer func() {
				log = w.log
				if v, ok := recover().(violation); ok {
					failed = &v
				}
				w.stop()
				if err := <-w.done; err != nil && failed == nil {
					failed = &violation{len(w.log), "the edge ended: " + err.Error()}
				}
			}()
			w.start()
			w.pass(time.Second)
			w.check("at the start")
			for _, o := range ops {
				w.log = append(w.log, kinds[o.kind].name)
				w.log[len(w.log)-1] = kinds[o.kind].do(w, o.a, o.b)
				w.pass(120 * time.Millisecond)
				w.check(w.log[len(w.log)-1])
			}
			w.settle()
		})
	})
	return failed, log
}

// settle is a world in which nothing fails any more: all must be well.
func (w *world) settle() {
	w.log = append(w.log, "at the end")
	w.mend(0, 0)
	w.broken = false
	w.reload(0, 0)
	w.pass(25 * time.Second)
	w.check("at the end")
	w.restart(0, 0)
	w.pass(25 * time.Second)
	w.check("after a last restart")
}

// shrink leaves out what is not needed for a failure.
func shrink(t *testing.T, boot booted, seed uint64, s shape, ops []op) (kept []int) {
	for i := range ops {
		kept = append(kept, i)
	}
	fails := func(list []int) bool {
		failed, _ := run(t, boot, seed, s, pick(ops, list))
		return failed != nil
	}
	for size := len(kept) / 2; size > 0; size /= 2 {
		for at := 0; at < len(kept); {
			without := append(append([]int{}, kept[:at]...), kept[min(at+size, len(kept)):]...)
			if fails(without) {
				kept = without
			} else {
				at += size
			}
		}
	}
	return kept
}

func pick(ops []op, list []int) (some []op) {
	for _, i := range list {
		some = append(some, ops[i])
	}
	return some
}

// tell says how a scenario failed, after it was made short.
func tell(t *testing.T, boot booted, seed uint64, s shape, ops []op, numbers []int) {
	kept := shrink(t, boot, seed, s, ops)
	failed, log := run(t, boot, seed, s, pick(ops, kept))
	if failed == nil { // it depends on what runs first
		t.Errorf("seed %d fails, but not each time", seed)
		return
	}
	words := make([]string, len(kept))
	for i, n := range kept {
		words[i] = strconv.Itoa(numbers[n])
	}
	t.Errorf("seed %d: %s\nsteps:\n  %s\nagain: go test ./internal/simulation -run %s$ -sim.seeds %d -sim.only %s",
		seed, failed.text, strings.Join(log, "\n  "), t.Name(), seed, strings.Join(words, ","))
}

func TestSimulation(t *testing.T) {
	first, last := 1, 50
	switch {
	case os.Getenv("SELVAGE_TEST_LONG") != "":
		last = 10_000
	case testing.Short():
		last = 20
	}
	runSeeds(t, bootModel, first, last)
}

// runSeeds runs seeds, or those that were asked for.
func runSeeds(t *testing.T, boot booted, first, last int) {
	if *seeds != "" {
		a, b, ranged := strings.Cut(*seeds, "-")
		first, _ = strconv.Atoi(a)
		if last = first; ranged {
			last, _ = strconv.Atoi(b)
		}
	}
	for seed := uint64(first); seed <= uint64(last); seed++ {
		s, ops := scenario(seed, steps)
		numbers := make([]int, len(ops)) // of the steps that are run
		for i := range numbers {
			numbers[i] = i
		}
		if *only != "" {
			var list []int
			for _, word := range strings.Split(*only, ",") {
				n, _ := strconv.Atoi(word)
				list = append(list, n)
			}
			ops, numbers = pick(ops, list), list
		}
		failed, log := run(t, boot, seed, s, ops)
		switch {
		case failed == nil:
		case *short:
			tell(t, boot, seed, s, ops, numbers)
			return
		default:
			t.Fatalf("seed %d: %s\nsteps:\n  %s", seed, failed.text, strings.Join(log, "\n  "))
		}
	}
}
