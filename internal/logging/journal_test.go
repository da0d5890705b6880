package logging

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// decode reads an entry of the journal's native protocol, as systemd documents it.
func decode(t *testing.T, entry []byte) map[string]string {
	t.Helper()
	fields := map[string]string{}
	for len(entry) > 0 {
		line := bytes.IndexByte(entry, '\n')
		if line < 0 {
			t.Fatalf("an entry ends without a line end: %q", entry)
		}
		name, value, text := strings.Cut(string(entry[:line]), "=")
		entry = entry[line+1:]
		if !text {
			size := int(binary.LittleEndian.Uint64(entry))
			value = string(entry[8 : 8+size])
			if entry[8+size] != '\n' {
				t.Fatalf("field %s does not end where its length says", name)
			}
			entry = entry[8+size+1:]
		}
		fields[name] = value
	}
	return fields
}

// listen is a journal at a path.
func listen(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func read(t *testing.T, conn *net.UnixConn) map[string]string {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	entry := make([]byte, 1<<20)
	n, err := conn.Read(entry)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, entry[:n])
}

// Each attribute is a field, and the message reads as a line of text does.
func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	conn := listen(t, path)
	l, err := Open(Options{Out: io.Discard, Format: Journald, Level: slog.LevelInfo, Journal: path})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	log := For(l.With("edge", "a"), "loops")
	log.Error("port cut off", "event", "port-cut", "port", "p0", "maximumPrefixes", 7, "message", "mine", "remote", netip.MustParseAddr("192.0.2.1"),
		"why", "two\nlines", "_hidden", 1, "9", 2, slog.Group("peer", "as", 65000))
	got := read(t, conn)
	want := map[string]string{
		"PRIORITY": "3", "SYSLOG_IDENTIFIER": "selvage", "EDGE": "a", "SELVAGE_SUBSYSTEM": "loops", "SELVAGE_EVENT": "port-cut", "PORT": "p0",
		"MAXIMUM_PREFIXES": "7", "SELVAGE_MESSAGE": "mine", "REMOTE": "192.0.2.1", "WHY": "two\nlines", "HIDDEN": "1", "SELVAGE_9": "2", "PEER_AS": "65000",
		"MESSAGE": `port cut off event=port-cut port=p0 maximumPrefixes=7 message=mine remote=192.0.2.1 why="two\nlines" _hidden=1 9=2 peer.as=65000`,
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s=%q, want %q", name, got[name], value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("fields %v", got)
	}
	for level, priority := range map[string]string{"warn": "4", "info": "6"} {
		parsed, err := ParseLevel(level)
		if err != nil {
			t.Fatal(err)
		}
		log.Log(t.Context(), parsed, "a line")
		if got := read(t, conn)["PRIORITY"]; got != priority {
			t.Errorf("level %s has priority %s", level, got)
		}
	}
	log.Info(strings.Repeat("ä", 100_000)) // fits into a datagram
	if got := read(t, conn)["MESSAGE"]; len(got) > mostValue+3 || !strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes", len(got))
	}
}

// A journal that hangs keeps nobody waiting; one that was restarted gets what comes then.
func TestJournalThatHangs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	first := listen(t, path)
	l, err := Open(Options{Out: io.Discard, Format: Journald, Journal: path})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	begin := time.Now()
	const lines = 20_000
	for i := range lines {
		l.Warn(strings.Repeat("x", 500), "number", i)
		if i%burst == burst-1 {
			l.Levels.parts[General].left = burst // the rate is another test's
		}
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("%d lines took %s", lines, took)
	}
	if l.Lost() == 0 {
		t.Error("no line is lost, so the queue has no bound")
	}
	first.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second := listen(t, path)
	done := make(chan struct{})
	var saying sync.WaitGroup
	defer saying.Wait()
	defer close(done)
	saying.Go(func() { // again, as the queue may be full until the writer sees that the first one went
		for again := time.NewTicker(10 * time.Millisecond); ; {
			l.Info("the journal is there again")
			l.Levels.parts[General].left = burst
			select {
			case <-done:
				again.Stop()
				return
			case <-again.C:
			}
		}
	})
	for range lines { // some that waited come first
		if strings.Contains(read(t, second)["MESSAGE"], "there again") {
			return
		}
	}
	t.Error("the new journal has not the new line")
}

// Without a journal the format is refused, and auto is text.
func TestFormats(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	if _, err := Open(Options{Format: Journald, Journal: none}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "--log-format") {
		t.Errorf("error %v", err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	var st fileID
	st.of(t, out)
	for stream, want := range map[string]string{"": "text", "1:2": "text", st.String(): "journald"} {
		t.Setenv("JOURNAL_STREAM", stream)
		path := filepath.Join(t.TempDir(), "socket")
		listen(t, path)
		l, err := Open(Options{Out: out, Format: Auto, Journal: path})
		if err != nil || l.Levels.Format() != want {
			t.Errorf("JOURNAL_STREAM=%s: %s, %v", stream, l.Levels.Format(), err)
		}
		l.Close()
		if l, err = Open(Options{Out: out, Format: Auto, Journal: none}); err != nil || l.Levels.Format() != "text" {
			t.Errorf("JOURNAL_STREAM=%s and no journal: %v", stream, err)
		}
		l.Close()
	}
}
