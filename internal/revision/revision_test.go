package revision

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/config"
)

func open(t *testing.T, dir, name string) *Store {
	t.Helper()
	s, err := Open(dir, name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func add(t *testing.T, s *Store, path, text string, unconfirmed bool, when time.Time) int {
	t.Helper()
	id, err := s.Add(Revision{When: when, By: "root", What: "apply", Path: path, Unconfirmed: unconfirmed,
		Source: config.Source{Path: path, Files: []config.File{{Path: path, Text: []byte(text)}}}})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestRevisionsAreKept(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, "a")
	start := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	for i := range Keep + 5 {
		if id := add(t, s, "/etc/a.yaml", fmt.Sprint("text ", i+1), false, start.Add(time.Duration(i)*time.Second)); id != i+1 {
			t.Fatalf("revision %d has the number %d", i+1, id)
		}
	}
	list, err := open(t, dir, "a").List()
	if err != nil || len(list) != Keep || list[0].ID != Keep+5 || list[Keep-1].ID != 6 {
		t.Fatalf("%+v, %v", list, err)
	}
	r, err := s.Get(7)
	if err != nil || string(r.Source.Files[0].Text) != "text 7" || r.By != "root" || !r.When.Equal(start.Add(6*time.Second)) {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := s.Get(5); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a forgotten one: %v", err)
	}
	files, err := os.ReadDir(filepath.Join(dir, "a"))
	if err != nil || len(files) != 2*Keep {
		t.Errorf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f.Name(), info.Mode(), err)
		}
	}
}

// A revision that is half there, or has gone bad, keeps nobody from the others.
func TestBrokenRevision(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, "a")
	now := time.Now()
	for i := range 3 {
		add(t, s, "/etc/a.yaml", fmt.Sprint("text ", i+1), false, now)
	}
	for name, text := range map[string]string{"3.json": "{", "2.source.gz": "no zip", ".new-1": "x", "x.json": "{}"} {
		if err := os.WriteFile(filepath.Join(dir, "a", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.List()
	if err != nil || len(list) != 2 || list[0].ID != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := s.Get(2); err == nil || !strings.Contains(err.Error(), "revision 2") {
		t.Errorf("a source that is no zip: %v", err)
	}
	if id := add(t, s, "/etc/a.yaml", "text 4", false, now); id != 4 {
		t.Errorf("the next one has the number %d", id)
	}
}

func TestLastGood(t *testing.T) {
	dir := t.TempDir()
	if _, err := LastGood(filepath.Join(dir, "none"), "/etc/a.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a directory: %v", err)
	}
	now := time.Now()
	a, b := open(t, dir, "a"), open(t, dir, "b")
	add(t, a, "/etc/a.yaml", "old", false, now.Add(-2*time.Hour))
	add(t, a, "/etc/other.yaml", "another", false, now)
	add(t, b, "/etc/a.yaml", "renamed", false, now.Add(-time.Hour))
	id := add(t, b, "/etc/a.yaml", "unconfirmed", true, now)
	text := func() string {
		r, err := LastGood(dir, "/etc/a.yaml")
		if err != nil {
			t.Fatal(err)
		}
		return string(r.Source.Files[0].Text)
	}
	if got := text(); got != "renamed" {
		t.Errorf("got %q", got)
	}
	if err := b.Confirm(id); err != nil {
		t.Fatal(err)
	}
	if got := text(); got != "unconfirmed" {
		t.Errorf("got %q when it is confirmed", got)
	}
}

func TestNewest(t *testing.T) {
	dir := t.TempDir()
	if _, err := Newest(dir, "a"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "there is no revision in "+filepath.Join(dir, "a")) {
		t.Errorf("without a directory: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was made: %v", err)
	}
	a, now := open(t, dir, "a"), time.Now()
	add(t, a, "/etc/a.yaml", "old", false, now)
	add(t, a, "/etc/a.yaml", "unconfirmed", true, now)
	bad := add(t, a, "/etc/a.yaml", "bad", false, now)
	if err := os.WriteFile(filepath.Join(dir, "a", fmt.Sprint(bad, ".source.gz")), []byte("no zip"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Newest(dir, "a")
	if err != nil || string(r.Source.Files[0].Text) != "unconfirmed" || r.Path != "/etc/a.yaml" {
		t.Errorf("%+v, %v", r, err)
	}
}
