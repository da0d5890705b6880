package tail

import (
	"fmt"
	"strings"
	"testing"
)

// The end is kept, and never half of a character.
func TestBuffer(t *testing.T) {
	var b Buffer
	if b.String() != "" {
		t.Errorf("an empty one has %q", b.String())
	}
	for _, p := range []string{"the beginning ", strings.Repeat("x", most-1), "ä end\n"} {
		if n, err := b.Write([]byte(p)); n != len(p) || err != nil {
			t.Errorf("%d, %v of %d bytes", n, err, len(p))
		}
	}
	if got := b.String(); !strings.HasSuffix(got, "xä end") || strings.Contains(got, "beginning") || len(got) > most {
		t.Errorf("%d bytes end with %q", len(got), got[len(got)-20:])
	}
	_, _ = b.Write([]byte("ä" + strings.Repeat("y", most-1)))
	if got := b.String(); got != strings.Repeat("y", most-1) {
		t.Errorf("%d bytes begin with %q", len(got), got[:4])
	}
}

// Only the end of what a process says is kept.
func TestLastBytes(t *testing.T) {
	var l Buffer
	for range 3 {
		fmt.Fprint(&l, strings.Repeat("x", most))
	}
	fmt.Fprint(&l, "end")
	if s := l.String(); len(s) != most || !strings.HasSuffix(s, "xend") {
		t.Errorf("%d bytes", len(s))
	}
}
