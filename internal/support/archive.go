package support

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// mostItem and mostAll bound what is kept in memory of one item, and of all.
	mostItem = 4 << 20
	mostAll  = 128 << 20
)

// Item is one file of the archive, as its manifest has it.
type Item struct {
	Name      string `json:"name"`
	Source    string `json:"source"` // the command, document or file that it is of
	Millis    int64  `json:"took_ms"`
	Bytes     int    `json:"bytes"`
	Truncated bool   `json:"truncated,omitempty"`
	Error     string `json:"error,omitempty"`

	text []byte
}

// archive is items, without secrets.
type archive struct {
	hide *hider

	mu    sync.Mutex
	items []Item
	bytes int
}

// add takes an item over; text is what there is, err why there is no more.
func (a *archive) add(name, source string, took time.Duration, text []byte, err error) {
	item := Item{Name: name, Source: a.hide.text(source), Millis: took.Milliseconds()}
	if len(text) > mostItem {
		text, item.Truncated = text[:mostItem], true
	}
	if err != nil {
		item.Error = a.hide.text(err.Error())
	}
	item.text = []byte(a.hide.text(string(text)))
	item.Bytes = len(item.text)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bytes+item.Bytes > mostAll {
		item.text, item.Bytes, item.Truncated, item.Error = nil, 0, true, "left out: the archive is full"
	}
	a.bytes += item.Bytes
	a.items = append(a.items, item)
}

// sorted are the items by name.
func (a *archive) sorted() []Item {
	a.mu.Lock()
	defer a.mu.Unlock()
	items := slices.Clone(a.items)
	slices.SortFunc(items, func(x, y Item) int { return strings.Compare(x.Name, y.Name) })
	return items
}

// find is the text of an item, "" where there is none.
func (a *archive) find(name string) string {
	for _, item := range a.sorted() {
		if item.Name == name {
			return string(item.text)
		}
	}
	return ""
}

// write writes the archive as tar.gz below a directory dir. Items that are empty have no file.
func write(to io.Writer, dir string, items []Item, at time.Time) error {
	zip := gzip.NewWriter(to)
	files := tar.NewWriter(zip)
	for _, item := range items {
		if len(item.text) == 0 {
			continue
		}
		header := &tar.Header{Name: dir + "/" + item.Name, Mode: 0o600, Size: int64(len(item.text)), ModTime: at.Truncate(time.Second), Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if err := files.WriteHeader(header); err != nil {
			return err
		}
		if _, err := files.Write(item.text); err != nil {
			return err
		}
	}
	return errors.Join(files.Close(), zip.Close())
}

// save has do write a file that nobody else may read, and that is there when it is whole. One that is there stays.
func save(path string, do func(io.Writer) error) error {
	fd, err := unix.Open(filepath.Dir(path), unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return saveNamed(path, do)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if err := do(f); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// saveNamed does so where a file system has no files without names.
func saveNamed(path string, do func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := errors.Join(do(f), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(path))
	}
	return nil
}
