// Package alarm watches over what the data path of an edge says of itself, and tells what is
// wrong: how its tables fill, whether the flow cache thrashes, limits are exceeded, or packets are
// spread unevenly over paths.
//
// Its one invariant: each type here is looked after by one goroutine, and may be asked for its
// problems by any at any time, also while it takes a reading. What begins and ends is logged
// once.
//
// Do not use it for what failed and is tried again: those are faults, which the edge keeps. And do
// not decide here what the data path does.
package alarm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/problem"
)

// Options are where alarms and faults are told.
type Options struct {
	Log *slog.Logger
	// Report keeps an error as a problem until it is called with nil.
	Report func(what string, err error)
}

// sweepEvery calls sweep until ctx ends: two of those are least apart, or more where they cost much. Between them it calls
// each while that has something to do, and with them else; nil is nothing. timing names the fault of a clock that cannot be read.
func (o Options) sweepEvery(ctx context.Context, least time.Duration, timing string, each func() (busy bool), sweep func()) {
	tick := time.NewTimer(LogEvery)
	defer tick.Stop()
	var notBefore time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		busy := each != nil && each()
		if begin := time.Now(); !begin.Before(notBefore) {
			took, err := Timed(func() error {
				sweep()
				return nil
			})
			o.Report(timing, err)
			notBefore = begin.Add(max(least, TimeShare*took))
		}
		next := time.Until(notBefore)
		if busy {
			next = LogEvery
		}
		tick.Reset(max(next, min(least, LogEvery)))
	}
}

// Faults of readings.
const (
	readDrops      = "read the drops"
	WatchFlowCache = "watch the flow cache"
	readCounters   = "read the counters of the paths"
	readLimits     = "read what is used of limits"
	readLog        = "read the firewall's log"
	TimeSweep      = "time the sweep of connections"
	timeNATSweep   = "time the sweep of NAT sessions"
	WriteLog       = "write the log"
)

// IsMinor reports whether a fault is one of readings, with which packets still go where they
// should.
func IsMinor(what string) bool {
	return slices.Contains([]string{readDrops, WatchFlowCache, readCounters, readLimits, readLog, TimeSweep, timeNATSweep, WriteLog}, what)
}

// LogChanges logs the problems that are new and those that are over.
func LogChanges(log *slog.Logger, was, now []problem.Problem) {
	logChanges(log, was, now, func(p problem.Problem) problem.Problem { return p })
}

// LogKinds is LogChanges where a problem whose figures changed is the same.
func LogKinds(log *slog.Logger, was, now []problem.Problem) {
	logChanges(log, was, now, withoutFigures)
}

// NewKinds are the problems that are new, where one whose figures changed is the same.
func NewKinds(was, now []problem.Problem) []problem.Problem { return others(now, was, withoutFigures) }

// logChanges takes problems for the same whose keys are.
func logChanges(log *slog.Logger, was, now []problem.Problem, key func(problem.Problem) problem.Problem) {
	for _, p := range others(now, was, key) {
		Raised(log, p)
	}
	for _, p := range others(was, now, key) {
		Cleared(log, p.Text)
	}
}

// others are the problems of a list that are not in another, each once.
func others(list, but []problem.Problem, key func(problem.Problem) problem.Problem) (left []problem.Problem) {
	known := make(map[problem.Problem]bool, len(but))
	for _, p := range but {
		known[key(p)] = true
	}
	for _, p := range list {
		if k := key(p); !known[k] {
			known[k] = true
			left = append(left, p)
		}
	}
	return left
}

// withoutFigures is a problem without its numbers, times and percentages. Names and addresses stay.
func withoutFigures(p problem.Problem) problem.Problem {
	words := strings.Fields(p.Text)
	for i, w := range words {
		if isFigure(strings.Trim(w, "(),:;")) {
			words[i] = "#"
		}
	}
	return problem.Problem{Severity: p.Severity, Text: strings.Join(words, " ")}
}

func isFigure(word string) bool {
	if _, err := time.Parse(time.TimeOnly, word); err == nil {
		return true
	}
	if word == "" || strings.Count(word, ".") > 1 || word[0] < '0' || word[0] > '9' {
		return false
	}
	return strings.Trim(word, "0123456789.,%hmsµnu") == ""
}

// Raised logs a problem that is new.
func Raised(log *slog.Logger, p problem.Problem) {
	level := slog.LevelWarn
	switch p.Severity {
	case problem.SeverityNote:
		level = slog.LevelInfo
	case problem.SeverityError:
		level = slog.LevelError
	}
	log.Log(context.Background(), level, p.Text, event.Is(event.ProblemRaised))
}

// Cleared logs that a problem is over.
func Cleared(log *slog.Logger, text string) {
	log.Info("problem cleared: "+text, event.Is(event.ProblemCleared))
}

// TimeShare is the time between readings, or sweeps, in the processor time that one takes:
// they walk all the memory of large tables, and cost one per cent of a core at most. Waiting
// for a core costs nothing, and must not put an alarm off.
const TimeShare = 100

// Timed does f, and says how long a core was busy with it.
func Timed(f func() error) (time.Duration, error) {
	runtime.LockOSThread() // the clock is the thread's
	defer runtime.UnlockOSThread()
	var began, ended unix.Timespec
	clock := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &began)
	err := f()
	clock = errors.Join(clock, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ended))
	if clock != nil {
		clock = fmt.Errorf("processor time of a thread: %w", clock)
	}
	return time.Duration(ended.Nano() - began.Nano()), errors.Join(err, clock)
}
