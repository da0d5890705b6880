// Package problem is what an operator should look at, and how bad it is.
//
// It is plain data that imports nothing of ours. It is not for errors, which answer one
// caller: a problem lasts until its cause is gone.
package problem

import (
	"encoding/json"
	"fmt"
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
}

// Note makes a problem that is none yet.
func Note(format string, args ...any) Problem {
	return Problem{SeverityNote, fmt.Sprintf(format, args...)}
}

// Warning makes a problem with which everything still works.
func Warning(format string, args ...any) Problem {
	return Problem{SeverityWarning, fmt.Sprintf(format, args...)}
}

// Error makes a problem with which something does not work.
func Error(format string, args ...any) Problem {
	return Problem{SeverityError, fmt.Sprintf(format, args...)}
}

// UnmarshalJSON also reads a problem of a release that knew no severities: a text, which is
// taken for a warning.
func (p *Problem) UnmarshalJSON(document []byte) error {
	var text string
	if json.Unmarshal(document, &text) == nil {
		*p = Problem{SeverityWarning, text}
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
			n++
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
