// Package source reads the objects that are to be imported: out of files, or out of a cluster.
//
// Its one invariant: it only reads. Of the API server it asks lists, and nothing else.
//
// Do not use it to watch objects, or to read those of Selvage.
package source

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/selvage/selvage/kube/internal/importing"
)

// Stdin is the name of standard input among files.
const Stdin = "-"

// Files reads manifests: of files, of all .yaml, .yml and .json files below directories, and of stdin.
func Files(names []string, stdin io.Reader) (all []importing.Object, err error) {
	for _, name := range names {
		if name == Stdin {
			objects, err := Read(stdin, "stdin")
			if err != nil {
				return nil, err
			}
			all = append(all, objects...)
			continue
		}
		files, err := below(name)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			objects, err := readFile(file)
			if err != nil {
				return nil, err
			}
			all = append(all, objects...)
		}
	}
	return all, nil
}

func readFile(name string) ([]importing.Object, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(f, name)
}

// below is a file itself, or the manifests below a directory, in the order of their names.
func below(name string) (files []string, err error) {
	err = filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
		case path == name, slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
			files = append(files, path)
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		return nil, fmt.Errorf("%s: there is no .yaml, .yml or .json file", name)
	}
	return files, err
}

// Read reads the documents of one file. A list is as many objects as it has.
func Read(r io.Reader, name string) (all []importing.Object, err error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(r))
	for n := 1; ; n++ {
		doc, err := documents.Read()
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("%s: document %d: %w", name, n, err)
		}
		out, err := yaml.YAMLToJSONStrict(doc)
		if err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", name, n, err)
		}
		at := name
		if n > 1 {
			at = fmt.Sprintf("%s, document %d", name, n)
		}
		objects, err := expand(out, at)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
}

// expand returns the objects of a list, or the one object.
func expand(doc []byte, at string) (all []importing.Object, err error) {
	if bytes.Equal(bytes.TrimSpace(doc), []byte("null")) {
		return nil, nil
	}
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(doc, &list); err != nil {
		return nil, fmt.Errorf("%s: it is no object of Kubernetes: %w", at, err)
	}
	if !strings.HasSuffix(list.Kind, "List") || list.Items == nil {
		return []importing.Object{{Source: at, JSON: doc}}, nil
	}
	for _, item := range list.Items {
		objects, err := expand(item, at)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}
