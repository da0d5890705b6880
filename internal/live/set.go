// Package live keeps the objects that are added to a configuration while its edge runs: which there are, of which version,
// and in which file they outlast a restart or a reboot.
//
// Its one invariant: a change is all of its operations or none, and an object's version is the number of the change that it
// comes from. Do not use it to say whether an object fits a configuration (config), nor to bring one into force (transaction).
package live

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/config"
)

// Bounds of what clients may leave in an edge.
const (
	MaxObjects    = 65536
	MaxOperations = 65536     // of one change
	maxText       = 128 << 20 // bytes of all objects
)

// Entry is a live object, and what is known of it.
type Entry struct {
	config.Object
	Version uint64
	Durable bool // it outlasts a reboot
	By      string
	When    time.Time
}

// Document is the entry as the API has it.
func (e Entry) Document() api.LiveObject {
	return api.LiveObject{Kind: string(e.Kind), Key: e.Key, Version: e.Version, Durable: e.Durable, By: e.By, When: e.When, Object: e.Text}
}

type id struct {
	kind config.Kind
	key  string
}

// Set is all live objects of an edge. The zero value has none. It is never changed.
type Set struct {
	entries map[id]Entry
	last    uint64 // the number of the last change
}

// Version is the number of the last change.
func (s Set) Version() uint64 { return s.last }

// Len is how many objects there are.
func (s Set) Len() int { return len(s.entries) }

// Objects are all, in no order.
func (s Set) Objects() []config.Object {
	list := make([]config.Object, 0, len(s.entries))
	for _, e := range s.entries {
		list = append(list, e.Object)
	}
	return list
}

// Entries are all, by kind and key.
func (s Set) Entries() []Entry {
	order := config.Kinds()
	return slices.SortedFunc(maps.Values(s.entries), func(a, b Entry) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)), cmp.Compare(a.Key, b.Key))
	})
}

// Get is the entry of a kind and key.
func (s Set) Get(kind config.Kind, key string) (Entry, bool) {
	e, ok := s.entries[id{kind, key}]
	return e, ok
}

// Change is what operations do to a set.
type Change struct {
	Set     Set
	Changes []config.Change
	Touched []Entry         // those that were asked for, as they are then; removed ones are not among them
	Labels  map[string]bool // of the objects that are other ones than before
	Adds    bool            // nothing is changed or removed
}

// Do is the set with operations done, in their order. An error is an api.BadRequest or an *api.Conflict.
func (s Set) Do(operations []api.LiveOperation, by string, now time.Time) (Change, error) {
	w := &work{before: s, set: Set{maps.Clone(s.entries), s.last + 1}, by: by, now: now, was: map[id]*Entry{}}
	if w.set.entries == nil {
		w.set.entries = map[id]Entry{}
	}
	if len(operations) == 0 || len(operations) > MaxOperations {
		return Change{}, api.BadRequest{Err: fmt.Errorf("live objects: %d operations, not 1 to %d", len(operations), MaxOperations)}
	}
	for i, o := range operations {
		if err := w.do(o); err != nil {
			if len(operations) > 1 {
				err = atOperation(i, err)
			}
			return Change{}, err
		}
	}
	if len(w.set.entries) > MaxObjects {
		return Change{}, api.BadRequest{Err: fmt.Errorf("live objects: %d, at most %d: put some into the configuration file", len(w.set.entries), MaxObjects)}
	}
	size := 0
	for _, e := range w.set.entries {
		size += len(e.Text)
	}
	if size > maxText {
		return Change{}, api.BadRequest{Err: fmt.Errorf("live objects: %d MiB, at most %d: put some into the configuration file", size>>20, maxText>>20)}
	}
	return w.change(), nil
}

// atOperation says which operation an error is of.
func atOperation(i int, err error) error {
	var conflict *api.Conflict
	var wrong api.BadRequest
	switch {
	case errors.As(err, &conflict):
		return &api.Conflict{Status: conflict.Status, Message: fmt.Sprintf("operation %d: %s", i+1, conflict.Message), Current: conflict.Current}
	case errors.As(err, &wrong):
		return api.BadRequest{Err: fmt.Errorf("operation %d: %w", i+1, wrong.Err)}
	}
	return err
}

// work is a change under way.
type work struct {
	before, set Set
	by          string
	now         time.Time
	asked       []id
	was         map[id]*Entry // of what was asked for, before
}

func (w *work) change() Change {
	c := Change{Labels: map[string]bool{}, Adds: true}
	for _, k := range w.asked {
		was, now := w.was[k], (*Entry)(nil)
		if e, ok := w.set.entries[k]; ok {
			now = &e
			c.Touched = append(c.Touched, e)
		}
		if was != nil && now != nil && was.Version == now.Version || was == nil && now == nil {
			continue
		}
		var a, b *config.Object
		if was != nil {
			a, c.Adds = &was.Object, false
			c.Labels[was.Label()] = true
		}
		if now != nil {
			b = &now.Object
			c.Labels[now.Label()] = true
		}
		changes := config.DiffObjects(a, b)
		if was != nil && now != nil && was.Durable != now.Durable {
			changes = append(changes, config.Change{
				Kind: config.Changed, Path: fmt.Sprintf("live.%s[%s] durable", k.kind, k.key), Was: fmt.Sprint(was.Durable), Now: fmt.Sprint(now.Durable),
			})
		}
		c.Changes = append(c.Changes, changes...)
	}
	if c.Set = w.set; len(c.Labels) == 0 { // nothing has another version
		c.Set = w.before
	}
	return c
}

