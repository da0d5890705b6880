package controller

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// A note is no longer than the API server takes, in whole characters, and says that it was cut.
func TestNote(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("a", noteMost)} {
		if got := Note(text, cut); got != text {
			t.Errorf("%d bytes became %q", len(text), got)
		}
	}
	for shift := range 4 {
		long := strings.Repeat("a", shift) + strings.Repeat("…", noteMost)
		got := Note(long, cut)
		kept, is := strings.CutSuffix(got, cut)
		if !is || len(got) > noteMost || len(got) < noteMost-utf8.UTFMax || !utf8.ValidString(got) || !strings.HasPrefix(long, kept) {
			t.Errorf("it became %d bytes: %q", len(got), got)
		}
	}
}
