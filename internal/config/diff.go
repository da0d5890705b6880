package config

import (
	"fmt"
	"strings"
)

// Kinds of a Change.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
	Moved   = "moved" // to another place of a list in which the order counts
)

// Change is one difference between two configurations, as they are written: a field that is
// left out has no value, even where it has a default.
type Change struct {
	Kind string `json:"kind"`
	// Path is where, as in spec.segments[blue].vni: elements of lists go by their names, where
	// they have some.
	Path string `json:"path"`
	// Was and Now are the values, in one line, of what is written as one word; a secret is
	// not shown.
	Was string `json:"was,omitempty"`
	Now string `json:"now,omitempty"`
}

// Diff lists what changes from one configuration to another, in the order of the file: what
// was removed comes last. Both must be readable.
func Diff(was, now Source) ([]Change, error) {
	a, err := was.trees()
	if err != nil {
		return nil, err
	}
	b, err := now.trees()
	if err != nil {
		return nil, err
	}
	var d diff
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			d.add(Change{Kind: Added, Path: now.Files[i].Path})
		case i >= len(b):
			d.add(Change{Kind: Removed, Path: was.Files[i].Path})
		case i == 0:
			d.nodes("", a[i], b[i])
		default:
			d.nodes(now.Files[i].Path, a[i], b[i])
		}
	}
	return d.changes, nil
}

// trees are the files.
func (s Source) trees() ([]*node, error) {
	var list []*node
	for _, f := range s.Files {
		d := newDecoder(f.Path)
		root := d.root(f.Text, "examples/host-a.yaml")
		if root == nil {
			return nil, d.file.errs
		}
		list = append(list, root)
	}
	return list, nil
}

type diff struct{ changes []Change }

func (d *diff) add(c Change) { d.changes = append(d.changes, c) }

// nodes compares what stands at a path.
func (d *diff) nodes(path string, was, now *node) {
	switch {
	case was.kind == kindMapping && now.kind == kindMapping:
		d.mappings(path, was, now)
	case was.kind == kindList && now.kind == kindList:
		d.lists(path, was, now)
	case !equalNodes(was, now):
		d.add(Change{Kind: Changed, Path: path, Was: shown(path, was), Now: shown(path, now)})
	}
}

func (d *diff) mappings(path string, was, now *node) {
	for i := 0; i+1 < len(now.items); i += 2 {
		name, value := now.items[i].text, &now.items[i+1]
		at := fieldPath(path, name)
		if before := was.value(name); before != nil {
			d.nodes(at, before, value)
			continue
		}
		d.add(Change{Kind: Added, Path: at, Now: shown(at, value)})
	}
	for i := 0; i+1 < len(was.items); i += 2 {
		if name := was.items[i].text; now.value(name) == nil {
			at := fieldPath(path, name)
			d.add(Change{Kind: Removed, Path: at, Was: shown(at, &was.items[i+1])})
		}
	}
}

// lists compares elements that have the same name, or are equal where they have none.
func (d *diff) lists(path string, was, now *node) {
	wasKeys, nowKeys := keys(was), keys(now)
	before, after := places(wasKeys), places(nowKeys)
	var stay []string // in the order that they have now
	for i, key := range nowKeys {
		at, ok := before[key]
		if !ok {
			d.add(Change{Kind: Added, Path: element(path, now, i)})
			continue
		}
		stay = append(stay, key)
		d.nodes(element(path, now, i), &was.items[at], &now.items[i])
	}
	var order []string
	for i, key := range wasKeys {
		if _, ok := after[key]; !ok {
			d.add(Change{Kind: Removed, Path: element(path, was, i)})
			continue
		}
		order = append(order, key)
	}
	d.moves(path, order, stay)
}

// moves says which elements are behind others that were behind them.
func (d *diff) moves(path string, was, now []string) {
	rank := make(map[string]int, len(was))
	for i, key := range was {
		rank[key] = i
	}
	most := -1
	for _, key := range now {
		if rank[key] < most {
			d.add(Change{Kind: Moved, Path: fmt.Sprintf("%s[%s]", path, keyText(key))})
			continue
		}
		most = rank[key]
	}
}

// keys are those of a list's elements. Where several have the same, each but the first has a
// number behind it.
func keys(list *node) []string {
	all, seen := make([]string, len(list.items)), make(map[string]int)
	for i := range list.items {
		key := keyOf(list, i)
		all[i] = key
		if seen[key]++; seen[key] > 1 {
			all[i] = fmt.Sprintf("%s #%d", key, seen[key])
		}
	}
	return all
}

// places are elements by their keys.
func places(keys []string) map[string]int {
	at := make(map[string]int, len(keys))
	for i, key := range keys {
		at[key] = i
	}
	return at
}

// keyFields name elements, the first that an element has.
var keyFields = []string{"name", "mac", "address", "prefix", "vlan", "router"}

// keyOf is what an element of a list is found again by: its name, or all of it.
func keyOf(list *node, i int) string {
	n := &list.items[i]
	for _, name := range keyFields {
		if v := n.value(name); v != nil && v.text != "" {
			return v.text
		}
	}
	return whole(n)
}

// keyText is a key in a path.
func keyText(key string) string {
	const most = 60
	if len(key) > most {
		return key[:most] + "…"
	}
	return key
}

func element(path string, list *node, i int) string {
	return fmt.Sprintf("%s[%s]", path, keyText(keyOf(list, i)))
}

func fieldPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func equalNodes(a, b *node) bool { return whole(a) == whole(b) }

// whole is all of a node in one line.
func whole(n *node) string {
	var b strings.Builder
	n.write(&b)
	return b.String()
}

func (n *node) write(b *strings.Builder) {
	opening, closing, between := "[", "]", ", "
	switch n.kind {
	case kindList:
	case kindMapping:
		opening, closing = "{", "}"
	default:
		b.WriteString(n.text)
		return
	}
	b.WriteString(opening)
	for i := range n.items {
		switch {
		case i == 0:
		case n.kind == kindMapping && i%2 == 1:
			b.WriteString(": ")
		default:
			b.WriteString(between)
		}
		n.items[i].write(b)
	}
	b.WriteString(closing)
}

// secretFields are those whose values nobody is shown.
var secretFields = []string{"password", "key"}

// shown is a value in one line; "" of lists and mappings.
func shown(path string, n *node) string {
	if n.kind == kindList || n.kind == kindMapping {
		return ""
	}
	for _, name := range secretFields {
		if path == name || strings.HasSuffix(path, "."+name) {
			return "(secret)"
		}
	}
	return oneLine(n.text)
}
