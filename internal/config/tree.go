package config

import (
	"strconv"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// kind is what a node is.
type kind uint8

const (
	kindNothing kind = iota
	kindString
	kindText // a string of several lines, | or >
	kindInteger
	kindNumber
	kindBool
	kindList
	kindMapping
	kindMerge // as the name of a field: <<
	kindAnchor
	kindAlias
	kindTag
)

// String is how messages call it.
func (k kind) String() string {
	switch k {
	case kindString, kindText:
		return "a string"
	case kindInteger:
		return "an integer"
	case kindNumber:
		return "a number"
	case kindBool:
		return "a boolean"
	case kindList:
		return "a list"
	case kindMapping:
		return "a mapping"
	case kindAnchor:
		return "an anchor"
	case kindAlias:
		return "an alias"
	case kindTag:
		return "a tag"
	}
	return "nothing"
}

// node is a value of a file, or a name of a field, and where it begins. What reads files
// makes nodes, and what decodes them knows no other form: a policy of 100,000 rules is
// some two million nodes, for which those of the YAML parser are too large.
type node struct {
	kind         kind
	quoted       bool
	line, column int32
	text         string // of what is neither list nor mapping; part of the file's, so that what is kept of it is cloned
	items        []node // of a list; of a mapping: name, value, name, value …
}

func (n *node) string() (string, bool) {
	return n.text, n.kind == kindString || n.kind == kindText
}

// value is that of a field of a mapping, or nil.
func (n *node) value(name string) *node {
	if n.kind != kindMapping {
		return nil
	}
	for i := 0; i+1 < len(n.items); i += 2 {
		if n.items[i].text == name {
			return &n.items[i+1]
		}
	}
	return nil
}

// fromYAML turns what the parser returns into nodes.
func fromYAML(n ast.Node) node {
	out := node{line: 1, column: 1}
	if n == nil {
		return out
	}
	at := beginning(n)
	if at != nil && at.Position != nil {
		out.line, out.column = int32(max(1, at.Position.Line)), int32(max(1, at.Position.Column))
	}
	switch n := n.(type) {
	case *ast.SequenceNode:
		out.kind, out.items = kindList, make([]node, len(n.Values))
		for i, item := range n.Values {
			out.items[i] = fromYAML(item)
		}
	case *ast.MappingNode:
		out.kind, out.items = kindMapping, fromEntries(n.Values)
	case *ast.MappingValueNode:
		out.kind, out.items = kindMapping, fromEntries([]*ast.MappingValueNode{n})
	case *ast.MergeKeyNode:
		out.kind = kindMerge
	case *ast.AnchorNode:
		out.kind = kindAnchor
	case *ast.AliasNode:
		out.kind = kindAlias
	case *ast.TagNode:
		out.kind = kindTag
	default:
		out.fromScalar(n)
	}
	return out
}

func (n *node) fromScalar(from ast.Node) {
	switch from := from.(type) {
	case *ast.StringNode:
		n.kind, n.text, n.quoted = kindString, from.Value, isQuoted(from)
	case *ast.LiteralNode:
		n.kind, n.text = kindText, from.Value.Value
	case *ast.IntegerNode:
		n.kind, n.text = kindInteger, from.GetToken().Value
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		n.kind, n.text = kindNumber, from.GetToken().Value
	case *ast.BoolNode:
		n.kind, n.text = kindBool, strconv.FormatBool(from.Value)
	}
}

func fromEntries(entries []*ast.MappingValueNode) []node {
	items := make([]node, 0, 2*len(entries))
	for _, e := range entries {
		items = append(items, fromYAML(e.Key), fromYAML(e.Value))
	}
	return items
}

// beginning is where a node begins; the token of a block mapping is only its first colon.
func beginning(n ast.Node) *token.Token {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return m.Values[0].Key.GetToken()
	}
	if v, ok := n.(*ast.MappingValueNode); ok {
		return v.Key.GetToken()
	}
	return n.GetToken()
}

func isQuoted(n ast.Node) bool {
	t := n.GetToken().Type
	return t == token.SingleQuoteType || t == token.DoubleQuoteType
}
