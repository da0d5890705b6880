package logging

import (
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/selvage/selvage/test/tier"
)

// journald runs systemd's journal where no other can be disturbed, has this program write to it, and prints what it has kept.
const journald = `
set -e
mount --make-rprivate /
mount -t tmpfs none /run
mkdir -p /run/systemd/journal /run/log/journal
mount --bind /dev/null /dev/kmsg
/lib/systemd/systemd-journald & journal=$!
for _ in $(seq 200); do [ -S /run/systemd/journal/socket ] && break; read -t 0.05 _ <> <(:) || true; done
"$0" -test.run '^TestRealJournal$'
for _ in $(seq 200); do
  journalctl --sync >/dev/null 2>&1 || true
  journalctl -D /run/log/journal -o json SYSLOG_IDENTIFIER=selvage > /run/got
  [ "$(wc -l < /run/got)" -ge 2 ] && break
  read -t 0.05 _ <> <(:) || true
done
kill $journal
wait $journal || true
cat /run/got
`

// systemd's own journal keeps each field, and journalctl finds lines by them.
func TestRealJournal(t *testing.T) {
	if os.Getenv("SELVAGE_TEST_JOURNAL") != "" {
		l, err := Open(Options{Out: io.Discard, Format: Journald, Level: slog.LevelInfo})
		if err != nil {
			t.Fatal(err)
		}
		For(l.With("edge", "a"), "loops").Warn("port cut off", "event", "port-cut", "port", "p0", "why", "two\nlines")
		l.With("edge", "a").Error("another")
		if err := l.Close(); err != nil || l.Lost() != 0 {
			t.Errorf("%d lines are lost: %v", l.Lost(), err)
		}
		return
	}
	tier.Root(t)
	if _, err := os.Stat("/lib/systemd/systemd-journald"); err != nil {
		t.Skip("there is no systemd-journald here")
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", journald, os.Args[0])
	cmd.Env = append(os.Environ(), "SELVAGE_TEST_JOURNAL=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var entries []map[string]any
	for line := range strings.Lines(string(out)) {
		var e map[string]any
		if strings.HasPrefix(line, "{") {
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			entries = append(entries, e)
		}
	}
	if len(entries) != 2 {
		t.Fatalf("%d entries in\n%s", len(entries), out)
	}
	for name, want := range map[string]string{
		"PRIORITY": "4", "EDGE": "a", "SELVAGE_EVENT": "port-cut", "SELVAGE_SUBSYSTEM": "loops", "PORT": "p0", "WHY": "two\nlines", "_TRANSPORT": "journal",
		"MESSAGE": `port cut off event=port-cut port=p0 why="two\nlines"`,
	} {
		if entries[0][name] != want {
			t.Errorf("%s=%v, want %q", name, entries[0][name], want)
		}
	}
	if entries[1]["PRIORITY"] != "3" || entries[1]["MESSAGE"] != "another" {
		t.Errorf("entry %v", entries[1])
	}
}
