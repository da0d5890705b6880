package config

import (
	"errors"
	"fmt"
	"io"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

const (
	// maxNesting is how deep lists and mappings may be nested in what the YAML parser gets, whose memory grows with the
	// square of that. A list in the column of the mapping that has it is no level here.
	maxNesting = 100
	// maxTokens bounds what the parser gets, as each of its tokens takes some 230 bytes: as many as maxParserSize of a usual
	// configuration has.
	maxTokens = 3_500_000
	// firstLook is how much of a text is tokenized before more of it is, in bytes: what is too deep mostly is so at its beginning.
	firstLook, nextLook = 64 << 10, 8
)

var errTooManyTokens = fmt.Errorf("the file has more than %d words and brackets", maxTokens)

// tooDeepError is of a text that is nested deeper.
type tooDeepError struct{ at token.Position }

func (e *tooDeepError) Error() string {
	return fmt.Sprintf("nested more than %d levels deep", maxNesting)
}

// parseYAML is the only way to the YAML parser. What that would pay for dearly is refused while its words are read, and a panic,
// which is not ours, does not end a running edge that reads its file again.
func parseYAML(data []byte) (file *ast.File, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			file, err = nil, fmt.Errorf("the parser gave up: %v", cause)
		}
	}()
	if countTokens(data) > maxTokens {
		return nil, errTooManyTokens
	}
	for size := firstLook; size < len(data); size *= nextLook {
		var deep *tooDeepError
		if _, err := tokenize(string(data[:size])); errors.As(err, &deep) {
			return nil, err
		}
	}
	tokens, err := tokenize(string(data))
	if err != nil {
		return nil, err
	}
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// countTokens is about how many tokens a text has: each indicator is one, and what lies between two.
func countTokens(data []byte) (n int) {
	inWord := false
	for _, c := range data {
		switch c {
		case ' ', '\t', '\r', '\n':
			inWord = false
		case '[', ']', '{', '}', ',', ':', '?', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '#':
			n++
			inWord = false
		default:
			if !inWord {
				n++
			}
			inWord = true
		}
	}
	return n
}

// tokenize reads the words of a text, up to the first that is wrong or too deep. They are the parser's own, so quotes, comments and
// texts of several lines are what it takes for such.
func tokenize(text string) (all token.Tokens, err error) {
	var s scanner.Scanner
	s.Init(text)
	var n nesting
	for {
		next, err := s.Scan()
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil && next.InvalidToken() == nil:
			return nil, err
		}
		for _, t := range next {
			all.Add(t)
			if n.add(t); n.depth() > maxNesting {
				return nil, &tooDeepError{*t.Position}
			}
		}
		if err != nil {
			return all, nil // the parser says what is wrong there
		}
	}
}

// nesting is where the words of a text are: inside of which block lists and mappings, by their columns, and of how many brackets.
type nesting struct {
	columns  []int
	brackets int
}

func (n *nesting) depth() int { return len(n.columns) + n.brackets }

func (n *nesting) add(t *token.Token) {
	switch t.Type {
	case token.SequenceStartType, token.MappingStartType:
		n.brackets++
	case token.SequenceEndType, token.MappingEndType:
		n.brackets = max(0, n.brackets-1)
	case token.SequenceEntryType, token.MappingKeyType:
		n.block(t.Position.Column)
	case token.MappingValueType:
		if t.Prev != nil {
			t = t.Prev // the name
		}
		n.block(t.Position.Column)
	case token.DocumentHeaderType, token.DocumentEndType:
		*n = nesting{}
	}
}

// block is an item or entry in a column. Those farther to the right have ended.
func (n *nesting) block(column int) {
	if n.brackets > 0 {
		return
	}
	for len(n.columns) > 0 && n.columns[len(n.columns)-1] > column {
		n.columns = n.columns[:len(n.columns)-1]
	}
	if len(n.columns) == 0 || n.columns[len(n.columns)-1] < column {
		n.columns = append(n.columns, column)
	}
}
