// Package replace gives small files another content at once.
//
// Its one invariant: who reads the file, also after a crash or a loss of power, finds what it
// had or what it has, whole. Nothing is written through a link: directories of state may be
// writable by others by mistake. It is not for files with other owners or modes than 0600.
package replace

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// File writes data to the file at path.
func File(path string, data []byte) error {
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a process that was killed
		return err
	}
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return nil
}
