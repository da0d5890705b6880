package live

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/config"
)

var now = time.Unix(1_700_000_000, 0).UTC()

func must(t *testing.T, s Set, operations ...api.LiveOperation) Set {
	t.Helper()
	c, err := s.Do(operations, "alice", now)
	if err != nil {
		t.Fatal(err)
	}
	return c.Set
}

func raw(texts ...string) (list []json.RawMessage) {
	for _, s := range texts {
		list = append(list, json.RawMessage(s))
	}
	return list
}

func add(key, object string) api.LiveOperation {
	return api.LiveOperation{Op: api.LiveAdd, Kind: "port", Key: key, Object: json.RawMessage(object)}
}

const p1 = `{"name": "p1", "interface": "tap1", "segment": "blue", "allowed": {"macs": ["02:00:00:00:00:01"]}}`

// An operation that does not fit what is there says so by its status, and with what is there.
func TestConflicts(t *testing.T) {
	s := must(t, Set{}, add("p1", p1))
	yes := true
	for name, c := range map[string]struct {
		o       api.LiveOperation
		status  int
		current bool
	}{
		"there already":         {add("p1", p1), 409, true},
		"not there":             {api.LiveOperation{Op: api.LiveRemove, Kind: "port", Key: "p2"}, 404, false},
		"not there to change":   {api.LiveOperation{Op: api.LiveSet, Kind: "port", Key: "p2", Durable: &yes}, 404, false},
		"no group":              {api.LiveOperation{Op: api.LiveRemoveMembers, Kind: "group", Key: "g", Members: raw(`"10.0.0.1"`)}, 404, false},
		"another version":       {api.LiveOperation{Op: api.LiveRemove, Kind: "port", Key: "p1", IfVersion: 7}, 412, true},
		"a version of nothing":  {api.LiveOperation{Op: api.LivePut, Kind: "port", Object: json.RawMessage(strings.ReplaceAll(p1, "p1", "p2")), IfVersion: 1}, 412, false},
		"no operation":          {api.LiveOperation{Op: "frob", Kind: "port"}, 0, false},
		"no kind":               {api.LiveOperation{Op: api.LiveAdd, Kind: "prot"}, 0, false},
		"no object":             {api.LiveOperation{Op: api.LiveAdd, Kind: "port"}, 0, false},
		"key of another object": {api.LiveOperation{Op: api.LiveAdd, Kind: "port", Key: "p3", Object: json.RawMessage(p1)}, 0, false},
		"another name":          {api.LiveOperation{Op: api.LiveSet, Kind: "port", Key: "p1", Object: json.RawMessage(`{"name": "p2"}`)}, 0, false},
		"members of a port":     {api.LiveOperation{Op: api.LiveAddMembers, Kind: "port", Key: "p1", Members: raw(`"10.0.0.1"`)}, 0, false},
	} {
		_, err := s.Do([]api.LiveOperation{c.o}, "bob", now)
		var conflict *api.Conflict
		var bad api.BadRequest
		switch {
		case c.status == 0 && !errors.As(err, &bad):
			t.Errorf("%s: %v", name, err)
		case c.status != 0 && (!errors.As(err, &conflict) || conflict.Status != c.status || (conflict.Current != nil) != c.current):
			t.Errorf("%s: %#v", name, err)
		}
	}
	// And neither of two comes when one does not fit.
	if _, err := s.Do([]api.LiveOperation{add("p2", strings.ReplaceAll(p1, "p1", "p2")), add("p1", p1)}, "bob", now); err == nil || !strings.HasPrefix(err.Error(), "operation 2: ") {
		t.Error(err)
	}
	if s.Len() != 1 || s.Version() != 1 {
		t.Errorf("%d objects of version %d", s.Len(), s.Version())
	}
}

