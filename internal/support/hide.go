package support

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/selvage/selvage/internal/pseudonym"
)

// hidden stands where a secret was.
const hidden = "(secret)"

// leastSecret is the length from which a secret is looked for in all texts: a shorter one stands in too many words. What
// is written as the value of a field is hidden however short it is.
const leastSecret = 4

// Secrets in texts of anybody, by their form.
var (
	pem    = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY-----|$)`)
	bearer = regexp.MustCompile(`(?i)\b(bearer|basic)(\s+)([A-Za-z0-9+/_.~=-]{6,})`)
	named  = regexp.MustCompile(`(?i)((?:^|[^A-Za-z0-9])[A-Za-z0-9_.-]*(?:password|passwd|passphrase|secret|token|api[_-]?key|private[_-]?key|credential)s?["']?\s*[=:]\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;}\]]+)`)
	inURL  = regexp.MustCompile(`([a-z][a-z0-9+.-]*://[^/\s:@]+:)([^/\s@]+)(@)`)
)

// hider takes secrets out of texts, and addresses where that is asked for.
type hider struct {
	mu      sync.Mutex
	secrets []string         // in all ways in which they are written, the longest first
	names   *pseudonym.Table // nil: addresses stay
}

// learn has secrets be hidden from now on.
func (h *hider) learn(secrets ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range secrets {
		for _, line := range append(strings.Split(s, "\n"), s) {
			quoted := strconv.Quote(line)
			for _, form := range []string{line, strings.TrimSpace(line), quoted[1 : len(quoted)-1], strings.ReplaceAll(line, "'", "''")} {
				if len(form) >= leastSecret && !slices.Contains(h.secrets, form) {
					h.secrets = append(h.secrets, form)
				}
			}
		}
	}
	slices.SortStableFunc(h.secrets, func(a, b string) int { return len(b) - len(a) })
}

// text is a text without secrets.
func (h *hider) text(s string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, secret := range h.secrets {
		s = strings.ReplaceAll(s, secret, hidden)
	}
	if strings.Contains(s, "PRIVATE KEY-----") {
		s = pem.ReplaceAllString(s, hidden)
	}
	var out strings.Builder
	for line := range strings.Lines(s) {
		out.WriteString(byForm(line))
	}
	if s = out.String(); h.names != nil {
		s = h.names.Text(s)
	}
	return s
}

// hints are what a line has that has a secret by its form: to look for the forms in every line would take seconds.
var hints = []string{"pass", "secret", "token", "key", "credential", "bearer", "basic", "://"}

// byForm is a line without secrets by their form.
func byForm(line string) string {
	lower := strings.ToLower(line)
	if !slices.ContainsFunc(hints, func(hint string) bool { return strings.Contains(lower, hint) }) {
		return line
	}
	line = bearer.ReplaceAllString(line, "$1$2"+hidden)
	line = inURL.ReplaceAllString(line, "$1"+hidden+"$3")
	return named.ReplaceAllStringFunc(line, func(m string) string {
		at := named.FindStringSubmatchIndex(m)
		name, value := m[:at[4]], m[at[4]:]
		switch {
		case isFigure(value):
			return m
		case value[0] == '"' || value[0] == '\'':
			return name + value[:1] + hidden + value[:1]
		}
		return name + hidden
	})
}

// isFigure reports whether a value is none that could be secret.
func isFigure(value string) bool {
	if slices.Contains([]string{"true", "false", "null", "{", "[", hidden}, value) || strings.HasPrefix(value, "{") || strings.HasPrefix(value, "[") {
		return true
	}
	_, err := strconv.ParseFloat(value, 64)
	return err == nil && len(value) < 8
}
