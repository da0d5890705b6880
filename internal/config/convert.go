package config

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// Versions of the format. Files of both are read; Convert rewrites one into the other.
const (
	Version         = "selvage.dev/v1alpha2"
	PreviousVersion = "selvage.dev/v1alpha1"
)

// renaming is a field, or a value of it, with another name in v1alpha1. [] in a path stands
// for any item of a list.
type renaming struct {
	path     string // by the names of v1alpha2
	previous string // the field's own name in v1alpha1
	values   [][2]string
}

// rfc4787 are the words of RFC 4787 sections 4.1 and 5 for what v1alpha1 called one thing.
var rfc4787 = [][2]string{{"endpoint-dependent", "address-and-port-dependent"}}

var renamings = []renaming{
	{"spec.underlay.bfd", "liveness", nil},
	{"spec.segments[].vlanTransparent", "keepTags", nil},
	{"spec.segments[].icmpSources", "tooBigFrom", nil},
	{"spec.routers[].uplinks[].nat.portForwards", "forwards", nil},
	{"spec.routers[].l3.evpn.advertise", "announce", nil},
	{"spec.egress.sessions", "bindings", nil},
	{"spec.egress.policies[].addressPooling", "spread", [][2]string{{"source", "paired"}, {"connection", "arbitrary"}}},
	{"spec.egress.policies[].mapping", "", rfc4787},
	{"spec.egress.policies[].filtering", "", rfc4787},
	{"spec.bgp.autoRouteTargets", "routeTargets", nil},
	{"spec.bgp.neighbours[].bfd", "liveness", nil},
	{"spec.bgp.neighbours[].advertise", "announce", nil},
	{"spec.bgp.neighbours[].ebgpMultihop", "multihop", nil},
}

// retiredHalfOpen is a field of spec.firewall in v1alpha1, which moved to movedHalfOpen.
const (
	retiredHalfOpen = "halfOpenPerPort"
	movedHalfOpen   = "spec.limits.port.halfOpen"
)

// successor is the name since v1alpha2 of a field that v1alpha1 had in the mapping at
// path, or "".
func successor(path, previous string) string {
	path = withoutIndices(path)
	if path == "spec.firewall" && previous == retiredHalfOpen {
		return movedHalfOpen
	}
	for _, r := range renamings {
		if parent, name := cutLast(r.path); r.previous == previous && parent == path {
			return name
		}
	}
	return ""
}

func cutLast(path string) (parent, name string) {
	at := strings.LastIndexByte(path, '.')
	return path[:max(at, 0)], path[at+1:]
}

// withoutIndices turns a[3].b into a[].b.
func withoutIndices(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		b.WriteByte(path[i])
		if path[i] == '[' {
			for i+1 < len(path) && path[i+1] != ']' {
				i++
			}
		}
	}
	return b.String()
}

// rewriting is a walk over a file that gives fields and values the names of another
// version, and remembers what it changed.
type rewriting struct {
	back    bool // to v1alpha1
	changes []change
}

// change is a word that becomes another. The position is of the first character, a quote if
// there is one.
type change struct {
	line, column int32
	from, to     string
}

// upgrade gives a file of v1alpha1 the names of v1alpha2; what is of another version it
// leaves alone.
func upgrade(root *node) []change { return rewrite(root, PreviousVersion, Version) }

func rewrite(root *node, from, to string) []change {
	version := root.value("apiVersion")
	if version == nil || version.kind != kindString || version.text != from {
		return nil
	}
	w := rewriting{back: to == PreviousVersion}
	w.word(version, to)
	w.walk(root, "")
	if spec := root.value("spec"); !w.back && spec != nil {
		w.moveHalfOpen(spec)
	}
	return w.changes
}

