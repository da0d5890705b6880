// Package watch asks boxes on the way for figures of theirs while something is measured: a firewall, a switch or a router
// that has a command line of its own and runs no program of others.
//
// Its one invariant: it changes nothing at a box, and asks it once a second at most. Do not use it for a host that runs
// an agent (lab/agent), which reads more.
package watch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/result"
)

// Bounds of the questions to a box.
const (
	askPace    = time.Second      // between the beginnings of two questions, at least
	askTime    = 10 * time.Second // that an answer may take
	mostAsked  = 20_000           // questions of a run
	mostSeries = 64               // of different names
)

// Flags are those of commands that watch boxes.
type Flags struct {
	WatchDevice  []place.Place `placeholder:"PLACE" help:"A box on the way that runs no program of others, such as a firewall or a switch: ssh:[USER@]HOST[:PORT]. --watch-command is asked there."`
	WatchCommand []string      `sep:"none" placeholder:"CMD" help:"What to ask it, once a second at most; one for each --watch-device, in their order."`
	WatchPattern []string      `sep:"none" placeholder:"RE" help:"Regular expression that finds the numbers in the answer: in its group value, or the first one. Its group name, if there is one, names the series."`
}

// Check says what is missing or wrong.
func (f *Flags) Check() error {
	if len(f.WatchDevice) != len(f.WatchCommand) || len(f.WatchDevice) != len(f.WatchPattern) {
		return fmt.Errorf("--watch-device, --watch-command and --watch-pattern belong together: there are %d, %d and %d of them",
			len(f.WatchDevice), len(f.WatchCommand), len(f.WatchPattern))
	}
	var errs []error
	for i, p := range f.WatchDevice {
		if p.Kind != place.SSH {
			errs = append(errs, fmt.Errorf("--watch-device: %s is not reached by SSH: ssh:[USER@]HOST[:PORT]", p))
		}
		if re, err := regexp.Compile(f.WatchPattern[i]); err != nil {
			errs = append(errs, fmt.Errorf("--watch-pattern: %w", err))
		} else if re.NumSubexp() == 0 {
			errs = append(errs, fmt.Errorf("--watch-pattern: %q has no group for the number, as in (\\d+)%% user", f.WatchPattern[i]))
		}
	}
	return errors.Join(errs...)
}

// Devices ask all boxes until they are stopped.
type Devices struct {
	stop context.CancelFunc
	wait sync.WaitGroup
	all  []result.Device
}

// Start begins to ask. Times are since began. What it returns has to be ended.
func (f *Flags) Start(ctx context.Context, o place.Options, began time.Time) *Devices {
	ctx, stop := context.WithCancel(ctx)
	d := &Devices{stop: stop, all: make([]result.Device, len(f.WatchDevice))}
	for i, p := range f.WatchDevice {
		device := &d.all[i]
		*device = result.Device{Place: p.String(), Command: f.WatchCommand[i], Pattern: f.WatchPattern[i], Series: []result.DeviceSeries{}}
		pattern := regexp.MustCompile(f.WatchPattern[i]) // Check has compiled it
		d.wait.Go(func() {
			everyPace(ctx, func() {
				question, cancel := context.WithTimeoutCause(ctx, askTime, fmt.Errorf("no answer in %s", askTime))
				defer cancel()
				asked := time.Now()
				answer, err := place.Ask(question, p, o, device.Command)
				at := asked.Add(time.Since(asked) / 2).Sub(began).Seconds()
				if ctx.Err() != nil {
					return // the run is over, and with it the question, whatever its error says
				}
				note(device, pattern, at, answer, err)
			})
		})
	}
	return d
}

// everyPace calls f again and again, at most at the pace, until ctx ends.
func everyPace(ctx context.Context, f func()) {
	ticker := time.NewTicker(askPace)
	defer ticker.Stop()
	for range mostAsked {
		f()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// End stops asking and returns what came.
func (d *Devices) End() []result.Device {
	d.stop()
	d.wait.Wait()
	return d.all
}

// note adds what the pattern finds in an answer to the series.
func note(d *result.Device, pattern *regexp.Regexp, at float64, answer string, err error) {
	d.Asked++
	found := 0
	if err == nil {
		for _, match := range pattern.FindAllStringSubmatch(answer, mostSeries) {
			name, value, numeric := valueOf(pattern, match)
			if numeric && addValue(d, name, at, value) {
				found++
			}
		}
		if found == 0 {
			err = fmt.Errorf("--watch-pattern %q finds no number in its answer, which begins with %.120q", d.Pattern, answer)
		}
	}
	if err != nil {
		if d.Failed++; d.Error == "" {
			d.Error = err.Error()
		}
	}
}

// valueOf is what one match says.
func valueOf(pattern *regexp.Regexp, match []string) (name string, value float64, numeric bool) {
	at, named := pattern.SubexpIndex("value"), pattern.SubexpIndex("name")
	if at < 0 {
		at = 1
		if named == 1 && len(match) > 2 {
			at = 2
		}
	}
	if named >= 0 {
		name = match[named]
	}
	value, err := strconv.ParseFloat(match[at], 64)
	return name, value, err == nil && !math.IsNaN(value) && !math.IsInf(value, 0)
}

// addValue adds a value to the series of its name, unless there are too many names.
func addValue(d *result.Device, name string, at, value float64) bool {
	i := slices.IndexFunc(d.Series, func(s result.DeviceSeries) bool { return s.Name == name })
	if i < 0 {
		if len(d.Series) == mostSeries {
			return false
		}
		i = len(d.Series)
		d.Series = append(d.Series, result.DeviceSeries{Name: name})
	}
	s := &d.Series[i]
	s.Times, s.Values = append(s.Times, at), append(s.Values, value)
	return true
}
