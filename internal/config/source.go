package config

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// Source is the text of a configuration: its own file, and those that it includes. With the files
// of its secrets, of which nothing is kept, it is all that is needed to read the configuration
// again, also when the files have changed since.
type Source struct {
	Path  string `json:"path"`  // of its own file
	Files []File `json:"files"` // that file, then those that it includes, in their order

	base *Base // what was read of it; nil before it was
}

// Base is what live objects are added to; nil where the source was not read.
func (s Source) Base() *Base { return s.base }

// File is one file of a configuration.
type File struct {
	Path string `json:"path"`
	Text []byte `json:"text"`
}

// LoadSource is Load, and returns what was read too. With an error it is what could be read.
func LoadSource(path string) (overlay.Edge, Source, error) {
	data, mode, err := readFile(path, maxFileSize)
	if err != nil {
		return overlay.Edge{}, Source{Path: path}, fmt.Errorf("configuration: %w", err)
	}
	f := filesBeside(path)
	edge, base, err := parseBase(path, data, mode, f)
	return edge, Source{Path: path, Files: append([]File{{path, data}}, f.included...), base: base}, err
}

// Edge reads the configuration; of files it reads those of secrets alone, as they are now. The
// error is an Errors when it cannot be used.
func (s Source) Edge() (overlay.Edge, error) {
	edge, _, err := s.Read()
	return edge, err
}

// Read is Edge, and returns the source with its Base.
func (s Source) Read() (overlay.Edge, Source, error) {
	if len(s.Files) == 0 {
		return overlay.Edge{}, s, errors.New("configuration: it has no text")
	}
	f := filesBeside(s.Path)
	f.read = func(path string, _ int) ([]byte, error) {
		i := slices.IndexFunc(s.Files, func(f File) bool { return f.Path == path })
		if i < 0 {
			return nil, fmt.Errorf("open %s: %w", path, fs.ErrNotExist)
		}
		return s.Files[i].Text, nil
	}
	edge, base, err := parseBase(s.Path, s.Files[0].Text, 0, f)
	s.base = base
	return edge, s, err
}

// Equal reports whether both have the same text, whatever the files are called.
func (s Source) Equal(o Source) bool {
	return slices.EqualFunc(s.Files, o.Files, func(a, b File) bool { return string(a.Text) == string(b.Text) })
}