// moveHalfOpen makes spec.firewall.halfOpenPerPort a field of spec.limits.port, which
// v1alpha1 had not.
func (w *rewriting) moveHalfOpen(spec *node) {
	fw := spec.value("firewall")
	if fw == nil || fw.value(retiredHalfOpen) == nil {
		return
	}
	at := slices.IndexFunc(fw.items, func(n node) bool { return n.text == retiredHalfOpen })
	key, value := fw.items[at], fw.items[at+1]
	fw.items = slices.Delete(fw.items, at, at+2)
	w.changes = append(w.changes, change{key.line, key.column, key.text + ": " + value.text, ""})
	mapping := func(name string, value node) node {
		key.text = name
		return node{kind: kindMapping, line: key.line, column: key.column, items: []node{key, value}}
	}
	limits := mapping("port", mapping("halfOpen", value))
	before := &spec.items[slices.IndexFunc(spec.items, func(n node) bool { return n.text == "firewall" })]
	end := "\n" + strings.Repeat(" ", int(before.column)-1)
	if spec.line == before.line && spec.column < before.column-1 { // in braces
		end = ", "
	}
	w.changes = append(w.changes, change{before.line, before.column, "firewall", "limits: {port: {halfOpen: " + value.text + "}}" + end + "firewall"})
	key.text = "limits"
	spec.items = append(spec.items, key, limits)
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

func (w *rewriting) word(n *node, to string) {
	w.changes = append(w.changes, change{n.line, n.column, n.text, to})
	n.text = to
}

// walk rewrites the value at path, whose own name is done.
func (w *rewriting) walk(n *node, path string) {
	switch n.kind {
	case kindList:
		for i := range n.items {
			w.walk(&n.items[i], path+"[]")
		}
	case kindMapping:
		for i := 0; i+1 < len(n.items); i += 2 {
			w.field(&n.items[i], &n.items[i+1], path)
		}
	}
}

func (w *rewriting) field(key, value *node, path string) {
	if !leadsToRenaming(path) {
		return
	}
	for _, r := range renamings {
		parent, name := cutLast(r.path)
		from, to := r.previous, name
		if from == "" {
			from = name
		}
		if w.back {
			from, to = to, from
		}
		if parent != path || key.text != from {
			continue
		}
		if from != to {
			w.word(key, to)
		}
		for _, v := range r.values {
			before, after := v[0], v[1]
			if w.back {
				before, after = after, before
			}
			if value.kind == kindString && value.text == before {
				w.word(value, after)
				break
			}
		}
		return
	}
	w.walk(value, strings.TrimPrefix(path+"."+key.text, "."))
}

// leadsToRenaming spares the walk the rules of a firewall, of which there may be 100,000.
func leadsToRenaming(path string) bool {
	return path == "" || slices.ContainsFunc(renamings, func(r renaming) bool { return strings.HasPrefix(r.path, path) })
}

// Convert reads the file at path and returns it in v1alpha2; comments, order and layout
// stay, and a file of v1alpha2 is returned as it is. The error is an Errors when the file
// could be read but not used.
func Convert(path string) ([]byte, error) {
	data, _, err := readFile(path, maxFileSize)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return convert(path, data, PreviousVersion, Version)
}

// Downgrade is Convert the other way, of the content of a file whose path is name: for a
// build that reads v1alpha1 only.
func Downgrade(name string, data []byte) ([]byte, error) {
	return convert(name, data, Version, PreviousVersion)
}

func convert(name string, data []byte, from, to string) ([]byte, error) {
	d := newDecoder(name)
	root := d.root(data, "examples/host-a.yaml")
	if root == nil {
		return nil, d.file.errs
	}
	out, err := edited(name, data, rewrite(root, from, to))
	if err != nil {
		return nil, err
	}
	// What is not used as it is, is not used converted.
	before, problem := parse(name, data, 0, filesBeside(name))
	if problem != nil {
		return nil, problem
	}
	after, err := parse(name, out, 0, filesBeside(name))
	before.APIVersion, after.APIVersion = "", ""
	if err != nil || !reflect.DeepEqual(before, after) {
		return nil, fmt.Errorf("%s: converting it to %s would change its meaning; rename the fields by hand: docs/internals/retired-names.md lists them", name, to)
	}
	return out, nil
}

// edited is the text of a file with changes made.
func edited(name string, data []byte, changes []change) ([]byte, error) {
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column))
	})
	var out bytes.Buffer
	done, line, at := 0, int32(1), 0
	for _, c := range changes {
		for ; line < c.line && at < len(data); line++ {
			next := bytes.IndexByte(data[at:], '\n')
			if next < 0 {
				break
			}
			at += next + 1
		}
		begin := at
		for range c.column - 1 {
			_, size := utf8.DecodeRune(data[begin:])
			begin += size
		}
		if begin < len(data) && (data[begin] == '"' || data[begin] == '\'') {
			begin++
		}
		if !bytes.HasPrefix(data[begin:], []byte(c.from)) {
			return nil, fmt.Errorf("%s:%d: %s is written in a way that cannot be converted; write %s by hand", name, c.line, c.from, c.to)
		}
		out.Write(data[done:begin])
		out.WriteString(c.to)
		done = begin + len(c.from)
		if c.to == "" { // a field that is gone
			rest := bytes.TrimLeft(data[done:], ", ")
			done = len(data) - len(rest)
		}
	}
	out.Write(data[done:])
	return out.Bytes(), nil
}
