package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Kind is what a live object is.
type Kind string

// Kinds of live objects.
const (
	KindPort      Kind = "port"
	KindSegment   Kind = "segment"
	KindRemote    Kind = "remote"
	KindFDB       Kind = "fdb"
	KindNeighbour Kind = "neighbour"
	KindGroup     Kind = "group"
)

// Kinds are all of them, in the order in which one may refer to those before it.
func Kinds() []Kind {
	return []Kind{KindRemote, KindSegment, KindPort, KindFDB, KindNeighbour, KindGroup}
}

// maxObject bounds the text of a live object, in bytes: room for a group of 100,000 addresses.
const maxObject = 4 << 20

// Object is an object that is added to a configuration while its edge runs. It has the fields that an object of its kind
// has in the file.
type Object struct {
	Kind Kind
	// Key tells objects of a kind apart: the name, or the segment and the address, as in blue/10.0.0.5.
	Key string
	// Text is the object as JSON.
	Text []byte
	// Alias: it is not among the live objects, but by the alias of an interface.
	Alias bool

	value any
	seen  map[string]Position // of its fields, below ""
}

// Label is how messages call o.
func (o Object) Label() string {
	if o.Alias {
		return "alias of interface " + o.Key
	}
	return "live " + string(o.Kind) + " " + o.Key
}

// liveRemote is another edge, and the segments that it is in.
type liveRemote struct {
	Name      remoteRef    `json:"name" jsonschema_description:"name of the edge, or the address of its only tunnel endpoint"`
	Addresses []address    `json:"addresses,omitempty" jsonschema:"minItems=1,uniqueItems=true" jsonschema_description:"its tunnel endpoints, the preferred first; with a name"`
	Segments  []objectName `json:"segments,omitempty" jsonschema:"minItems=1,uniqueItems=true" jsonschema_description:"segments that it is in"`
}

type liveFDB struct {
	Segment objectName `json:"segment" jsonschema_description:"name of the segment"`
	staticMAC
}

type liveNeighbour struct {
	Segment objectName `json:"segment" jsonschema_description:"name of the segment"`
	neighbour
}

// liveGroup is a group of its own, or more members for one of the file that is live.
type liveGroup struct {
	Name    ownName       `json:"name" jsonschema_description:"name of the group"`
	Members []groupMember `json:"members,omitempty" jsonschema_description:"what belongs to it"`
}

// shapeOf is an empty object of a kind; nil where there is no such kind.
func shapeOf(kind Kind) any {
	switch kind {
	case KindPort:
		return &port{}
	case KindSegment:
		return &segment{}
	case KindRemote:
		return &liveRemote{}
	case KindFDB:
		return &liveFDB{}
	case KindNeighbour:
		return &liveNeighbour{}
	case KindGroup:
		return &liveGroup{}
	}
	return nil
}

// ParseObject reads a live object with the strictness of the file. An error is an Errors.
func ParseObject(kind Kind, text []byte) (Object, error) {
	o := Object{Kind: kind, Text: text}
	shape := shapeOf(kind)
	d := newDecoder("live " + string(kind))
	d.file.live = true
	switch {
	case shape == nil:
		names := []string{}
		for _, k := range Kinds() {
			names = append(names, string(k))
		}
		return o, Errors{{Position: Position{File: "live object"}, Message: fmt.Sprintf("there is no kind %q", kind), Hint: suggest(string(kind), names, "kinds")}}
	case len(text) > maxObject:
		return o, Errors{{Position: Position{File: d.file.name}, Message: fmt.Sprintf("it is larger than %d MiB", maxObject>>20), Hint: "make it several objects"}}
	case !json.Valid(text): // what is stored is read by others too
		return o, Errors{{Position: Position{File: d.file.name}, Message: "not JSON", Hint: "write one JSON object"}}
	}
	if root := d.root(text, "docs/guide/live.md"); root != nil {
		d.value(root, reflect.ValueOf(shape).Elem(), rule{})
	}
	o.value, o.seen, o.Key = shape, d.file.seen, keyOfObject(shape)
	for path := range o.seen {
		o.seen[path] = Position{File: o.Label()}
	}
	for i := range d.file.errs {
		d.file.errs[i].Position = Position{File: strings.TrimSpace(o.Label())}
	}
	if len(d.file.errs) > 0 {
		return o, d.file.errs
	}
	var compact bytes.Buffer
	if json.Compact(&compact, text) == nil { // it is valid
		o.Text = compact.Bytes()
	}
	return o, nil
}

// Aliased is o as an object by the alias of an interface.
func (o Object) Aliased() Object {
	o.Alias = true
	seen := make(map[string]Position, len(o.seen))
	for path := range o.seen {
		seen[path] = Position{File: o.Label()}
	}
	o.seen = seen
	return o
}

func keyOfObject(shape any) string {
	switch v := shape.(type) {
	case *port:
		return string(v.Name)
	case *segment:
		return string(v.Name)
	case *liveRemote:
		return v.Name.text
	case *liveFDB:
		if v.Segment != "" && v.MAC.MAC != (macAddress{}).MAC {
			return string(v.Segment) + "/" + v.MAC.MAC.String()
		}
	case *liveNeighbour:
		if v.Segment != "" && v.Address.IsValid() {
			return string(v.Segment) + "/" + v.Address.String()
		}
	case *liveGroup:
		return v.Name.text
	}
	return ""
}

// SortObjects sorts objects as Kinds are, then live ones before those by aliases, and by key.
func SortObjects(list []Object) {
	order := Kinds()
	slices.SortFunc(list, func(a, b Object) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)), asNumber(a.Alias)-asNumber(b.Alias), cmp.Compare(a.Key, b.Key))
	})
}

func asNumber(b bool) int {
	if b {
		return 1
	}
	return 0
}

// DiffObjects lists what changes from one object of a kind and key to another; nil is none.
func DiffObjects(was, now *Object) []Change {
	var d diff
	path := func(o *Object) string { return fmt.Sprintf("live.%s[%s]", o.Kind, keyText(o.Key)) }
	switch {
	case was == nil && now == nil:
	case was == nil:
		d.add(Change{Kind: Added, Path: path(now)})
	case now == nil:
		d.add(Change{Kind: Removed, Path: path(was)})
	default:
		a, b := newDecoder("").root(was.Text, ""), newDecoder("").root(now.Text, "")
		if a != nil && b != nil {
			d.nodes(path(now), a, b)
		}
	}
	return d.changes
}
