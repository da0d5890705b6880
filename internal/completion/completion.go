// Package completion completes command lines for shells, by their model in kong.
//
// Its one invariant: a candidate begins with what is typed. It knows commands, flags and their
// values; names of things that run are the program's to know. Do not use it to parse.
package completion

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Command is the hidden command by which a shell asks: its arguments are the words that are typed,
// of which the last is to be completed.
const Command = "__complete"

// Candidate is a word, and what it is.
type Candidate struct{ Word, What string }

// Names are what a program knows besides its own command line.
type Names interface {
	// Set is told the value of a flag that is typed.
	Set(flag, value string)
	// Of are the candidates for a flag or an argument of that name.
	Of(ctx context.Context, name string) []Candidate
}

// askTime is how long completion waits for names.
const askTime = time.Second

// line is a command line that is being typed.
type line struct {
	node       *kong.Node
	flag       *kong.Flag // whose value comes next, nil for none
	plain      bool       // after --
	positional int
	names      Names // nil for none
}

// Print prints a line for each candidate for the last of words: the word, a tab and what it is.
// names may be nil.
func Print(ctx context.Context, model *kong.Application, words []string, names Names, w io.Writer) error {
	if len(words) == 0 {
		words = []string{""}
	}
	l := line{node: model.Node, names: names}
	last := len(words) - 1
	for _, word := range words[:last] {
		l.read(word)
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	current, before := words[last], ""
	if current == "=" { // bash makes three words of --flag=value
		current = ""
	}
	if name, value, ok := strings.Cut(current, "="); ok && l.flag == nil && !l.plain {
		if f := l.flagNamed(name); f != nil {
			l.flag, current, before = f, value, name+"="
		}
	}
	for _, candidate := range l.candidates(ctx, current) {
		if strings.HasPrefix(candidate.Word, current) {
			if _, err := fmt.Fprintf(w, "%s%s\t%s\n", before, candidate.Word, candidate.What); err != nil {
				return err
			}
		}
	}
	return nil
}

// read takes a word that is typed whole.
func (l *line) read(word string) {
	switch {
	case word == "=":
	case l.flag != nil:
		l.set(l.flag, word)
		l.flag = nil
	case word == "--":
		l.plain = true
	case !l.plain && strings.HasPrefix(word, "-"):
		name, value, given := strings.Cut(word, "=")
		f := l.flagNamed(name)
		switch {
		case f != nil && given:
			l.set(f, value)
		case f != nil && !f.IsBool() && !f.IsCounter():
			l.flag = f
		}
	default:
		for _, child := range l.node.Children {
			if child.Name == word || slices.Contains(child.Aliases, word) {
				l.node, l.positional = child, 0
				return
			}
		}
		l.positional++
	}
}

func (l *line) set(f *kong.Flag, value string) {
	if l.names != nil {
		l.names.Set(f.Name, value)
	}
}

// flags are those that may stand here.
func (l *line) flags() (list []*kong.Flag) {
	for _, group := range l.node.AllFlags(true) {
		list = append(list, group...)
	}
	if l.node.DefaultCmd != nil {
		list = append(list, l.node.DefaultCmd.Flags...)
	}
	return list
}

func (l *line) flagNamed(name string) *kong.Flag {
	for _, f := range l.flags() {
		if "--"+f.Name == name || f.Short != 0 && "-"+string(f.Short) == name {
			return f
		}
	}
	return nil
}

// candidates are the words that may stand here.
func (l *line) candidates(ctx context.Context, current string) (list []Candidate) {
	if l.flag != nil {
		return l.values(ctx, l.flag.Value)
	}
	if strings.HasPrefix(current, "-") && !l.plain {
		for _, f := range l.flags() {
			if !f.Hidden {
				list = append(list, Candidate{"--" + f.Name, f.Help})
			}
		}
		return list
	}
	for _, child := range l.node.Children {
		if !child.Hidden && l.positional == 0 {
			list = append(list, Candidate{child.Name, child.Help})
		}
	}
	node := l.node
	if node.DefaultCmd != nil {
		node = node.DefaultCmd
	}
	if l.positional < len(node.Positional) {
		list = append(list, l.values(ctx, node.Positional[l.positional])...)
	}
	return list
}

// values are those of a flag or an argument: the words that it may be, or names.
func (l *line) values(ctx context.Context, v *kong.Value) (list []Candidate) {
	for _, word := range v.EnumSlice() {
		if word != "" {
			list = append(list, Candidate{word, ""})
		}
	}
	if l.names != nil {
		list = append(list, l.names.Of(ctx, v.Name)...)
	}
	return list
}
