// Package revision keeps the configurations that an edge had in force, so that it can go back
// to one, and start with the last good one when its file is broken.
//
// Its one invariant: a revision is whole or it is not there. Who is killed while it writes one
// leaves the others as they were.
//
// Do not use it for what is in force now (edge), nor for what a configuration means (config).
package revision

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/config"
)

// Keep is how many revisions are kept: the newest.
const Keep = 20

// Revision is a configuration that was in force.
type Revision struct {
	ID   int       `json:"id"` // from 1
	When time.Time `json:"when"`
	By   string    `json:"by"`   // who asked for it
	What string    `json:"what"` // how it came into force, as in "apply" or "rollback to 3"
	Path string    `json:"path"` // of its file
	// Unconfirmed: it goes back by itself, unless somebody confirms it.
	Unconfirmed bool `json:"unconfirmed,omitempty"`
	// Hash is of the texts of its files: Add sets it.
	Hash string `json:"hash"`

	Source config.Source `json:"-"`
}

// Store keeps the revisions of one edge. Its methods are not for use at the same time.
type Store struct{ dir string }

// Open makes the directory of an edge below stateDir, where it is not there. What is in it is for root
// alone: configurations have passwords.
func Open(stateDir, name string) (*Store, error) {
	s := &Store{filepath.Join(stateDir, name)}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory of revisions: %w", err)
	}
	return s, nil
}

// List is all revisions, the newest first, without their sources. One that cannot be read
// is left out.
func (s *Store) List() ([]Revision, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	var list []Revision
	for _, id := range slices.Backward(ids) {
		if r, err := s.meta(id); err == nil {
			list = append(list, r)
		}
	}
	return list, nil
}

// Get reads a revision with its source. One that is not there is fs.ErrNotExist.
func (s *Store) Get(id int) (Revision, error) {
	r, err := s.meta(id)
	if errors.Is(err, fs.ErrNotExist) {
		return r, MissingError(fmt.Sprintf("there is no revision %d", id))
	}
	if err != nil {
		return r, err
	}
	f, err := os.Open(s.path(id, sourceSuffix))
	if err != nil {
		return r, fmt.Errorf("revision %d: %w", id, err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err == nil {
		err = json.NewDecoder(unzipped).Decode(&r.Source)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, unzipped) // up to the checksum
	}
	if err != nil {
		return r, fmt.Errorf("revision %d: %w", id, err)
	}
	return r, nil
}

// Add keeps a revision, under the next number, which it returns, and forgets those that are
// too many.
func (s *Store) Add(r Revision) (int, error) {
	ids, err := s.ids()
	if err != nil {
		return 0, err
	}
	r.ID, r.Hash = 1, Hash(r.Source)
	if len(ids) > 0 {
		r.ID = ids[len(ids)-1] + 1
	}
	if err := s.write(r.ID, sourceSuffix, func(w io.Writer) error {
		zipped := gzip.NewWriter(w)
		return errors.Join(json.NewEncoder(zipped).Encode(r.Source), zipped.Close())
	}); err != nil {
		return 0, err
	}
	if err := s.writeMeta(r); err != nil { // last: it is what makes a revision
		return 0, err
	}
	for _, id := range ids[:max(0, len(ids)+1-Keep)] {
		err = errors.Join(err, os.Remove(s.path(id, metaSuffix)), os.Remove(s.path(id, sourceSuffix)))
	}
	return r.ID, err
}

// Hash tells sources with the same text by their hash, whatever their files are called.
func Hash(source config.Source) string {
	sum := sha256.New()
	for _, f := range source.Files {
		fmt.Fprintf(sum, "%d\n%s", len(f.Text), f.Text)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Confirm makes a revision stay.
func (s *Store) Confirm(id int) error {
	r, err := s.meta(id)
	if err != nil {
		return fmt.Errorf("confirm revision %d: %w", id, err)
	}
	r.Unconfirmed = false
	return s.writeMeta(r)
}

// LastGood is the newest confirmed revision of the file at path, of whichever edge it is of,
// with its source. There is none when it is fs.ErrNotExist.
func LastGood(stateDir, path string) (Revision, error) {
	dirs, err := os.ReadDir(stateDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Revision{}, fmt.Errorf("look for revisions: %w", err)
	}
	var best Revision
	var in *Store
	for _, d := range dirs {
		s := &Store{filepath.Join(stateDir, d.Name())}
		list, err := s.List()
		if err != nil { // no directory, or not of an edge
			continue
		}
		i := slices.IndexFunc(list, func(r Revision) bool { return r.Path == path && !r.Unconfirmed })
		if i >= 0 && (in == nil || list[i].When.After(best.When)) {
			best, in = list[i], s
		}
	}
	if in == nil {
		return best, MissingError("there is no revision of " + path)
	}
	return in.Get(best.ID)
}

// Newest is the newest revision of an edge that can be read, with its source: what it has in force, or had when its
// process ended. It makes nothing. There is none when it is fs.ErrNotExist.
func Newest(stateDir, name string) (Revision, error) {
	s := &Store{filepath.Join(stateDir, name)}
	ids, err := s.ids()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Revision{}, err
	}
	for _, id := range slices.Backward(ids) {
		if r, err := s.Get(id); err == nil {
			return r, nil
		}
	}
	return Revision{}, MissingError("there is no revision in " + s.dir)
}

// MissingError says which revision is not there. It is fs.ErrNotExist.
type MissingError string

// Error is all of it: that a file does not exist says no more.
func (m MissingError) Error() string { return string(m) }

// Is reports whether the target is fs.ErrNotExist.
func (MissingError) Is(target error) bool { return target == fs.ErrNotExist }

const metaSuffix, sourceSuffix = ".json", ".source.gz"

func (s *Store) path(id int, suffix string) string {
	return filepath.Join(s.dir, strconv.Itoa(id)+suffix)
}

// ids are the numbers of all revisions, the lowest first.
func (s *Store) ids() ([]int, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list revisions: %w", err)
	}
	var ids []int
	for _, e := range entries {
		name, isMeta := strings.CutSuffix(e.Name(), metaSuffix)
		if id, err := strconv.Atoi(name); isMeta && err == nil && id > 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

func (s *Store) meta(id int) (Revision, error) {
	var r Revision
	text, err := os.ReadFile(s.path(id, metaSuffix))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return r, fmt.Errorf("revision %d: %w", id, err)
	}
	r.ID = id
	return r, nil
}

func (s *Store) writeMeta(r Revision) error {
	return s.write(r.ID, metaSuffix, func(w io.Writer) error { return json.NewEncoder(w).Encode(r) })
}

// write puts a file in its place when it is whole.
func (s *Store) write(id int, suffix string, content func(io.Writer) error) error {
	f, err := os.CreateTemp(s.dir, ".new-*") // for root alone, and never through a link
	if err != nil {
		return fmt.Errorf("write revision %d: %w", id, err)
	}
	defer os.Remove(f.Name())
	err = errors.Join(content(f), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), s.path(id, suffix))
	}
	if err != nil {
		return fmt.Errorf("write revision %d: %w", id, err)
	}
	return nil
}
