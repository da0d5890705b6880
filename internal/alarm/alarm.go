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
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/problem"
)

// Options are where alarms and faults are told.
type Options struct {
	Log *slog.Logger
	// Report keeps an error as a problem until it is called with nil.
	Report func(what string, err error)
}

// sweepEvery calls each at every tick until ctx ends, and sweep after it: two of those are least apart, or more where they
// cost much. timing names the fault of a clock that cannot be read.
func (o Options) sweepEvery(ctx context.Context, least time.Duration, timing string, each, sweep func()) {
	tick := time.NewTicker(LogEvery)
	defer tick.Stop()
	var notBefore time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		each()
		begin := time.Now()
		if begin.Before(notBefore) {
			continue
		}
		took, err := Timed(func() error {
			sweep()
			return nil
		})
		o.Report(timing, err)
		notBefore = begin.Add(max(least, TimeShare*took))
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
	for _, p := range now {
		if !slices.Contains(was, p) {
			log.Warn("problem", "what", p.Text, "severity", p.Severity)
		}
	}
	for _, p := range was {
		if !slices.Contains(now, p) {
			log.Info("problem cleared", "what", p.Text)
		}
	}
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
