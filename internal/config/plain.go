package config

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deep lists and mappings may be nested in what readPlain takes.
const maxDepth = 64

// readPlain reads the plain part of YAML, in which nearly every file is written: mappings
// and lists in either style, words, integers and quoted strings, each in one line, and
// comments; JSON is in it too. It takes a fifth of the YAML parser's time and a quarter of
// its memory, which a policy of 100,000 rules needs.
//
// It is not ok with whatever else there is, mistakes above all: those files are the YAML
// parser's, to read or to complain about. What it is ok with has the same nodes as from
// there (FuzzPlain). When it is not ok, root is where it came to.
func readPlain(data []byte) (root node, ok bool) {
	if at := bytes.IndexByte(data, '\r'); at >= 0 { // a line's end to some
		line, column := lineColumn(data[:at])
		return node{line: int32(line), column: int32(column)}, false
	}
	r := plainReader{data: string(data), line: 1}
	c := r.skip()
	switch {
	case c == '{' || c == '[':
		ok = r.value(-1, 0)
	case c != 0:
		ok = r.block(0)
	}
	if ok {
		r.skip()
		ok = r.at == len(r.data)
	}
	if !ok {
		return r.here(kindNothing), false
	}
	return r.pending[0], true
}

type plainReader struct {
	data string
	at   int // bytes
	line int32
	// start is where the line begins, and inside how many bytes of it only continue a
	// character.
	start, inside int
	// pending are the nodes of collections that are not complete, in their order.
	pending []node
}

// column counts from 0.
func (r *plainReader) column() int { return r.at - r.start - r.inside }

func (r *plainReader) here(k kind) node {
	return node{kind: k, line: r.line, column: int32(r.column() + 1)}
}

// peek is the byte that lies so far ahead, a line's end at the end.
func (r *plainReader) peek(ahead int) byte { return r.byte(r.at + ahead) }

func (r *plainReader) byte(at int) byte {
	if at < len(r.data) {
		return r.data[at]
	}
	return '\n'
}

// skip goes to what comes next after blanks, comments and ends of lines, and returns its
// byte, 0 at the end.
func (r *plainReader) skip() byte {
	for ; r.at < len(r.data); r.at++ {
		switch c := r.data[r.at]; {
		case c == ' ':
		case c == '\n':
			r.line, r.start, r.inside = r.line+1, r.at+1, 0
		case c == '#' && (r.at == r.start || r.data[r.at-1] == ' '):
			for r.peek(1) != '\n' {
				r.at++
			}
		default:
			return c
		}
	}
	return 0
}

// spaces skips those of this line, and reports whether something else is on it.
func (r *plainReader) spaces() bool {
	begin := r.at
	for r.peek(0) == ' ' {
		r.at++
	}
	return r.peek(0) != '\n' && (r.peek(0) != '#' || r.at == begin)
}

// isItem reports whether an item of a list in block style begins here.
func (r *plainReader) isItem() bool {
	return r.peek(0) == '-' && (r.peek(1) == ' ' || r.peek(1) == '\n')
}

// block reads the mapping or list in block style that begins here.
func (r *plainReader) block(depth int) bool {
	switch {
	case depth > maxDepth:
		return false
	case r.isItem():
		return r.items(depth)
	}
	return r.entries(depth)
}

// items reads a list. What comes after it in the same column is for the mapping that has
// the list.
func (r *plainReader) items(depth int) bool {
	n, indent, first := r.here(kindList), r.column(), len(r.pending)
	for more := true; more; more = r.column() == indent && r.isItem() {
		r.at++
		switch inLine := r.spaces(); {
		case inLine && r.isItem():
			return false
		case inLine && r.isEntry():
			if !r.entries(depth + 1) {
				return false
			}
		case !r.after(inLine, indent, depth):
			return false
		}
		if r.skip(); r.at < len(r.data) && r.column() > indent {
			return false
		}
	}
	return r.collect(n, first)
}

// entries reads a mapping.
func (r *plainReader) entries(depth int) bool {
	n, indent, first := r.here(kindMapping), r.column(), len(r.pending)
	for more := true; more; more = r.at < len(r.data) && r.column() == indent {
		if r.isItem() || !r.name() {
			return false
		}
		if r.at++; r.peek(0) != ' ' && r.peek(0) != '\n' {
			return false
		}
		inLine := r.spaces()
		if !inLine && r.skip() == '-' && r.column() == indent && r.isItem() {
			if !r.items(depth + 1) {
				return false
			}
		} else if !r.after(inLine, indent, depth) {
			return false
		}
		if r.skip(); r.at < len(r.data) && r.column() > indent {
			return false
		}
	}
	return r.collect(n, first)
}

// after reads the value after a dash or a colon: what is left of the line, or a block
// below it, farther to the right.
func (r *plainReader) after(inLine bool, indent, depth int) bool {
	if !inLine {
		return r.skip() != 0 && r.column() > indent && (r.isItem() || r.isEntry()) && r.block(depth+1)
	}
	return r.value(indent, depth) && !r.spaces()
}

// isEntry reports whether a name and a colon are next.
func (r *plainReader) isEntry() bool {
	saved, count := *r, len(r.pending)
	ok := r.name()
	*r = saved
	r.pending = r.pending[:count]
	return ok
}

// name reads the name of a field up to its colon.
func (r *plainReader) name() bool {
	if !r.scalar(false) || r.pending[len(r.pending)-1].kind != kindString {
		return false
	}
	return r.peek(0) == ':'
}

// value reads a collection in brackets, or a scalar. What of it is in further lines stands
// to the right of column indent.
func (r *plainReader) value(indent, depth int) bool {
	if c := r.peek(0); c == '{' || c == '[' {
		return depth <= maxDepth && r.brackets(c, indent, depth)
	}
	return r.scalar(false)
}

