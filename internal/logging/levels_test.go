package logging

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// fileID is a file as $JOURNAL_STREAM names it.
type fileID struct{ dev, ino uint64 }

func (f *fileID) of(t *testing.T, file *os.File) {
	t.Helper()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Skip("files have no device here")
	}
	f.dev, f.ino = st.Dev, st.Ino
}

func (f *fileID) String() string { return fmt.Sprintf("%d:%d", f.dev, f.ino) }

// The level of a subsystem is changed while it logs, and goes back to the configured one.
func TestLevels(t *testing.T) {
	var text bytes.Buffer
	l, err := Open(Options{Out: &text, Format: JSON, Level: slog.LevelInfo})
	if err != nil {
		t.Fatal(err)
	}
	general := l.With("edge", "a")
	bgp := For(general, "bgp").With("neighbour", "spine")
	all := func(step string) {
		for name, log := range map[string]*slog.Logger{"edge": general, "bgp": bgp} {
			for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelError} {
				log.Log(t.Context(), level, step, "of", name)
			}
		}
	}
	set := func(subsystem, level string) {
		if err := l.Levels.Set(subsystem, level); err != nil {
			t.Error(err)
		}
	}
	all("configured")
	set("bgp", "debug")
	if !bgp.Enabled(t.Context(), slog.LevelDebug) || general.Enabled(t.Context(), slog.LevelDebug) {
		t.Error("who asks whether debugging is on does not hear of it")
	}
	all("bgp=debug")
	set("", "error")
	all("error")
	set("bgp", "default")
	all("bgp=default")
	if list := l.Levels.List(); list[0] != (Level{"edge", "error", "info", 0}) || list[3] != (Level{"bgp", "info", "info", 0}) {
		t.Errorf("levels %+v", list)
	}
	l.Close()
	got := map[string]int{}
	for line := range strings.Lines(text.String()) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		if one["of"] == "bgp" && (one["subsystem"] != "bgp" || one["neighbour"] != "spine") {
			t.Errorf("line %s", line)
		}
		got[fmt.Sprint(one["msg"], " ", one["of"])]++
	}
	want := map[string]int{"configured edge": 2, "configured bgp": 2, "bgp=debug edge": 2, "bgp=debug bgp": 3, "error edge": 1, "error bgp": 1, "bgp=default edge": 1, "bgp=default bgp": 2}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("lines %v, want %v", got, want)
	}
	for _, wrong := range [][2]string{{"nothing", "debug"}, {"bgp", "loud"}, {"", ""}} {
		if err := l.Levels.Set(wrong[0], wrong[1]); err == nil || !strings.Contains(err.Error(), ", ") {
			t.Errorf("%q: error %v", wrong, err)
		}
	}
}

// A subsystem that writes without end is cut off, others are not, and the next line says how many are missing.
func TestRate(t *testing.T) {
	var text bytes.Buffer
	l, err := Open(Options{Out: &text, Format: Text})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 * burst {
		For(l.Logger, "bgp").Info("flood")
	}
	For(l.Logger, "paths").Info("calm")
	for range 2 * burst {
		For(l.Logger, "firewall").Info("packet")
	}
	p := l.Levels.parts["bgp"]
	p.mu.Lock()
	p.left = 1
	p.mu.Unlock()
	For(l.Logger, "bgp").Info("later")
	l.Close()
	flood, suppressed := strings.Count(text.String(), "msg=flood"), 0
	for _, m := range regexp.MustCompile(`suppressed=(\d+)`).FindAllStringSubmatch(text.String(), -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		suppressed += n
	}
	if flood < burst || flood > 2*burst || flood+suppressed != 3*burst || strings.Count(text.String(), "msg=calm") != 1 || strings.Count(text.String(), "msg=packet") != 2*burst {
		t.Errorf("%d lines of the flood and %d suppressed, %d calm, %d of packets", flood, suppressed, strings.Count(text.String(), "msg=calm"), strings.Count(text.String(), "msg=packet"))
	}
}
