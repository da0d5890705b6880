package overlay

import (
	"fmt"
	"strings"
)

// MaxPassword is TCP_MD5SIG_MAXKEYLEN of Linux, in bytes.
const MaxPassword = 80

// CheckPassword says what is wrong with the password of a BGP session (RFC 2385) and what to do about it, "" when nothing is. Neither has
// the password in it.
func CheckPassword(password string) (mistake, fix string) {
	switch {
	case password == "":
		return "the password is empty", "write a long random word, or remove the line"
	case len(password) > MaxPassword:
		return fmt.Sprintf("the password has %d bytes, at most %d", len(password), MaxPassword), "shorten it at both ends"
	case strings.ContainsFunc(password, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "the password has a control character or spans lines", "write it in one line, in quotes"
	}
	return "", ""
}
