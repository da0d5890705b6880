package importing

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
)

// Kind says what a note is about.
type Kind string

// Kinds of notes.
const (
	// NotCarried is a field, or an object when no field is named, that the result does not have.
	NotCarried Kind = "not-carried"
	// Changed is a field whose value in the result is another one.
	Changed Kind = "changed"
	// Differs is a behaviour that is another one here.
	Differs Kind = "differs"
)

// Note is what of an object is not in the result as it was.
type Note struct {
	Kind   Kind   `json:"kind"`
	Object string `json:"object"`          // KIND [NAMESPACE/]NAME, or the name of a project
	Field  string `json:"field,omitempty"` // path, without spec
	Value  string `json:"value,omitempty"`
	Reason string `json:"reason"`
	Do     string `json:"do,omitempty"`
}

// String is a line for people.
func (n Note) String() string {
	var b strings.Builder
	b.WriteString(n.Object + ": ")
	switch what := strings.TrimSpace(n.Field + " " + n.Value); {
	case what == "" && n.Kind == NotCarried:
		b.WriteString("it is not carried: ")
	case what == "":
	case n.Kind == NotCarried:
		b.WriteString(what + " is not carried: ")
	default:
		b.WriteString(what + ": ")
	}
	b.WriteString(n.Reason)
	if n.Do != "" {
		b.WriteString("; " + n.Do)
	}
	return b.String()
}

// maxValue is how much of a value a note has.
const maxValue = 200

// note adds a note once.
func (i *importer) note(n Note) {
	n.Object, n.Field, n.Value = oneLine(n.Object), oneLine(n.Field), oneLine(n.Value)
	n.Reason, n.Do = oneLine(n.Reason), oneLine(n.Do)
	if !i.noted[n] {
		i.noted[n] = true
		i.notes = append(i.notes, n)
	}
}

// lost notes a field that is not carried.
func (i *importer) lost(object, field string, value any, reason, do string) {
	i.note(Note{Kind: NotCarried, Object: object, Field: field, Value: text(value), Reason: reason, Do: do})
}

// lostPolicy notes of all that a policy was made of that something of it, or all of it, is not carried.
func (i *importer) lostPolicy(p *policy, field string, value any, reason, do string) {
	for _, object := range p.origins {
		i.lost(object, field, value, reason, do)
	}
}

// changed notes a field that has another value.
func (i *importer) changed(object, field string, value any, reason, do string) {
	i.note(Note{Kind: Changed, Object: object, Field: field, Value: text(value), Reason: reason, Do: do})
}

// differs notes another behaviour.
func (i *importer) differs(object, reason, do string) {
	i.note(Note{Kind: Differs, Object: object, Reason: reason, Do: do})
}

// text is a value as it stands in a manifest, the beginning of it if it is long.
func text(value any) string {
	s := []rune(whole(value))
	if len(s) > maxValue {
		return string(s[:maxValue]) + "..."
	}
	return string(s)
}

func whole(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case netip.Addr:
		return v.String()
	}
	out, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(out)
}

// oneLine keeps a text in one line of a comment.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff || r == 0xfffe || r == 0xffff {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
