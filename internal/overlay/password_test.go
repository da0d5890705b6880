package overlay

import (
	"strings"
	"testing"
)

// What TCP MD5 cannot sign with is refused, and no message shows it.
func TestCheckPassword(t *testing.T) {
	for password, want := range map[string]string{
		"": "the password is empty", "a": "", strings.Repeat("x", 80): "", strings.Repeat("x", 81): "the password has 81 bytes, at most 80",
		"two words": "", "two\nlines": "spans lines", "a line\n": "spans lines", "zero\x00": "control character", "r\u00e4tsel": "", "\xff\xfe": "",
	} {
		mistake, fix := CheckPassword(password)
		if (want == "") != (mistake == "") || (mistake == "") != (fix == "") || !strings.Contains(mistake, want) {
			t.Errorf("%q: %q, %q", password, mistake, fix)
		}
		if len(password) > 1 && strings.Contains(mistake+fix, password) {
			t.Errorf("%q is in its message", password)
		}
	}
}
