package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/replace"
)

// Store keeps the live objects of one edge in two files: what outlasts a reboot, and what outlasts the process alone.
type Store struct{ durable, runtime string }

// StoreOf is that of an edge.
func StoreOf(stateDir, runtimeDir, edge string) Store {
	return Store{filepath.Join(stateDir, edge, "live.json"), filepath.Join(runtimeDir, edge+".live")}
}

// file is the form of both.
type file struct {
	Format  int      `json:"format"`
	Last    uint64   `json:"last"` // change
	Objects []record `json:"objects"`
}

type record struct {
	Kind    config.Kind     `json:"kind"`
	Version uint64          `json:"version"`
	By      string          `json:"by"`
	When    time.Time       `json:"when"`
	Object  json.RawMessage `json:"object"`
}

const format = 1

// Load reads both files. One that is not there has no objects. An error is of a file, or of objects, that cannot be read;
// the rest is returned with it.
func (s Store) Load() (Set, error) {
	set := Set{entries: map[id]Entry{}}
	return set, errors.Join(set.load(s.durable, true), set.load(s.runtime, false))
}

func (s *Set) load(path string, durable bool) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var f file
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err == nil && f.Format != format {
		err = fmt.Errorf("format %d, this build reads %d", f.Format, format)
	}
	if err != nil {
		// It is out of the way of the next change, and there for who looks into it.
		return errors.Join(fmt.Errorf("live objects of %s: %w", path, err), os.Rename(path, path+".unread"))
	}
	s.last = max(s.last, f.Last)
	for _, r := range f.Objects {
		object, wrong := config.ParseObject(r.Kind, r.Object)
		if wrong != nil {
			err = errors.Join(err, fmt.Errorf("live objects of %s: %w", path, wrong))
			continue
		}
		k := id{r.Kind, object.Key}
		if has, twice := s.entries[k]; twice && has.Version >= r.Version { // it became durable, or ceased to be, when the process was killed
			continue
		}
		s.entries[k] = Entry{object, r.Version, durable, r.By, r.When}
		s.last = max(s.last, r.Version)
	}
	return err
}

// Save writes what of a set differs from the one before: what outlasts a reboot first.
func (s Store) Save(was, now Set) error {
	for _, part := range []struct {
		path    string
		durable bool
	}{{s.durable, true}, {s.runtime, false}} {
		if !now.differs(was, part.durable) {
			continue
		}
		if err := now.write(part.path, part.durable); err != nil {
			return fmt.Errorf("keep live objects: %w", err)
		}
	}
	return nil
}

// differs reports whether objects of a kind of file are others than before.
func (s Set) differs(was Set, durable bool) bool {
	count := 0
	for k, e := range s.entries {
		if e.Durable != durable {
			continue
		}
		count++
		if has, ok := was.entries[k]; !ok || has.Durable != durable || has.Version != e.Version {
			return true
		}
	}
	for _, e := range was.entries {
		if e.Durable == durable {
			count--
		}
	}
	return count != 0
}

func (s Set) write(path string, durable bool) error {
	f := file{Format: format, Last: s.last, Objects: []record{}}
	for _, e := range s.Entries() {
		if e.Durable == durable {
			f.Objects = append(f.Objects, record{e.Kind, e.Version, e.By, e.When, e.Text})
		}
	}
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return replace.File(path, text)
}

// Forget removes what a reboot ends.
func (s Store) Forget() error {
	if err := os.Remove(s.runtime); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget live objects: %w", err)
	}
	return nil
}
