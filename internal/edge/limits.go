package edge

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/problem"
)

// readLimits names the fault of limits that cannot be read.
const readLimits = "read what is used of limits"

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

// allLimits are those of all ports and segments. mu is held.
func (e *edge) allLimits() ([]api.LimitInfo, error) {
	usages, err := e.dp.Limits.LimitUsages()
	return LimitInfos(usages), err
}

// portLimits are those of ports, by name. mu is held.
func (e *edge) portLimits() (map[string][]api.LimitInfo, error) {
	all, err := e.allLimits()
	limits := map[string][]api.LimitInfo{}
	for _, l := range all {
		if l.Kind == string(datapath.OwnerPort) {
			limits[l.Owner] = append(limits[l.Owner], l)
		}
	}
	return limits, err
}

func (e *edge) limitDocuments() ([]api.LimitInfo, error) {
	return read(e, "limits", func() ([]api.LimitInfo, error) {
		list, err := e.allLimits()
		return append([]api.LimitInfo{}, list...), err
	})
}

// ownerKinds are those by which drops are listed.
var ownerKinds = []string{string(datapath.OwnerPort), string(datapath.OwnerSegment), string(datapath.OwnerRemote)}

func (e *edge) ownerDropDocuments(v url.Values) ([]api.OwnerDropInfo, error) {
	kind, err := OwnerKindOf(v)
	if err != nil {
		return nil, err
	}
	return read(e, "drops", func() ([]api.OwnerDropInfo, error) {
		drops, err := e.dp.Drops.OwnerDrops(kind)
		return OwnerDropInfos(drops), err
	})
}

// OwnerKindOf reads the kind of owners from a question for their drops.
func OwnerKindOf(v url.Values) (datapath.OwnerKind, error) {
	a := api.Arguments{Values: v}
	kind := a.OneOf(api.ArgBy, ownerKinds)
	if err := a.End(); err != nil {
		return "", err
	}
	if kind == "" {
		return "", api.BadRequest{Err: fmt.Errorf("%s is required: one of %v", api.ArgBy, ownerKinds)}
	}
	return datapath.OwnerKind(kind), nil
}

// OwnerDropInfos are drops as documents have them.
func OwnerDropInfos(drops []datapath.OwnerDrop) []api.OwnerDropInfo {
	list := make([]api.OwnerDropInfo, 0, len(drops))
	for _, d := range drops {
		list = append(list, api.OwnerDropInfo{Kind: string(d.Kind), Owner: d.Owner, DropInfo: api.DropInfo(d.Drop)})
	}
	return list
}

// limitKey names a limit of a port or segment.
type limitKey struct{ kind, owner, limit string }

// limitAlarm is of a limit that is exceeded.
type limitAlarm struct {
	info    api.LimitInfo
	refused uint64 // in the last interval in which there were any
	quiet   int    // intervals in a row without any
}

// limitWatch is what the loop saw of the limits. Its zero value has seen nothing.
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

// watchLimits takes a reading, and logs what began and ended.
func (e *edge) watchLimits() {
	limits, err := e.allLimits()
	e.reportProblem(readLimits, err)
	if err != nil {
		return
	}
	was := e.limits
	next := was.after(time.Now(), limits)
	e.mu.Lock()
	e.limits = next
	e.mu.Unlock()
	for _, key := range next.keys() {
		if _, known := was.alarms[key]; !known {
			e.log.Warn("problem", "what", next.text(key))
		}
	}
	for _, key := range was.keys() {
		if _, still := next.alarms[key]; !still {
			e.log.Info("problem cleared", "what", fmt.Sprintf("%s %s: limit of %s", key.kind, key.owner, key.limit))
		}
	}
}

// limitMetrics have series of what is used, or was exceeded: they are as many as there is to see.
func (e *edge) limitMetrics(p *page) error {
	limits, err := e.allLimits()
	if err != nil {
		return err
	}
	const used, most, exceeded, alarm = "selvage_limit_used", "selvage_limit_max", "selvage_limit_exceeded_total", "selvage_limit_alarm"
	isUsed := func(l api.LimitInfo) bool { return l.Used > 0 }
	isExceeded := func(l api.LimitInfo) bool { return l.Exceeded > 0 }
	for _, m := range []struct {
		kind, name, help string
		shown            func(api.LimitInfo) bool
		value            func(api.LimitInfo) uint64
	}{
		{gauge, used, "Entries that a port or segment has of what has a limit.", isUsed, func(l api.LimitInfo) uint64 { return uint64(l.Used) }},
		{gauge, most, "The limit of a port or segment of which some is used.", isUsed, func(l api.LimitInfo) uint64 { return uint64(l.Max) }},
		{counter, exceeded, "Entries and packets above the limit of a port or segment.", isExceeded, func(l api.LimitInfo) uint64 { return l.Exceeded }},
		{gauge, alarm, "1 while a port or segment exceeds the limit.", isExceeded, func(l api.LimitInfo) uint64 {
			_, on := e.limits.alarms[limitKey{l.Kind, l.Owner, l.Limit}]
			return flag(on)
		}},
	} {
		p.family(m.kind, m.name, m.help)
		for _, l := range limits {
			if m.shown(l) {
				p.sample(m.name, m.value(l), "kind", l.Kind, "owner", l.Owner, "limit", l.Limit)
			}
		}
	}
	return nil
}

// ownerDropMetrics have a series for each owner and reason that has drops.
func (e *edge) ownerDropMetrics(p *page) error {
	const name = "selvage_owner_drops_total"
	p.family(counter, name, "Packets of a port, segment or remote that were dropped, by reason.")
	for _, kind := range ownerKinds {
		drops, err := e.dp.Drops.OwnerDrops(datapath.OwnerKind(kind))
		if err != nil {
			return err
		}
		for _, d := range drops {
			if d.Owner != "" {
				p.sample(name, d.Packets, "kind", kind, "owner", d.Owner, "reason", d.Reason)
			}
		}
	}
	return nil
}
