// Package printable cleans text that others wrote: far ends, neighbours, guests, files of somebody else.
//
// Its one invariant: what comes out holds nothing that a terminal acts on, nor what reorders the text around it. A line
// break in such a text must not begin a line of ours either: texts pass Line or JSON where they come in, and all that goes to
// a terminal passes a Writer. Do not use it to quote; shells, HTML and JSON have their own ways.
package printable

import (
	"bytes"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// clean is a rune that a terminal shows as it is: white space is a blank, and what else it would act on a replacement character.
func clean(r rune) rune {
	switch {
	case unicode.IsControl(r) && unicode.IsSpace(r), unicode.In(r, unicode.Zl, unicode.Zp):
		return ' '
	case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
		return utf8.RuneError
	}
	return r
}

// Line is text as one line of valid UTF-8.
func Line(text string) string { return strings.Map(clean, text) }

// Bounded is Line, of at most so many bytes.
func Bounded(text string, most int) string {
	text = Line(text)
	if len(text) <= most {
		return text
	}
	text = text[:most-len("…")]
	for len(text) > 0 && !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + "…"
}

// inJSON matches escapes, and what stands in a string without one.
var inJSON = regexp.MustCompile(`\\u[0-9a-fA-F]{4}|\\.|[\x7f-\x{10ffff}]+`)

// JSON is a document in whose strings, keys too, each text is Line of what it was, but for tabs: the kernel has them between
// numbers of a sysctl.
func JSON(document []byte) []byte {
	return inJSON.ReplaceAllFunc(document, func(s []byte) []byte {
		switch {
		case s[0] != '\\':
			return []byte(Line(string(s)))
		case len(s) == 6:
			if code, err := strconv.ParseUint(string(s[2:]), 16, 16); err == nil && clean(rune(code)) != rune(code) {
				return utf8.AppendRune(nil, clean(rune(code)))
			}
		case s[1] == 'b':
			return utf8.AppendRune(nil, clean('\b'))
		case bytes.ContainsAny(s, "fnr"):
			return []byte{' '}
		}
		return s
	})
}

// Writer hands on text without what a terminal acts on, but for ends of lines and tabs. Many goroutines may use one.
type Writer struct {
	to      io.Writer
	mu      sync.Mutex
	partial []byte // of a character, at the end of the last write
}

// NewWriter is a Writer to another one. One of a Writer is that Writer.
func NewWriter(to io.Writer) *Writer {
	if w, ok := to.(*Writer); ok {
		return w
	}
	return &Writer{to: to}
}

// Write implements io.Writer. Each write becomes one of the other.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := append(w.partial, p...)
	whole := len(text)
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if last := text[len(text)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				whole -= i
			}
			break
		}
	}
	w.partial = bytes.Clone(text[whole:])
	_, err := w.to.Write(bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return clean(r)
	}, text[:whole]))
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// Raw is what a Writer writes to, for what is no text: an archive, the escape sequences of this program itself.
func Raw(w io.Writer) io.Writer {
	if w, ok := w.(*Writer); ok {
		return w.to
	}
	return w
}
