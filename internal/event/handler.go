package event

import (
	"context"
	"encoding"
	"fmt"
	"log/slog"
	"math"

	"github.com/selvage/selvage/internal/printable"
	"github.com/selvage/selvage/internal/problem"
)

// Attributes that say what every event of an edge has, or has elsewhere.
const (
	edgeKey = "edge"
	byKey   = "by"
	// SubsystemKey is of the attribute that says which part of an edge logs. Handlers of package logging know it too.
	SubsystemKey = "subsystem"
)

// Handler makes events of the log lines that are some, and hands on all lines. Events are kept whatever the level of the log
// is.
type Handler struct {
	next  slog.Handler
	to    *Log
	attrs []slog.Attr
}

// NewHandler has events of lines for next be added to a Log.
func NewHandler(next slog.Handler, to *Log) *Handler { return &Handler{next: next, to: to} }

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || h.next.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{h.next.WithAttrs(attrs), h.to, append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

// WithGroup implements slog.Handler. Events have no groups.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.next.WithGroup(name), h.to, h.attrs}
}

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	kind := kindOf(r)
	actor := ActorOf(ctx)
	if kind != "" {
		h.to.Add(h.eventOf(kind, actor, r))
	}
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	if kind != "" && actor.How != "" && !has(r, byKey) {
		r = r.Clone()
		r.AddAttrs(slog.String(byKey, actor.String()))
	}
	return h.next.Handle(ctx, r)
}

func kindOf(r slog.Record) (kind Kind) {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == key {
			kind, _ = a.Value.Any().(Kind)
		}
		return kind == ""
	})
	return kind
}

func has(r slog.Record, name string) (found bool) {
	r.Attrs(func(a slog.Attr) bool {
		found = a.Key == name
		return !found
	})
	return found
}

func (h *Handler) eventOf(kind Kind, by Actor, r slog.Record) Event {
	e := Event{Time: r.Time, Kind: kind, Severity: severity(r.Level), Text: printable.Bounded(r.Message, mostText), Fields: map[string]any{}}
	if by.How != "" {
		e.By = &by
	}
	add := func(a slog.Attr) bool {
		switch a.Key {
		case key, edgeKey, SubsystemKey:
		default:
			if len(e.Fields) < mostFields {
				e.Fields[printable.Bounded(a.Key, mostField)] = value(a.Value)
			}
		}
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	e.Object = Object{Type: edgeKey}
	if object := about(kind).Object; object != "" {
		e.Object.Type = object
		if name, ok := e.Fields[object]; ok {
			e.Object.Name = fmt.Sprint(name)
		}
	}
	return e
}

func severity(l slog.Level) problem.Severity {
	switch {
	case l >= slog.LevelError:
		return problem.SeverityError
	case l >= slog.LevelWarn:
		return problem.SeverityWarning
	}
	return problem.SeverityNote
}

// value is a text, a number or a boolean.
func value(v slog.Value) any {
	v = v.Resolve()
	switch v.Kind() {
	case slog.KindInt64:
		return v.Int64()
	case slog.KindUint64:
		return v.Uint64()
	case slog.KindFloat64:
		if f := v.Float64(); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f
		}
	case slog.KindBool:
		return v.Bool()
	}
	if m, ok := v.Any().(encoding.TextMarshaler); ok && v.Kind() == slog.KindAny {
		if text, err := m.MarshalText(); err == nil {
			return printable.Bounded(string(text), mostField)
		}
	}
	return printable.Bounded(v.String(), mostField)
}
