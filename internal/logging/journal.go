package logging

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	journalSocket = "/run/systemd/journal/socket"
	// mostValue bounds a value, so that an entry fits into a datagram of the kernel's usual size.
	mostValue = 16 << 10
	// mostEntry is less than the kernel's usual net.core.wmem_default.
	mostEntry = 128 << 10
)

// journal sends entries in the journal's native protocol, a datagram each. It connects again to one that was restarted.
type journal struct {
	to   *net.UnixAddr
	conn *net.UnixConn // nil: to be connected
}

func openJournal(path string) (*journal, error) {
	j := &journal{to: &net.UnixAddr{Name: path, Net: "unixgram"}}
	if err := j.connect(); err != nil {
		return nil, fmt.Errorf("log format journald: no journal takes lines here: choose --log-format text or json: %w", err)
	}
	return j, nil
}

func (j *journal) connect() (err error) {
	if j.conn == nil {
		j.conn, err = net.DialUnix("unixgram", nil, j.to)
	}
	return err
}

// patience is how long a journal that hangs is waited for, by the writer alone, before its connection is made anew.
const patience = 10 * time.Second

// Write sends one entry, by another connection where the first is of a journal that went.
func (j *journal) Write(entry []byte) (n int, err error) {
	for range 2 {
		if err = j.connect(); err != nil {
			return 0, err
		}
		if err = j.conn.SetWriteDeadline(time.Now().Add(patience)); err == nil {
			if n, err = j.conn.Write(entry); err == nil {
				return n, nil
			}
		}
		_ = j.conn.Close()
		j.conn = nil
	}
	return 0, err
}

// journalHandler writes each line as an entry: the message with its attributes in words, and each attribute as a field.
type journalHandler struct {
	out    io.Writer
	fields []byte // of attributes, in the protocol
	words  string
	group  string
}

// Enabled implements slog.Handler.
func (h *journalHandler) Enabled(context.Context, slog.Level) bool { return true }

// WithGroup implements slog.Handler.
func (h *journalHandler) WithGroup(name string) slog.Handler {
	next := *h
	next.group += name + "."
	return &next
}

// WithAttrs implements slog.Handler.
func (h *journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	fields, words := bytes.NewBuffer(slices.Clone(h.fields)), strings.Builder{}
	words.WriteString(h.words)
	for _, a := range attrs {
		h.attr(fields, &words, a)
	}
	next.fields, next.words = fields.Bytes(), words.String()
	return &next
}

// Handle implements slog.Handler.
func (h *journalHandler) Handle(_ context.Context, r slog.Record) error {
	var entry bytes.Buffer
	var words strings.Builder
	field(&entry, "PRIORITY", strconv.Itoa(priority(r.Level)))
	field(&entry, "SYSLOG_IDENTIFIER", "selvage")
	entry.Write(h.fields)
	words.WriteString(r.Message)
	words.WriteString(h.words)
	r.Attrs(func(a slog.Attr) bool {
		h.attr(&entry, &words, a)
		return entry.Len() < mostEntry
	})
	field(&entry, "MESSAGE", words.String())
	_, err := h.out.Write(entry.Bytes())
	return err
}

// attr adds an attribute as a field and in words. The words do not say of which edge and subsystem they are.
func (h *journalHandler) attr(fields *bytes.Buffer, words *strings.Builder, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		for _, member := range v.Group() {
			member.Key = a.Key + "." + member.Key
			h.attr(fields, words, member)
		}
		return
	}
	if a.Key == "" {
		return
	}
	value := textOf(v)
	field(fields, fieldName(h.group+a.Key), value)
	if a.Key == "edge" || a.Key == subsystemKey {
		return
	}
	if strings.ContainsFunc(value, func(r rune) bool { return unicode.IsSpace(r) || r == '"' || r == '=' || !unicode.IsPrint(r) }) || value == "" {
		value = strconv.Quote(value)
	}
	fmt.Fprintf(words, " %s%s=%s", h.group, a.Key, value)
}

// textOf is a value as slog's text has it.
func textOf(v slog.Value) string {
	if m, ok := v.Any().(interface{ MarshalText() ([]byte, error) }); ok && v.Kind() == slog.KindAny {
		if text, err := m.MarshalText(); err == nil {
			return string(text)
		}
	}
	return v.String()
}

func priority(l slog.Level) int {
	switch {
	case l >= slog.LevelError:
		return 3
	case l >= slog.LevelWarn:
		return 4
	case l >= slog.LevelInfo:
		return 6
	}
	return 7
}

// own are fields of the protocol, or of systemd; an attribute that is called so gets SELVAGE_ before it. So do those that say
// what every line of an edge says.
var own = []string{"MESSAGE", "PRIORITY", "ERRNO", "TID", "UNIT", "DOCUMENTATION", "EVENT", "SUBSYSTEM", "SEVERITY"}

// fieldName is the name of a field: letters, digits and underscores, 64 at most, and neither of the last two first.
func fieldName(key string) string {
	var name strings.Builder
	lower := false
	for _, r := range key {
		switch {
		case 'A' <= r && r <= 'Z':
			if lower {
				name.WriteByte('_')
			}
			name.WriteRune(r)
		case 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			name.WriteRune(unicode.ToUpper(r))
		default:
			name.WriteByte('_')
		}
		lower = 'a' <= r && r <= 'z'
	}
	text := strings.TrimLeft(name.String(), "_")
	if isTaken(text) {
		text = "SELVAGE_" + text
	}
	return text[:min(len(text), 64)]
}

// isTaken reports whether a name is none, or of others.
func isTaken(name string) bool {
	return name == "" || '0' <= name[0] && name[0] <= '9' || slices.Contains(own, name) ||
		slices.ContainsFunc([]string{"SYSLOG_", "CODE_", "OBJECT_"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// field adds one: NAME=value, or where the value has a line end the name, its length as 64 bits with the least byte first,
// and the value.
func field(to *bytes.Buffer, name, value string) {
	if len(value) > mostValue {
		value = value[:mostValue]
		for !utf8.ValidString(value[len(value)-min(len(value), utf8.UTFMax):]) && len(value) > mostValue-utf8.UTFMax {
			value = value[:len(value)-1]
		}
		value += "…"
	}
	to.WriteString(name)
	if strings.ContainsRune(value, '\n') {
		to.WriteByte('\n')
		_ = binary.Write(to, binary.LittleEndian, uint64(len(value))) // into memory
	} else {
		to.WriteByte('=')
	}
	to.WriteString(value)
	to.WriteByte('\n')
}
