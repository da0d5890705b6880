package config

import (
	"encoding/json"
	"errors"
	"strings"
)

var errTooDeep = errors.New("lists and mappings are nested too deep")

// readJSON reads a file that is JSON, as programs write policies of 100,000 rules: the YAML parser takes
// 15 times as long. The nodes are what it would make of the file. On an error root is where that is;
// the file may still be YAML.
func readJSON(data []byte) (root node, err error) {
	if !json.Valid(data) {
		err := json.Unmarshal(data, &json.RawMessage{})
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			line, column := lineColumn(data[:max(0, syntax.Offset-1)])
			root.line, root.column = int32(line), int32(column)
		}
		return root, err
	}
	r := jsonReader{data: string(data) + "\n", line: 1}
	if !r.value(0) {
		return r.here(), errTooDeep
	}
	return r.pending[0], nil
}

// jsonReader makes nodes of valid JSON.
type jsonReader struct {
	data    string
	at      int // bytes
	line    int32
	start   int    // of the line
	inside  int    // bytes of the line that only continue a character
	pending []node // of collections that are not complete, in their order
}

func (r *jsonReader) here() node {
	return node{line: r.line, column: int32(r.at - r.start - r.inside + 1)}
}

// next goes to the next token that is no separator, and returns its first byte.
func (r *jsonReader) next() byte {
	for ; ; r.at++ {
		switch c := r.data[r.at]; c {
		case ' ', '\t', '\r', ',', ':':
		case '\n':
			r.line, r.start, r.inside = r.line+1, r.at+1, 0
		default:
			return c
		}
	}
}

// value reads one into pending. It is not ok when that is nested too deep.
func (r *jsonReader) value(depth int) (ok bool) {
	c := r.next()
	n := r.here()
	switch c {
	case '{', '[':
		if n.kind = kindList; c == '{' {
			n.kind = kindMapping
		}
		first := len(r.pending)
		r.at++
		for c := r.next(); c != '}' && c != ']'; c = r.next() {
			if depth == maxNesting || !r.value(depth+1) {
				return false
			}
		}
		r.at++
		n.items = append(make([]node, 0, len(r.pending)-first), r.pending[first:]...)
		r.pending = r.pending[:first]
	case '"':
		n.kind, n.text, n.quoted = kindString, r.text(), true
	case 't', 'f':
		n.kind, n.text = kindBool, r.word()
	case 'n':
		r.word()
	default:
		n.kind, n.text = kindInteger, r.word()
		if strings.ContainsAny(n.text, ".eE") {
			n.kind = kindNumber
		}
	}
	r.pending = append(r.pending, n)
	return true
}

func (r *jsonReader) word() string {
	begin := r.at
	for strings.IndexByte(" \t\r\n,]}", r.data[r.at]) < 0 {
		r.at++
	}
	return r.data[begin:r.at]
}

func (r *jsonReader) text() (text string) {
	begin, escaped := r.at, false
	for r.at++; r.data[r.at] != '"'; r.at++ {
		switch c := r.data[r.at]; {
		case c == '\\':
			escaped = true
			r.at++
		case c&0xc0 == 0x80:
			r.inside++
		}
	}
	r.at++
	if !escaped {
		return r.data[begin+1 : r.at-1]
	}
	_ = json.Unmarshal([]byte(r.data[begin:r.at]), &text) // it is valid
	return text
}
