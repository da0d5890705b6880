// Package problem is what an operator should look at, and how bad it is.
//
// It is plain data that imports nothing of ours. It is not for errors, which answer one
// caller: a problem lasts until its cause is gone.
package problem

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Severity is how bad a problem is.
type Severity string

// Severities, the least first.
const (
	SeverityNote    Severity = "note"    // nothing is wrong, but an operator should know
	SeverityWarning Severity = "warning" // it works, but less well or for less long than it should
	SeverityError   Severity = "error"   // packets are lost, or what is configured is not in force
)

// Verdict sums up all problems of an edge.
type Verdict string

// Verdicts.
const (
	OK       Verdict = "ok"       // notes at most
	Degraded Verdict = "degraded" // warnings at most
	Broken   Verdict = "broken"
)

// Problem is one thing to look at. Text names it and says what to do.
type Problem struct {
	Severity Severity `json:"severity"`
	Text     string   `json:"text"`
	// Count is of how many like it stand here, 0 of itself alone.
	Count int `json:"count,omitempty"`

	kind, object string // by which Fold knows those that are alike, and what it calls them
}

func (p Problem) String() string { return string(p.Severity) + ": " + p.Text }

// Equal compares what a document has of a problem.
func (p Problem) Equal(o Problem) bool {
	return p.Severity == o.Severity && p.Text == o.Text && p.Count == o.Count
}

// Note makes a problem that is none yet. The first of args is what it is about, where it is no number.
func Note(format string, args ...any) Problem { return newProblem(SeverityNote, format, args) }

// Warning makes a problem with which everything still works.
func Warning(format string, args ...any) Problem { return newProblem(SeverityWarning, format, args) }

// Error makes a problem with which something does not work.
func Error(format string, args ...any) Problem { return newProblem(SeverityError, format, args) }

func newProblem(severity Severity, format string, args []any) Problem {
	p := Problem{Severity: severity, Text: fmt.Sprintf(format, args...)}
	if len(args) == 0 || strings.HasPrefix(format, "%") && len(args) == 1 { // words of others, of which nothing is known
		return p
	}
	switch about := args[0].(type) {
	case string:
		p.kind, p.object = format, about
	case fmt.Stringer:
		p.kind, p.object = format, about.String()
	}
	return p
}

// UnmarshalJSON also reads a problem of a release that knew no severities: a text, which is
// taken for a warning.
func (p *Problem) UnmarshalJSON(document []byte) error {
	var text string
	if json.Unmarshal(document, &text) == nil {
		*p = Problem{Severity: SeverityWarning, Text: text}
		return nil
	}
	type plain Problem
	return json.Unmarshal(document, (*plain)(p))
}

// Texts are the problems without severities.
func Texts(list []Problem) []string {
	texts := make([]string, len(list))
	for i, p := range list {
		texts[i] = p.Text
	}
	return texts
}

// Count is how many have a severity.
func Count(list []Problem, s Severity) (n int) {
	for _, p := range list {
		if p.Severity == s {
			n += max(1, p.Count)
		}
	}
	return n
}

// Sum is the verdict on all problems.
func Sum(list []Problem) Verdict {
	switch {
	case Count(list, SeverityError) > 0:
		return Broken
	case Count(list, SeverityWarning) > 0:
		return Degraded
	}
	return OK
}
