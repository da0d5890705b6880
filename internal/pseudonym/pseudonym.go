// Package pseudonym replaces names and addresses in texts by pseudonyms, so that the texts can be given away.
//
// Its one invariant: one original has one pseudonym in all texts of a Table. Do not use it as proof that a text names
// nobody: a name that nobody told of stays.
package pseudonym

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Table gives pseudonyms.
type Table struct {
	pseudonyms map[string]string // by original
	count      map[string]int    // by kind
	// names are the originals that are looked for as words in any text, longest first.
	names []string
	ready func(string) bool // it is a pseudonym already
}

// New knows nothing yet. isPseudonym says of a name that it is one, and stays as it is; nil: none is.
func New(isPseudonym func(string) bool) *Table {
	if isPseudonym == nil {
		isPseudonym = func(string) bool { return false }
	}
	return &Table{pseudonyms: map[string]string{}, count: map[string]int{}, ready: isPseudonym}
}

// Originals are the pseudonyms that were given, with what they stand for.
func (t *Table) Originals() map[string]string {
	all := map[string]string{}
	for original, pseudonym := range t.pseudonyms {
		all[pseudonym] = original
	}
	return all
}

// Of is the pseudonym of an original: its kind and a number.
func (t *Table) Of(kind, original string) string {
	if p, ok := t.pseudonyms[original]; ok {
		return p
	}
	t.count[kind]++
	p := fmt.Sprintf("%s-%d", kind, t.count[kind])
	t.pseudonyms[original] = p
	return p
}

// Set gives an original a pseudonym that has no number.
func (t *Table) Set(original, pseudonym string) { t.pseudonyms[original] = pseudonym }

// leastName is the length from which a name is looked for in texts: "a" names nobody.
const leastName = 3

// Name is the pseudonym of a name, which is looked for in texts from now on.
func (t *Table) Name(kind, original string) string {
	if original == "" || t.ready(original) {
		return original
	}
	if len(original) >= leastName && !slices.Contains(t.names, original) {
		t.names = append(t.names, original)
		slices.SortStableFunc(t.names, func(a, b string) int { return len(b) - len(a) })
	}
	return t.Of(kind, original)
}

// Addresses are looked for in texts.
var (
	mac  = regexp.MustCompile(`\b(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}\b|\b[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\b`)
	ipv6 = regexp.MustCompile(`[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*`)
	ipv4 = regexp.MustCompile(`\d{1,3}(?:\.\d{1,3}){3}`)
)

// Text is a text in which names and addresses are replaced.
func (t *Table) Text(s string) string {
	for _, name := range t.names {
		s = replaceWord(s, name, t.pseudonyms[name])
	}
	s = mac.ReplaceAllStringFunc(s, func(m string) string {
		return t.Of("mac", strings.ToLower(m))
	})
	s = ipv6.ReplaceAllStringFunc(s, t.addressIn)
	return ipv4.ReplaceAllStringFunc(s, t.addressIn)
}

// addressIn replaces the first address in a run of hexadecimal digits, colons and full stops: the
// longest one that begins where a group does.
func (t *Table) addressIn(m string) string {
	for start := range len(m) {
		if start > 0 && m[start-1] != ':' {
			continue
		}
		for end := len(m); end > start+2; end-- {
			addr, err := netip.ParseAddr(m[start:end])
			if err != nil {
				continue
			}
			kind := "ipv6"
			if addr.Is4() {
				kind = "ipv4"
			}
			return m[:start] + t.Of(kind, addr.String()) + m[end:]
		}
	}
	return m
}

// replaceWord replaces a name where it is no part of a longer one.
func replaceWord(s, name, by string) string {
	inWord := func(at int) bool {
		return at >= 0 && at < len(s) && (s[at] == '_' || s[at] == '-' || '0' <= s[at] && s[at] <= '9' || 'a' <= s[at]|0x20 && s[at]|0x20 <= 'z')
	}
	var b strings.Builder
	for from := 0; ; {
		i := strings.Index(s[from:], name)
		if i < 0 {
			b.WriteString(s[from:])
			return b.String()
		}
		at := from + i
		b.WriteString(s[from:at])
		if inWord(at-1) || inWord(at+len(name)) {
			b.WriteString(name)
		} else {
			b.WriteString(by)
		}
		from = at + len(name)
	}
}
