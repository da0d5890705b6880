package event

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/selvage/selvage/internal/problem"
)

// One call makes an event with its object, fields and who asked, and the log line of the same text.
func TestOneCallMakesEventAndLine(t *testing.T) {
	var text bytes.Buffer
	l := New()
	log := slog.New(NewHandler(slog.NewTextHandler(&text, nil), l)).With("edge", "a", "subsystem", "loops")
	ctx := WithActor(t.Context(), Actor{How: BySocket, User: "root", PID: 7, For: "ann"})
	log.WarnContext(ctx, "port cut off", Is(PortCut), "port", "p0", "after", 3*time.Second, "probes", 4)
	log.Info("this is no event")
	quiet := slog.New(NewHandler(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelError}), l))
	quiet.Info("port thawed", Is(PortThawed)) // an event whatever the level of the log is
	got := l.Read(Filter{}, 0).Events
	if len(got) != 2 || got[1].Kind != PortThawed {
		t.Fatalf("%d events: %+v", len(got), got)
	}
	e := got[0]
	if e.Number != 1 || e.Kind != PortCut || e.Severity != problem.SeverityWarning || e.Object != (Object{"port", "p0"}) || e.Text != "port cut off" ||
		e.By.String() != "root for ann (PID 7)" || e.Fields["after"] != "3s" || e.Fields["probes"] != int64(4) || len(e.Fields) != 3 || e.Time.IsZero() {
		t.Errorf("event %+v by %v", e, e.By)
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `msg="port cut off" edge=a subsystem=loops event=port-cut port=p0`) ||
		!strings.Contains(lines[0], `by="root for ann (PID 7)"`) {
		t.Errorf("lines %q", lines)
	}
}

// Texts of the network cannot break lines, nor take much room.
func TestBounds(t *testing.T) {
	l := New()
	log := slog.New(NewHandler(slog.DiscardHandler, l))
	args := []any{Is(BGPDown), "neighbour", "spine\n\x1b[2J", "why", strings.Repeat("ä", 5000)}
	for i := range 2 * mostFields {
		args = append(args, fmt.Sprint("field", i), i)
	}
	log.Warn(strings.Repeat("x", 5000), args...)
	e := l.Read(Filter{}, 0).Events[0]
	why, _ := e.Fields["why"].(string)
	if len(e.Text) > mostText || len(why) > mostField || !strings.HasSuffix(why, "ä…") || len(e.Fields) > mostFields || e.Object.Name != "spine �[2J" {
		t.Errorf("%d bytes of text, %d of a field, %d fields, object %q", len(e.Text), len(why), len(e.Fields), e.Object.Name)
	}
}

// What is kept is bounded, busy kinds push out no others, and who comes late is told how many are missing.
func TestKeptAndMissed(t *testing.T) {
	l := New()
	l.Add(Event{Kind: LinkDown, Text: "the one that matters"})
	const moves = 3*mostEvents + 17
	for range moves {
		l.Add(Event{Kind: MACMoved, Fields: map[string]any{"mac": "02:00:00:00:00:01"}})
	}
	b := l.Read(Filter{}, 0)
	if len(b.Events) > mostEvents+1 || b.Events[0].Kind != LinkDown || b.Next != moves+1 || b.Missed+uint64(len(b.Events)) != moves+1 {
		t.Errorf("%d events, the first %s, next %d, missed %d", len(b.Events), b.Events[0].Kind, b.Next, b.Missed)
	}
	if n := l.Counts(); n[MACMoved] != moves || n[LinkDown] != 1 || len(n) != len(Kinds()) {
		t.Errorf("counted %v", n)
	}
	l.Add(Event{Kind: "of a later release"})
	if n := l.Counts(); len(n) != len(Kinds()) {
		t.Errorf("counted %v", n)
	}
	if len(l.busy.events) > 2*mostEvents+1 || l.busy.bytes > mostBytes {
		t.Errorf("%d events of %d bytes are kept", len(l.busy.events), l.busy.bytes)
	}
	for range mostEvents {
		l.Add(Event{Kind: LinkUp, Text: strings.Repeat("x", mostText)})
	}
	if l.quiet.bytes > mostBytes {
		t.Errorf("%d bytes are kept", l.quiet.bytes)
	}
}

// Who follows gets each event once, in order, in batches of the size it asks for, and the end.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		const events = 1000
		done := make(chan []uint64)
		go func() {
			var got []uint64
			f := Filter{Kinds: []Kind{LinkUp}}
			for {
				b, more, err := l.Wait(t.Context(), f, 7)
				if err != nil || b.Missed != 0 || len(b.Events) > 7 {
					t.Errorf("%d events, missed %d: %v", len(b.Events), b.Missed, err)
				}
				for _, e := range b.Events {
					got = append(got, e.Number)
				}
				if f.After = b.Next; !more {
					done <- got
					return
				}
			}
		}()
		for i := range events {
			l.Add(Event{Kind: []Kind{LinkUp, LinkDown}[i%2]})
			if i%50 == 0 {
				synctest.Wait()
			}
		}
		l.End()
		got := <-done
		if len(got) != events/2 || !slices.IsSorted(got) || len(slices.Compact(got)) != events/2 {
			t.Errorf("%d events", len(got))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, more, err := l.Wait(ctx, Filter{After: events}, 0); more || err != nil {
			t.Errorf("after the end: %v, %v", more, err)
		}
		if _, _, err := New().Wait(ctx, Filter{}, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("a follower that went: %v", err)
		}
	})
}