func (w *work) do(o api.LiveOperation) error {
	kind := config.Kind(o.Kind)
	if !slices.Contains(config.Kinds(), kind) {
		_, err := config.ParseObject(kind, nil)
		return api.BadRequest{Err: err}
	}
	switch o.Op {
	case api.LiveAdd, api.LivePut:
		return w.put(kind, o)
	case api.LiveSet:
		return w.patch(kind, o)
	case api.LiveRemove:
		return w.remove(kind, o)
	case api.LiveAddMembers, api.LiveRemoveMembers:
		return w.members(kind, o)
	}
	return api.BadRequest{Err: fmt.Errorf("there is no operation %q: add, put, set, remove, add-members, remove-members", o.Op)}
}

func (w *work) put(kind config.Kind, o api.LiveOperation) error {
	object, err := config.ParseObject(kind, o.Object)
	if err != nil {
		return api.BadRequest{Err: err}
	}
	if o.Key != "" && o.Key != object.Key {
		return api.BadRequest{Err: fmt.Errorf("live %s: the key is %q, and the object is %q", kind, o.Key, object.Key)}
	}
	k := id{kind, object.Key}
	e, exists := w.look(k)
	if exists && o.Op == api.LiveAdd && !o.MayExist {
		return conflict(http.StatusConflict, &e, "live %s %s already exists (version %d): `set` changes it, --may-exist takes it over", kind, k.key, e.Version)
	}
	if err := w.expect(k, o); err != nil {
		return err
	}
	w.store(k, object, o.Durable)
	return nil
}

// find is the object that is to be changed, of the version that is expected; nil where it need not be there and is not.
func (w *work) find(kind config.Kind, o api.LiveOperation) (id, *Entry, error) {
	k := id{kind, o.Key}
	e, exists := w.look(k)
	switch {
	case !exists && o.IfExists:
		return k, nil, nil
	case !exists:
		return k, nil, missing(kind, o.Key)
	}
	return k, &e, w.expect(k, o)
}

func (w *work) patch(kind config.Kind, o api.LiveOperation) error {
	k, e, err := w.find(kind, o)
	if e == nil || err != nil {
		return err
	}
	if len(o.Object) == 0 {
		o.Object = json.RawMessage("{}")
	}
	text, err := mergePatch(e.Text, o.Object)
	if err != nil {
		return api.BadRequest{Err: fmt.Errorf("live %s %s: %w", kind, o.Key, err)}
	}
	object, err := config.ParseObject(kind, text)
	if err != nil {
		return api.BadRequest{Err: err}
	}
	if object.Key != o.Key {
		return api.BadRequest{Err: fmt.Errorf("live %s %s: its name cannot be changed: remove it, and add another", kind, o.Key)}
	}
	w.store(k, object, o.Durable)
	return nil
}

func (w *work) remove(kind config.Kind, o api.LiveOperation) error {
	k, e, err := w.find(kind, o)
	if e == nil || err != nil {
		return err
	}
	delete(w.set.entries, k)
	return nil
}

// look notes what an object was before, and returns it as it is.
func (w *work) look(k id) (Entry, bool) {
	if _, known := w.was[k]; !known {
		w.asked = append(w.asked, k)
		w.was[k] = nil
		if e, ok := w.before.entries[k]; ok {
			w.was[k] = &e
		}
	}
	e, ok := w.set.entries[k]
	return e, ok
}

// expect refuses another version than the one that was asked for.
func (w *work) expect(k id, o api.LiveOperation) error {
	e, exists := w.set.entries[k]
	switch {
	case o.IfVersion == 0 || exists && e.Version == o.IfVersion:
		return nil
	case !exists:
		return conflict(http.StatusPreconditionFailed, nil, "live %s %s: version %d was expected, and it does not exist", k.kind, k.key, o.IfVersion)
	}
	return conflict(http.StatusPreconditionFailed, &e, "live %s %s: version %d was expected, it is %d, by %s", k.kind, k.key, o.IfVersion, e.Version, e.By)
}

// store puts an object in its place, unless it is there already.
func (w *work) store(k id, object config.Object, durable *bool) {
	e, exists := w.set.entries[k]
	lasting := exists && e.Durable
	if durable != nil {
		lasting = *durable
	}
	if exists && lasting == e.Durable && bytes.Equal(e.Text, object.Text) {
		return
	}
	w.set.entries[k] = Entry{object, w.set.last, lasting, w.by, w.now}
}

func conflict(status int, e *Entry, format string, args ...any) error {
	c := &api.Conflict{Status: status, Message: fmt.Sprintf(format, args...)}
	if e != nil {
		current := e.Document()
		c.Current = &current
	}
	return c
}

func missing(kind config.Kind, key string) error {
	return conflict(http.StatusNotFound, nil, "there is no live %s %q: selvage live lists those that there are; what stands in the configuration file is changed there", kind, key)
}

// mergePatch is a JSON object with fields of another one (RFC 7396): null takes a field away.
func mergePatch(target, patch json.RawMessage) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(patch, &fields); err != nil || fields == nil {
		return patch, err
	}
	var into map[string]json.RawMessage
	if json.Unmarshal(target, &into) != nil || into == nil {
		into = map[string]json.RawMessage{}
	}
	for name, value := range fields {
		if bytes.Equal(bytes.TrimSpace(value), []byte("null")) {
			delete(into, name)
			continue
		}
		if trimmed := bytes.TrimSpace(value); len(trimmed) > 0 && trimmed[0] == '{' {
			merged, err := mergePatch(into[name], value)
			if err != nil {
				return nil, err
			}
			if into[name] = merged; bytes.Equal(merged, []byte("{}")) && !bytes.Equal(trimmed, merged) {
				delete(into, name) // all of it was taken away: there is no field without fields
			}
			continue
		}
		into[name] = value
	}
	return json.Marshal(into)
}
