package cni

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/replace"
)

// Place is where the plugin of a node is, as this process sees the folders of the node. What has no folder is left to others.
type Place struct {
	Program        string // a copy of which is the plugin
	Plugins        string // folder of CNI plugins
	Configurations string // folder of lists of plugins
}

// Install copies the program into the folder of CNI plugins, unless it is there already.
func (p Place) Install() error {
	if p.Plugins == "" {
		return nil
	}
	text, err := os.ReadFile(p.Program)
	if err != nil {
		return fmt.Errorf("install the CNI plugin: %w", err)
	}
	path := filepath.Join(p.Plugins, Name)
	if was, err := os.ReadFile(path); err == nil && bytes.Equal(was, text) {
		return nil
	}
	if err := write(path, text, 0o755); err != nil {
		return fmt.Errorf("install the CNI plugin: %w", err)
	}
	return nil
}

// Uninstall removes it, if it is there.
func (p Place) Uninstall() error {
	if p.Plugins == "" {
		return nil
	}
	if err := os.Remove(filepath.Join(p.Plugins, Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the CNI plugin: %w", err)
	}
	return nil
}

// Chain has the plugin be in the list that runtimes take.
func (p Place) Chain() error {
	if p.Configurations == "" {
		return nil
	}
	return Chain(p.Configurations)
}

// Unchain has no list have it.
func (p Place) Unchain() error {
	if p.Configurations == "" {
		return nil
	}
	return Unchain(p.Configurations)
}

// entry is what stands in a list of plugins.
var entry = []byte(`{"type":"` + Name + `"}`)

// Chain appends the plugin to the list that runtimes take: the first of the folder by name. All else of the file stays as it is.
func Chain(folder string) error {
	files, err := configurations(folder)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("CNI configurations in %s: there is none: install a CNI plugin first", folder)
	}
	if filepath.Ext(files[0]) != ".conflist" {
		return fmt.Errorf("%s: runtimes take this file, which has one plugin; make it a list (*.conflist), so that another can come after it", files[0])
	}
	return edit(files[0], func(text []byte, list []element) ([]byte, error) {
		switch {
		case len(list) == 0:
			return nil, errors.New("it has no plugins")
		case slices.ContainsFunc(list, element.ours):
			return text, nil
		}
		return slices.Insert(slices.Clone(text), list[len(list)-1].end, append([]byte(", "), entry...)...), nil
	})
}

// Unchain removes the plugin from all lists of the folder.
func Unchain(folder string) error {
	files, err := configurations(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, f := range files {
		if text, unread := os.ReadFile(f); unread == nil && bytes.Contains(text, []byte(Name)) {
			err = errors.Join(err, edit(f, without))
		}
	}
	return err
}

func without(text []byte, list []element) ([]byte, error) {
	for i, e := range slices.Backward(list) {
		switch {
		case !e.ours():
			continue
		case i > 0:
			e.start = list[i-1].end
		case len(list) > 1:
			e.end = list[1].start
		}
		text = slices.Concat(text[:e.start], text[e.end:])
	}
	return text, nil
}

// configurations are the files of a folder, as runtimes order them.
func configurations(folder string) (list []string, err error) {
	entries, err := os.ReadDir(folder) // by name
	if err != nil {
		return nil, fmt.Errorf("CNI configurations: %w", err)
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && slices.Contains([]string{".conf", ".conflist", ".json"}, ext) {
			list = append(list, filepath.Join(folder, e.Name()))
		}
	}
	return list, nil
}

// element is one plugin of a list, and where it stands in the text.
type element struct {
	start, end int
	Type       string `json:"type"`
}

func (e element) ours() bool { return e.Type == Name }

// edit replaces a list by what change makes of it.
func edit(file string, change func([]byte, []element) ([]byte, error)) error {
	path, err := filepath.EvalSymlinks(file)
	if err != nil {
		return fmt.Errorf("CNI configuration: %w", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("CNI configuration: %w", err)
	}
	list, err := elements(text)
	if err != nil {
		return fmt.Errorf("CNI configuration %s: %w", file, err)
	}
	fresh, err := change(text, list)
	if err != nil {
		return fmt.Errorf("CNI configuration %s: %w", file, err)
	}
	if bytes.Equal(fresh, text) {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("CNI configuration: %w", err)
	}
	return write(path, fresh, info.Mode().Perm())
}

// elements are the plugins of a list.
func elements(text []byte) (list []element, err error) {
	if !json.Valid(text) {
		return nil, errors.New("it is no JSON")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, errors.New("it is no JSON object")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		if key != "plugins" {
			if err := d.Decode(new(json.RawMessage)); err != nil {
				return nil, err
			}
			continue
		}
		if list != nil {
			return nil, errors.New("it has plugins twice")
		}
		if list, err = array(d); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func array(d *json.Decoder) ([]element, error) {
	list := []element{}
	if open, err := d.Token(); err != nil || open != json.Delim('[') {
		return nil, errors.New("its plugins are no list")
	}
	for d.More() {
		var one json.RawMessage
		if err := d.Decode(&one); err != nil {
			return nil, err
		}
		var e element
		if err := json.Unmarshal(one, &e); err != nil {
			return nil, fmt.Errorf("plugin %d: %w", len(list), err)
		}
		e.end = int(d.InputOffset())
		e.start = e.end - len(one)
		list = append(list, e)
	}
	_, err := d.Token()
	return list, err
}

// write replaces a file. Runtimes take no file that begins with a dot and has this end.
func write(path string, text []byte, mode fs.FileMode) error {
	return replace.Shared(path, "."+strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))+"-*.new", text, mode)
}
