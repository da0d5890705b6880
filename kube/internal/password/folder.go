package password

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/internal/replace"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// Folder is where passwords are, in a file system in memory: NAME/KEY.NUMBER is a value of a Secret. Another password is another file, so
// that a configuration that names it is another one, and the one in force has its own until it is replaced. Only root may read any.
type Folder string

// Put has a password be in a file; the last one when that has it.
func (f Folder) Put(key v1alpha1.SecretKey, password []byte) (file string, err error) {
	last, number, err := f.last(key)
	if err != nil {
		return "", err
	}
	if last != "" {
		if has, err := os.ReadFile(last); err == nil && bytes.Equal(has, password) {
			return last, nil
		}
	}
	dir := filepath.Join(string(f), key.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file = filepath.Join(dir, key.Key+"."+strconv.Itoa(number+1))
	return file, replace.File(file, password)
}

// Last is the file of the last password that a Secret had, "" without.
func (f Folder) Last(key v1alpha1.SecretKey) (string, error) {
	file, _, err := f.last(key)
	return file, err
}

func (f Folder) last(key v1alpha1.SecretKey) (file string, number int, err error) {
	dir := filepath.Join(string(f), key.Name)
	list, err := entries(dir)
	for _, e := range list {
		text, own := strings.CutPrefix(e.Name(), key.Key+".")
		if n, err := strconv.Atoi(text); own && err == nil && n > number {
			file, number = filepath.Join(dir, e.Name()), n
		}
	}
	return file, number, err
}

// Keep removes all other files.
func (f Folder) Keep(files []string) error {
	dirs, err := entries(string(f))
	errs := []error{err}
	for _, d := range dirs {
		dir, kept := filepath.Join(string(f), d.Name()), false
		list, err := entries(dir)
		errs = append(errs, err)
		for _, e := range list {
			if file := filepath.Join(dir, e.Name()); slices.Contains(files, file) {
				kept = true
			} else {
				errs = append(errs, os.Remove(file))
			}
		}
		if !kept {
			errs = append(errs, os.Remove(dir))
		}
	}
	return errors.Join(errs...)
}

// Read is what files have, without those that are not there.
func Read(files []string) (list []string) {
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			list = append(list, string(text))
		}
	}
	return list
}

func entries(dir string) ([]fs.DirEntry, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return list, err
}