func TestFilter(t *testing.T) {
	now := time.Now()
	e := Event{Number: 5, Time: now, Kind: BGPDown, Severity: problem.SeverityWarning, Object: Object{"neighbour", "spine"}}
	for _, tt := range []struct {
		f    Filter
		want bool
	}{
		{Filter{}, true}, {Filter{After: 4}, true}, {Filter{After: 5}, false}, {Filter{Since: now}, true}, {Filter{Since: now.Add(1)}, false},
		{Filter{Kinds: []Kind{BGPUp, BGPDown}}, true}, {Filter{Kinds: []Kind{BGPUp}}, false}, {Filter{Severity: problem.SeverityNote}, true},
		{Filter{Severity: problem.SeverityError}, false}, {Filter{Object: "spine"}, true}, {Filter{Object: "leaf"}, false},
	} {
		if tt.f.Has(e) != tt.want {
			t.Errorf("%+v: %t", tt.f, !tt.want)
		}
	}
}

func TestParseKinds(t *testing.T) {
	for text, want := range map[string][]Kind{
		"port-cut": {PortCut}, "mac": {MACFrozen, MACMoved, MACThawed}, "mac-moved,mac,link-up": {LinkUp, MACFrozen, MACMoved, MACThawed},
	} {
		if got, err := ParseKinds(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if _, err := ParseKinds("bgp,nothing"); err == nil || !strings.Contains(err.Error(), `"nothing"`) || !strings.Contains(err.Error(), "port-cut") {
		t.Errorf("error %v", err)
	}
}

// The kinds are different, and each is documented.
func TestKinds(t *testing.T) {
	seen := map[Kind]bool{}
	for _, a := range Kinds() {
		if seen[a.Kind] || a.Text == "" || strings.ToLower(string(a.Kind)) != string(a.Kind) {
			t.Errorf("kind %+v", a)
		}
		seen[a.Kind] = true
	}
}

// A later process goes on with the numbers and events of the former one, however that ended.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.events")
	var was []Event
	for process := range 3 {
		l := New()
		if err := l.Join(path); err != nil {
			t.Fatal(err)
		}
		if got := l.Read(Filter{}, 0).Events; fmt.Sprint(texts(got)) != fmt.Sprint(texts(was)) {
			t.Fatalf("process %d has %v, want %v", process, texts(got), texts(was))
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.Keep(t.Context(), path, func(err error) {
				if err != nil {
					t.Errorf("keep: %v", err)
				}
			})
		}()
		for i := range 5 {
			l.Add(Event{Kind: LinkUp, Text: fmt.Sprintf("%d of process %d", i, process)})
		}
		l.End()
		<-done
		was = l.Read(Filter{}, 0).Events
		if n := was[len(was)-1].Number; n != uint64(5*process+5) {
			t.Errorf("number %d after process %d", n, process)
		}
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(f, `{"number": 99, "text": "cut sho`) // killed while it wrote
		f.Close()
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file %v: %v", info, err)
	}
}

// The file does not grow without bound, and what comes to a full disk is kept once there is room.
func TestFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.events")
	l := New()
	k := keeper{log: l, path: path}
	defer k.close()
	if err := k.anew(); err != nil {
		t.Fatal(err)
	}
	batch := make([]Event, 100)
	for i := range batch {
		batch[i] = Event{Kind: MACMoved, Text: strings.Repeat("x", mostText)}
	}
	for range 100 {
		from := l.Last()
		for _, e := range batch {
			l.Add(e)
		}
		if err := k.write(l.Read(Filter{After: from}, 0).Events); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > mostFile {
		t.Fatalf("%d bytes: %v", info.Size(), err)
	}
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	k.close()
	if err := k.write(batch); err == nil {
		t.Error("written nowhere")
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	l.Add(Event{Kind: LinkUp, Text: "there is room"})
	if err := k.write(nil); err != nil {
		t.Fatal(err)
	}
	if kept, err := ReadFile(path); err != nil || kept[len(kept)-1].Text != "there is room" {
		t.Errorf("%d events: %v", len(kept), err)
	}
}

func texts(list []Event) (all []string) {
	for _, e := range list {
		all = append(all, fmt.Sprint(e.Number, e.Text))
	}
	return all
}

// What is written can be read by anybody.
func TestJSON(t *testing.T) {
	e := Event{Number: 1, Time: time.Unix(0, 0).UTC(), Kind: LinkUp, Severity: problem.SeverityNote, Object: Object{"interface", "eth0"}, Text: "up"}
	text, err := json.Marshal(e)
	want := `{"number":1,"time":"1970-01-01T00:00:00Z","kind":"link-up","severity":"note","object":{"type":"interface","name":"eth0"},"text":"up"}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}
