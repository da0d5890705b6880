// Package replace gives small files another content at once.
//
// Its one invariant: who reads the file, also after a crash or a loss of power, finds what it
// had or what it has, whole. Nothing is written through a link: directories of state may be
// writable by others by mistake. It is not for files with other owners.
package replace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// File writes data to the file at path, of mode 0600, which nobody else writes at the time.
func File(path string, data []byte) error {
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a process that was killed
		return err
	}
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	return finish(f, path, data)
}

// Shared writes data to the file at path, of a mode, which several processes may write at once: the last is the one that is read.
// Until the data is whole it is in a file of the same folder whose name pattern says, as for os.CreateTemp.
func Shared(path, pattern string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), pattern)
	if err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return finish(f, path, data)
}

// finish has a new file with data be the one at path, or leaves nothing of it.
func finish(f *os.File, path string, data []byte) error {
	_, err := f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
