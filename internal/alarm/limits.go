package alarm

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/problem"
)

// Modes of a limit.
const modeEnforce, modeObserve = "enforce", "observe"

// Units of limits.
const unitEntries, unitPerSecond = "entries", "per-second"

// LimitInfos are the limits of ports and segments: of entries, then of rates.
func LimitInfos(usages []datapath.LimitUsage) (list []api.LimitInfo) {
	for _, u := range usages {
		list = append(list, limitInfos(u)...)
	}
	return list
}

// limitInfos are those of one port or segment.
func limitInfos(u datapath.LimitUsage) (list []api.LimitInfo) {
	mode := modeEnforce
	if u.Observe {
		mode = modeObserve
	}
	for _, c := range u.Counts {
		list = append(list, api.LimitInfo{
			Kind: string(u.Kind), Owner: u.Owner, Limit: c.Name, Description: c.Description, Unit: unitEntries,
			Used: c.Used, Max: c.Limit, Exceeded: c.Exceeded, Mode: mode,
		})
	}
	for _, r := range u.Rates {
		l := api.LimitInfo{
			Kind: string(u.Kind), Owner: u.Owner, Limit: r.Name, Description: r.Description, Unit: unitPerSecond,
			Max: r.Limit, Exceeded: r.Exceeded, Mode: mode,
		}
		if !r.Sent { // by guests, but by the edge
			l.Mode = modeEnforce
		}
		list = append(list, l)
	}
	return list
}

// LimitUsages are what ports and segments have taken of what all share.
type LimitUsages interface {
	LimitUsages() ([]datapath.LimitUsage, error)
}

// ReadLimits are those of all ports and segments.
func ReadLimits(from LimitUsages) ([]api.LimitInfo, error) {
	usages, err := from.LimitUsages()
	return LimitInfos(usages), err
}

// Limits watches over limits that are exceeded.
type Limits struct {
	o    Options
	mu   sync.Mutex
	last limitWatch
}

// NewLimits has seen nothing.
func NewLimits(o Options) *Limits { return &Limits{o: o} }

// Look takes a reading, and logs what began and ended.
func (l *Limits) Look(from LimitUsages) {
	limits, err := ReadLimits(from)
	l.o.Report(readLimits, err)
	if err != nil {
		return
	}
	was := l.now()
	next := was.after(time.Now(), limits)
	l.mu.Lock()
	l.last = next
	l.mu.Unlock()
	for _, key := range next.keys() {
		if _, known := was.alarms[key]; !known {
			Raised(l.o.Log, problem.Warning("%s", next.text(key)))
		}
	}
	for _, key := range was.keys() {
		if _, still := next.alarms[key]; !still {
			Cleared(l.o.Log, fmt.Sprintf("%s %s: limit of %s", key.kind, key.owner, key.limit))
		}
	}
}

func (l *Limits) now() limitWatch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Problems are the limits that are exceeded, or some of many.
func (l *Limits) Problems() []problem.Problem { return l.now().problems() }

// IsExceeded reports whether the alarm of a limit is raised.
func (l *Limits) IsExceeded(limit api.LimitInfo) bool {
	_, raised := l.now().alarms[limitKey{limit.Kind, limit.Owner, limit.Limit}]
	return raised
}

// limitKey names a limit of a port or segment.
type limitKey struct{ kind, owner, limit string }

// limitAlarm is of a limit that is exceeded.
type limitAlarm struct {
	info    api.LimitInfo
	refused uint64 // in the last interval in which there were any
	quiet   int    // intervals in a row without any
}

// limitWatch is what was seen of the limits. Its zero value has seen nothing. It is replaced, never
// changed.
type limitWatch struct {
	readAt time.Time
	last   map[limitKey]uint64 // what each limit had refused
	alarms map[limitKey]limitAlarm
	every  time.Duration // of the last interval
}

// after is the watch with one more reading. An alarm begins with the first packet or entry above a
// limit, since no honest guest comes near; it ends after some intervals without any, so that it
// does not flap.
func (w limitWatch) after(at time.Time, limits []api.LimitInfo) limitWatch {
	next := limitWatch{readAt: at, last: make(map[limitKey]uint64, len(limits)), alarms: map[limitKey]limitAlarm{}, every: at.Sub(w.readAt)}
	for _, l := range limits {
		key := limitKey{l.Kind, l.Owner, l.Limit}
		next.last[key] = l.Exceeded
		before := w.last[key]                         // 0 of a new port
		if w.readAt.IsZero() || l.Exceeded < before { // of a former process, or begun anew
			continue
		}
		a, was := w.alarms[key]
		a.info = l
		switch refused := l.Exceeded - before; {
		case refused > 0:
			a.refused, a.quiet = refused, 0
		case !was:
			continue
		default:
			a.quiet++
		}
		if a.quiet < endAfter {
			next.alarms[key] = a
		}
	}
	return next
}

// keys are those of the alarms, in order.
func (w limitWatch) keys() []limitKey {
	list := make([]limitKey, 0, len(w.alarms))
	for key := range w.alarms {
		list = append(list, key)
	}
	slices.SortFunc(list, func(a, b limitKey) int {
		return slices.Compare([]string{a.kind, a.owner, a.limit}, []string{b.kind, b.owner, b.limit})
	})
	return list
}

// mostLimitProblems bounds what status says of limits; `selvage limits` has all.
const mostLimitProblems = 10

func (w limitWatch) problems() (list []problem.Problem) {
	keys := w.keys()
	for i, key := range keys {
		if i == mostLimitProblems {
			return append(list, problem.Warning("limits: %d further limits are exceeded: see `selvage limits`", len(keys)-i))
		}
		list = append(list, problem.Warning("%s", w.text(key)))
	}
	return list
}

// text puts an alarm into words.
func (w limitWatch) text(key limitKey) string {
	a := w.alarms[key]
	most, verb := strconv.FormatUint(uint64(a.info.Max), 10), "refused"
	if a.info.Unit == unitPerSecond {
		most += "/s"
	} else {
		verb = "evicted or refused"
	}
	if a.info.Mode == modeObserve {
		verb = "would be " + verb
	}
	return fmt.Sprintf("%s %s exceeds its limit of %s (%s): %d %s in %s: check what is behind it, or raise limits.%s; see `selvage limits --%s %s`",
		key.kind, key.owner, a.info.Description, most, a.refused, verb, w.every.Round(time.Second), field(key.limit), key.kind, key.owner)
}

// field is the name of a limit in the configuration.
func field(limit string) string {
	name, up := []byte{}, false
	for _, c := range []byte(limit) {
		switch {
		case c == '-':
			up = true
		case up:
			name, up = append(name, c-'a'+'A'), false
		default:
			name = append(name, c)
		}
	}
	return string(name)
}