// What is asked for again changes nothing; what changes has the version of the change.
func TestVersions(t *testing.T) {
	s := must(t, Set{}, add("p1", p1), add("p2", strings.ReplaceAll(p1, "p1", "p2")))
	again := api.LiveOperation{Op: api.LiveAdd, Kind: "port", Object: json.RawMessage(p1), MayExist: true}
	gone := api.LiveOperation{Op: api.LiveRemove, Kind: "port", Key: "p9", IfExists: true}
	if same := must(t, s, again, gone); same.Version() != 1 {
		t.Errorf("version %d", same.Version())
	}
	s = must(t, s, api.LiveOperation{Op: api.LiveSet, Kind: "port", Key: "p1", IfVersion: 1, Object: json.RawMessage(`{"segment": "red", "allowed": {"macs": null, "addresses": ["10.0.0.1/32"]}}`)})
	e, _ := s.Get(config.KindPort, "p1")
	if e.Version != 2 || string(e.Text) != `{"allowed":{"addresses":["10.0.0.1/32"]},"interface":"tap1","name":"p1","segment":"red"}` {
		t.Errorf("%+v %s", e, e.Text)
	}
	s = must(t, s, api.LiveOperation{Op: api.LiveSet, Kind: "port", Key: "p1", Object: json.RawMessage(`{"allowed": {"addresses": null}}`)})
	if e, _ := s.Get(config.KindPort, "p1"); string(e.Text) != `{"interface":"tap1","name":"p1","segment":"red"}` {
		t.Errorf("%s", e.Text)
	}
	other, _ := s.Get(config.KindPort, "p2")
	if other.Version != 1 {
		t.Errorf("the other is of version %d", other.Version)
	}
	yes := true
	c, err := s.Do([]api.LiveOperation{{Op: api.LiveSet, Kind: "port", Key: "p1", Durable: &yes}}, "bob", now)
	if err != nil || len(c.Changes) != 1 || c.Changes[0] != (config.Change{Kind: "changed", Path: "live.port[p1] durable", Was: "false", Now: "true"}) || c.Touched[0].By != "bob" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestMembers(t *testing.T) {
	change := func(op string, ifExists bool, members ...string) api.LiveOperation {
		return api.LiveOperation{Op: op, Kind: "group", Key: "g", Members: raw(members...), IfExists: ifExists}
	}
	s := must(t, Set{}, change(api.LiveAddMembers, false, `"10.0.0.1"`, `{"port": "p0"}`, `"10.0.0.1"`))
	s = must(t, s, change(api.LiveAddMembers, false, `{ "port" : "p0" }`, `"10.0.0.2"`), change(api.LiveRemoveMembers, false, `"10.0.0.1"`))
	e, _ := s.Get(config.KindGroup, "g")
	if string(e.Text) != `{"name":"g","members":[{"port":"p0"},"10.0.0.2"]}` {
		t.Errorf("%s", e.Text)
	}
	if _, err := s.Do([]api.LiveOperation{change(api.LiveRemoveMembers, false, `"10.0.0.9"`)}, "", now); err == nil {
		t.Error("what is no member is removed")
	}
	if same := must(t, s, change(api.LiveRemoveMembers, true, `"10.0.0.9"`)); same.Version() != s.Version() {
		t.Errorf("version %d", same.Version())
	}
	s = must(t, s, change(api.LiveRemoveMembers, false, `"10.0.0.2"`, `{"port":"p0"}`))
	if e, ok := s.Get(config.KindGroup, "g"); !ok || string(e.Text) != `{"name":"g","members":[]}` {
		t.Errorf("%s", e.Text)
	}
}

// A reboot ends what is not durable, and a killed process loses nothing; what cannot be read keeps nothing else from it.
func TestStore(t *testing.T) {
	state, run := t.TempDir(), t.TempDir()
	store, yes := StoreOf(state, run, "a"), true
	load := func() Set {
		t.Helper()
		s, err := store.Load()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := load()
	lasting := add("p2", strings.ReplaceAll(p1, "p1", "p2"))
	lasting.Durable = &yes
	s := must(t, before, add("p1", p1), lasting)
	save := func(was, now Set) {
		t.Helper()
		if err := store.Save(was, now); err != nil {
			t.Fatal(err)
		}
	}
	save(before, s)
	if got := load(); !reflect.DeepEqual(got.Entries(), s.Entries()) || got.Version() != s.Version() {
		t.Errorf("got %+v", got.Entries())
	}
	// It is durable from now on, and the process is killed between both files.
	runtime, err := os.ReadFile(store.runtime)
	if err != nil {
		t.Fatal(err)
	}
	next := must(t, s, api.LiveOperation{Op: api.LiveSet, Kind: "port", Key: "p1", Durable: &yes})
	save(s, next)
	if err := os.WriteFile(store.runtime, runtime, 0o600); err != nil {
		t.Fatal(err)
	}
	if e, _ := load().Get(config.KindPort, "p1"); !e.Durable || load().Len() != 2 {
		t.Errorf("%+v", load().Entries())
	}
	s = must(t, next, add("p3", strings.ReplaceAll(p1, "p1", "p3")))
	save(next, s)
	if err := store.Forget(); err != nil {
		t.Fatal(err)
	}
	if got := load(); got.Len() != 2 || got.Version() < 2 {
		t.Errorf("after a reboot: %+v", got.Entries())
	}
	save(next, s)
	if err := os.WriteFile(filepath.Join(state, "a", "live.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := store.Load()
	if err == nil || got.Len() != 1 || !strings.Contains(err.Error(), "live.json") {
		t.Errorf("%v, %+v", err, got.Entries())
	}
	if _, err := os.Stat(filepath.Join(state, "a", "live.json.unread")); err != nil {
		t.Error(err)
	}
}

func FuzzOperations(f *testing.F) {
	f.Add(`[{"op":"add","kind":"port","object":{"name":"p1","interface":"x","segment":"b"}},{"op":"set","kind":"port","key":"p1","object":{"segment":null}}]`)
	f.Add(`[{"op":"add-members","kind":"group","key":"g","members":["10.0.0.1",{"port":"p"}]},{"op":"remove-members","kind":"group","key":"g","members":["10.0.0.1"]}]`)
	f.Fuzz(func(t *testing.T, text string) {
		var operations []api.LiveOperation
		if json.Unmarshal([]byte(text), &operations) != nil {
			return
		}
		c, err := Set{}.Do(operations, "", now)
		if err != nil {
			return
		}
		dir := t.TempDir()
		store := StoreOf(dir, dir, "a")
		if err := store.Save(Set{}, c.Set); err != nil {
			t.Fatal(err)
		}
		got, err := store.Load()
		if err != nil || !reflect.DeepEqual(got.Entries(), c.Set.Entries()) {
			t.Fatalf("%v\n%+v\n%+v", err, got.Entries(), c.Set.Entries())
		}
	})
}
