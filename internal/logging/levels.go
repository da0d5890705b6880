package logging

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// subsystemKey is of the attribute that says which part of an edge logs.
const subsystemKey = "subsystem"

// General is the subsystem of lines of none.
const General = "edge"

// Subsystems are the parts of an edge whose levels can be set.
var Subsystems = []string{General, "alarms", "api", "bgp", "config", "failover", "firewall", "gateway", "host", "hosts", "loops", "nat", "paths"}

// For is a logger of a subsystem.
func For(log *slog.Logger, subsystem string) *slog.Logger { return log.With(subsystemKey, subsystem) }

// A subsystem may write so many lines a second, after so many at once: whoever sets a level to debug must not fill a disk.
// Lines of packets have rates of their own in the configuration.
const (
	rate  = 500
	burst = 5000
)

var ownRate = []string{"firewall", "nat"}

// Levels are from which level on lines of subsystems are written.
type Levels struct {
	format     Format
	configured slog.Level
	writer     *Writer
	parts      map[string]*part // never changed
}

type part struct {
	name  string
	level slog.LevelVar

	mu         sync.Mutex
	unlimited  bool
	left       float64
	last       time.Time
	suppressed uint64 // since the last line
	all        uint64 // ever
}

func newLevels(format Format, level slog.Level, w *Writer) *Levels {
	l := &Levels{format: format, configured: level, writer: w, parts: map[string]*part{}}
	for _, name := range Subsystems {
		p := &part{name: name, unlimited: slices.Contains(ownRate, name), left: burst}
		p.level.Set(level)
		l.parts[name] = p
	}
	return l
}

// Level is what there is of one subsystem.
type Level struct {
	Subsystem, Level, Configured string
	Suppressed                   uint64 // lines over the rate
}

// List are the levels of all subsystems, in the order of Subsystems.
func (l *Levels) List() (list []Level) {
	for _, name := range Subsystems {
		p := l.parts[name]
		p.mu.Lock()
		list = append(list, Level{name, LevelName(p.level.Level()), LevelName(l.configured), p.all})
		p.mu.Unlock()
	}
	return list
}

// Format is that of the lines.
func (l *Levels) Format() string { return string(l.format) }

// Lost is how many lines nobody took.
func (l *Levels) Lost() uint64 { return l.writer.Lost() }

// Set sets the level of a subsystem, or of all for "". The level default is the configured one. It lasts until the process ends.
func (l *Levels) Set(subsystem, level string) error {
	to := l.configured
	if level != "default" {
		var err error
		if to, err = ParseLevel(level); err != nil {
			return fmt.Errorf("level %q: %w, default", level, err)
		}
	}
	if subsystem == "" {
		for _, p := range l.parts {
			p.level.Set(to)
		}
		return nil
	}
	p, ok := l.parts[subsystem]
	if !ok {
		return fmt.Errorf("there is no subsystem %q; there are: %s", subsystem, strings.Join(Subsystems, ", "))
	}
	p.level.Set(to)
	return nil
}

// handler hands on what is to be written.
func (l *Levels) handler(next slog.Handler) slog.Handler { return &leveled{next, l, l.parts[General]} }

// leveled is a handler of the lines of one subsystem.
type leveled struct {
	next   slog.Handler
	levels *Levels
	part   *part
}

// Enabled implements slog.Handler.
func (h *leveled) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.part.level.Level()
}

// WithGroup implements slog.Handler.
func (h *leveled) WithGroup(name string) slog.Handler {
	return &leveled{h.next.WithGroup(name), h.levels, h.part}
}

// WithAttrs implements slog.Handler. A subsystem that is not known is that of its parent.
func (h *leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	p := h.part
	for _, a := range attrs {
		if known, ok := h.levels.parts[a.Value.String()]; ok && a.Key == subsystemKey {
			p = known
		}
	}
	return &leveled{h.next.WithAttrs(attrs), h.levels, p}
}

// Handle implements slog.Handler.
func (h *leveled) Handle(ctx context.Context, r slog.Record) error {
	spare, suppressed := h.part.take(time.Now())
	if !spare {
		return nil
	}
	if suppressed > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Uint64("suppressed", suppressed))
	}
	return h.next.Handle(ctx, r)
}

// take says whether there is room for a line, and how many before it had none.
func (p *part) take(now time.Time) (spare bool, suppressed uint64) {
	if p.unlimited {
		return true, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.last.IsZero() {
		p.left = min(burst, p.left+now.Sub(p.last).Seconds()*rate)
	}
	p.last = now
	if p.left < 1 {
		p.suppressed++
		p.all++
		return false, 0
	}
	p.left--
	suppressed, p.suppressed = p.suppressed, 0
	return true, suppressed
}