// brackets reads a collection in flow style.
func (r *plainReader) brackets(open byte, indent, depth int) bool {
	n, first, end := r.here(kindList), len(r.pending), byte(']')
	if open == '{' {
		n.kind, end = kindMapping, '}'
	}
	r.at++
	for c := r.within(indent); c != end; c = r.within(indent) {
		if len(r.pending) > first {
			if c != ',' {
				return false
			}
			r.at++
			c = r.within(indent)
		}
		if c == 0 || c == end || open == '{' && !r.flowName() {
			return false
		}
		if c = r.within(indent); c == '{' || c == '[' {
			if depth > maxDepth || !r.brackets(c, indent, depth+1) {
				return false
			}
		} else if c == 0 || !r.scalar(true) {
			return false
		}
	}
	r.at++
	return r.collect(n, first)
}

// within skips to what comes next within brackets, 0 when that is not far enough to the right.
func (r *plainReader) within(indent int) byte {
	line, c := r.line, r.skip()
	for c == '\t' { // in JSON
		r.at++
		c = r.skip()
	}
	if r.line != line && r.column() <= indent {
		return 0
	}
	return c
}

// flowName reads the name of a field within brackets, and its colon.
func (r *plainReader) flowName() bool {
	if !r.scalar(true) {
		return false
	}
	key := r.pending[len(r.pending)-1]
	if key.quoted {
		r.spaces()
	}
	if key.kind != kindString || r.peek(0) != ':' || !key.quoted && r.peek(1) != ' ' {
		return false
	}
	r.at++
	return true
}

// collect makes one node of those that are pending from the first on.
func (r *plainReader) collect(n node, first int) bool {
	n.items = append(make([]node, 0, len(r.pending)-first), r.pending[first:]...)
	r.pending = append(r.pending[:first], n)
	return true
}

// scalar reads a quoted string or a word of this line.
func (r *plainReader) scalar(flow bool) bool {
	n := r.here(kindString)
	ok := false
	switch r.peek(0) {
	case '"':
		n.quoted = true
		n.text, ok = r.doubleQuoted()
	case '\'':
		n.quoted = true
		n.text, ok = r.singleQuoted()
	default:
		n.text = r.word(flow)
		n.kind, ok = kindOf(n.text)
	}
	r.pending = append(r.pending, n)
	return ok
}

func (r *plainReader) doubleQuoted() (text string, ok bool) {
	begin, escaped := r.at, false
	for r.at++; r.at < len(r.data); r.at++ {
		switch c := r.data[r.at]; {
		case c == '"':
			r.at++
			if !escaped {
				return r.data[begin+1 : r.at-1], true
			}
			err := json.Unmarshal([]byte(r.data[begin:r.at]), &text)
			return text, err == nil && !strings.ContainsRune(text, utf8.RuneError) // half a surrogate pair
		case c == '\\':
			escaped = true
			r.at++
		case c < ' ':
			return "", false
		case c&0xc0 == 0x80:
			r.inside++
		}
	}
	return "", false
}

func (r *plainReader) singleQuoted() (string, bool) {
	begin := r.at + 1
	for r.at++; r.at < len(r.data); r.at++ {
		switch c := r.data[r.at]; {
		case c == '\'':
			r.at++
			return r.data[begin : r.at-1], r.peek(0) != '\''
		case c < ' ':
			return "", false
		case c&0xc0 == 0x80:
			r.inside++
		}
	}
	return "", false
}

// word reads what is not quoted, up to a comment, a colon that ends a name, or what ends
// it within brackets.
func (r *plainReader) word(flow bool) string {
	end := r.at
loop:
	for ; r.byte(end) != '\n'; end++ {
		switch c := r.data[end]; {
		case c == ':' && (flow || r.byte(end+1) == ' ' || r.byte(end+1) == '\n'),
			c == '#' && end > r.at && r.data[end-1] == ' ',
			flow && strings.IndexByte(",[]{}", c) >= 0:
			break loop
		}
	}
	text := strings.TrimRight(r.data[r.at:end], " ")
	if r.byte(end) == '\n' && text != r.data[r.at:end] {
		return "" // the YAML parser has its own idea of where such words are
	}
	r.at += len(text)
	return text
}

// kindOf says what an unquoted word is, where that is beyond doubt.
func kindOf(word string) (kind, bool) {
	for i := range len(word) {
		if c := word[i]; !isDigit(c) && !isLetter(c) && (i == 0 || strings.IndexByte("_./-:,()=+ ", c) < 0) {
			return 0, false
		}
	}
	switch {
	case word == "":
		return 0, false
	case isLetter(word[0]):
		return kindOfLetters(word)
	}
	return kindOfDigits(word)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// kindOfDigits is for words that begin with a digit: integers, addresses, ranges, and times
// like 2h4m. Numbers of other kinds are none of these.
func kindOfDigits(word string) (kind, bool) {
	const digits = "0123456789"
	if strings.Trim(word, digits) == "" {
		return kindInteger, len(word) == 1 || len(word) < 19 && word[0] != '0'
	}
	if strings.Contains(word, "/") || strings.Count(word, ":") > 1 {
		return kindString, true
	}
	dotted := func(s string) bool { return s != "" && strings.Trim(s, digits+".") == "" }
	from, to, cut := strings.Cut(word, "-")
	return kindString, dotted(word) && strings.Count(word, ".") > 1 || cut && dotted(from) && dotted(to) || strings.Trim(word, digits+"hms") == ""
}

// kindOfLetters knows the words that are none to one or the other version of YAML.
func kindOfLetters(word string) (kind, bool) {
	if word == "true" || word == "false" {
		return kindBool, true
	}
	switch strings.ToLower(word) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf":
		return 0, false
	}
	return kindString, true
}
