package config

import (
	"fmt"
	"slices"
	"strings"
)

// fileErrors are the problems of one file while it is read, and where its fields are.
type fileErrors struct {
	name   string
	seen   map[string]Position // of every path that was written
	failed map[string]bool     // paths with a problem
	errs   Errors
	live   bool // it is no file, but a live object
}

func newFileErrors(name string) *fileErrors {
	return &fileErrors{name: name, seen: map[string]Position{}, failed: map[string]bool{}}
}

func (f *fileErrors) report(at Position, path, message, hint string) {
	f.failed[path] = true
	f.errs = append(f.errs, Error{Position: at, Path: path, Message: message, Hint: hint})
}

// problem reports where path was written.
func (f *fileErrors) problem(path, message, hint string) {
	f.report(f.at(path), path, message, hint)
}

// failedIn reports whether path or one of its fields has a problem.
func (f *fileErrors) failedIn(path string, fields ...string) bool {
	return f.failed[path] || slices.ContainsFunc(fields, func(field string) bool { return f.failed[path+"."+field] })
}

// given reports whether path was written and could be read.
func (f *fileErrors) given(path string) bool {
	_, seen := f.seen[path]
	return seen && !f.failed[path]
}

// place says to who reads about path where other was written: what may be another file, or a live object.
func (f *fileErrors) place(path, other string) string {
	at := f.at(other)
	switch {
	case at.Line == 0:
		return at.String()
	case f.at(path).Line == 0:
		return fmt.Sprintf("%s, %s line %d", other, at.File, at.Line)
	}
	return fmt.Sprintf("%s, line %d", other, at.Line)
}

// at returns where path was written or, for one that was left out, the nearest
// of its parents.
func (f *fileErrors) at(path string) Position {
	for {
		if pos, ok := f.seen[path]; ok {
			return pos
		}
		end := strings.LastIndexAny(path, ".[")
		if end < 0 {
			return Position{f.name, 1, 1}
		}
		path = path[:end]
	}
}
