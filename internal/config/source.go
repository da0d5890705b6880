package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// Source is the text of a configuration: its own file, and those that it includes. It is all
// that is needed to read the configuration again, also when the files have changed since.
type Source struct {
	Path  string `json:"path"`  // of its own file
	Files []File `json:"files"` // that file, then those that it includes, in their order
}

// File is one file of a configuration.
type File struct {
	Path string `json:"path"`
	Text []byte `json:"text"`
}

// LoadSource is Load, and returns what was read too. With an error it is what could be read.
func LoadSource(path string) (overlay.Edge, Source, error) {
	data, err := readFile(path)
	if err != nil {
		return overlay.Edge{}, Source{Path: path}, fmt.Errorf("configuration: %w", err)
	}
	s := Source{Path: path, Files: []File{{path, data}}}
	open := beside(path)
	edge, err := parse(path, data, func(name string) (string, []byte, error) {
		file, data, err := open(name)
		if err == nil {
			s.Files = append(s.Files, File{file, data})
		}
		return file, data, err
	})
	return edge, s, err
}

// Edge reads the configuration; nothing else than the source is read. The error is an Errors
// when it cannot be used.
func (s Source) Edge() (overlay.Edge, error) {
	if len(s.Files) == 0 {
		return overlay.Edge{}, errors.New("configuration: it has no text")
	}
	return parse(s.Path, s.Files[0].Text, func(name string) (string, []byte, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(s.Path), name)
		}
		i := slices.IndexFunc(s.Files, func(f File) bool { return f.Path == name })
		if i < 0 {
			return name, nil, fmt.Errorf("open %s: %w", name, fs.ErrNotExist)
		}
		return name, s.Files[i].Text, nil
	})
}

// Equal reports whether both have the same text, whatever the files are called.
func (s Source) Equal(o Source) bool {
	return slices.EqualFunc(s.Files, o.Files, func(a, b File) bool { return string(a.Text) == string(b.Text) })
}
