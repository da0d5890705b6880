package logging

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"
)

// Format is how lines are written.
type Format string

// Formats. Auto is journald where standard error is the journal's, as systemd says by $JOURNAL_STREAM, else text.
const (
	Auto     Format = "auto"
	Text     Format = "text"
	JSON     Format = "json"
	Journald Format = "journald"
)

// Options say where lines go and which ones.
type Options struct {
	Out     io.Writer // of text and JSON
	Format  Format
	Level   slog.Level
	Journal string // the socket of the journal; "" is systemd's
}

// Log is the log of a process. It is to be closed.
type Log struct {
	*slog.Logger
	*Writer
	Levels *Levels
}

// Open opens a log. Its Logger waits for nobody.
func Open(o Options) (*Log, error) {
	format, out := o.Format, o.Out
	if format == Auto || format == "" {
		if format = Text; isJournal(out, os.Getenv("JOURNAL_STREAM")) {
			format = Journald
		}
	}
	if format == Journald {
		j, err := openJournal(cmp.Or(o.Journal, journalSocket))
		switch {
		case err == nil:
			out = j
		case o.Format == Journald:
			return nil, err
		default:
			format = Text // the journal takes lines of standard error as well
		}
	}
	w := newWriter(out, format)
	levels := newLevels(format, o.Level, w)
	return &Log{slog.New(levels.handler(format.handler(w))), w, levels}, nil
}

// isJournal reports whether out is the stream whose device and inode systemd told.
func isJournal(out io.Writer, stream string) bool {
	f, ok := out.(*os.File)
	if !ok || stream == "" {
		return false
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && stream == fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

// handler writes all lines, whatever their level is.
func (f Format) handler(out io.Writer) slog.Handler {
	all := &slog.HandlerOptions{Level: slog.LevelDebug}
	switch f {
	case JSON:
		return slog.NewJSONHandler(out, all)
	case Journald:
		return &journalHandler{out: out}
	}
	return slog.NewTextHandler(out, all)
}

// ParseLevel reads a level: debug, info, warn or error.
func ParseLevel(text string) (level slog.Level, err error) {
	for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if LevelName(l) == text {
			return l, nil
		}
	}
	return 0, errors.New("a level is one of debug, info, warn, error")
}

// LevelName is the word for a level.
func LevelName(l slog.Level) string {
	switch {
	case l < slog.LevelInfo:
		return "debug"
	case l < slog.LevelWarn:
		return "info"
	case l < slog.LevelError:
		return "warn"
	}
	return "error"
}
