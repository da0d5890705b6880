// Package fix is changes of a host's settings as data, and the shell script that makes and undoes them.
//
// Its one invariant: each fix carries its way back, with the value that was read before, and whatever is in
// a command reaches the shell as one word. It runs nothing.
package fix

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// Command is a program with its arguments, or a value to be written to a file of sysfs or procfs.
type Command struct {
	Argv []string `json:"argv,omitempty"`
	File string   `json:"file,omitempty"`
	// Value goes into File.
	Value string `json:"value,omitempty"`
}

// Run is the command of a program.
func Run(argv ...string) Command { return Command{Argv: argv} }

// Write is the command that writes a value to a file.
func Write(value, file string) Command { return Command{File: file, Value: value} }

// String is the command for a POSIX shell, in one line.
func (c Command) String() string {
	if c.File != "" {
		return "echo " + Quote(c.Value) + " > " + Quote(c.File)
	}
	words := make([]string, len(c.Argv))
	for i, word := range c.Argv {
		words[i] = Quote(word)
	}
	return strings.Join(words, " ")
}

// Line is a line for a POSIX shell, as fmt.Sprintf makes it, where each text is one word.
func Line(format string, words ...any) string {
	for i, word := range words {
		switch word.(type) {
		case string, fmt.Stringer:
			words[i] = Quote(fmt.Sprint(word))
		}
	}
	return fmt.Sprintf(format, words...)
}

// Fix is one change and its way back.
type Fix struct {
	// Interface is what it may interrupt; empty when it is none.
	Interface string  `json:"interface,omitempty"`
	Do        Command `json:"do"`
	Undo      Command `json:"undo"` // with the value that was read before
}

// plain is a word that no POSIX shell takes for anything else.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./:=,+@%-]+$`)

// Quote is text as one word of a POSIX shell. Control characters, which no name of an interface, file or setting has,
// become question marks.
func Quote(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(printable(text), "'", `'\''`) + "'"
}

func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, text)
}
