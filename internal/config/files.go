package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxFileSize bounds what is read of a file, and of all that it includes, in bytes: room for
// 100,000 rules and more. The YAML parser takes a hundred bytes of memory for each byte, so
// it gets no more than maxParserSize.
const (
	maxFileSize   = 64 << 20
	maxParserSize = 8 << 20
)

// credentialsVariable names the directory in which systemd gives a service its secrets.
const credentialsVariable = "CREDENTIALS_DIRECTORY"

// files reads what belongs to a configuration. Names are relative to its directory.
type files struct {
	dir         string
	credentials string // directory of secrets, "" is none
	left        int    // bytes that may yet be included
	included    []File // so far
	// read reads a file that is included, of so many bytes at most.
	read func(path string, size int) ([]byte, error)
}

func filesBeside(path string) *files {
	return &files{dir: filepath.Dir(path), credentials: os.Getenv(credentialsVariable), left: maxFileSize, read: func(path string, size int) ([]byte, error) {
		data, _, err := readFile(path, size)
		return data, err
	}}
}

func (f *files) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(f.dir, name)
}

var errTooLarge = errors.New("it is beyond the limit")

// include reads a file that is included, and says how messages call it.
func (f *files) include(name string) (path string, data []byte, err error) {
	path = f.path(name)
	data, err = f.read(path, f.left)
	if len(data) > f.left {
		err = fmt.Errorf("%s: %w of %d MiB for all included files", path, errTooLarge, maxFileSize>>20)
	}
	f.left -= min(f.left, len(data))
	if err == nil {
		f.included = append(f.included, File{path, data})
	}
	return path, data, err
}

// secret reads a file with a secret: of the credentials of the service, or else beside the
// configuration.
func (f *files) secret(name string) (path string, data []byte, mode fs.FileMode, err error) {
	path = f.path(name)
	if f.credentials != "" && !filepath.IsAbs(name) {
		given := filepath.Join(f.credentials, name)
		data, mode, err = readFile(given, maxSecretFile)
		if !errors.Is(err, fs.ErrNotExist) {
			return given, data, mode, err
		}
	}
	data, mode, err = readFile(path, maxSecretFile)
	return path, data, mode, err
}

// readFile reads a regular file, and no more than what is enough to see that it is larger than
// size. Opening anything else could wait for ever, or have effects.
func readFile(path string, size int) ([]byte, fs.FileMode, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is %s, not a regular file", path, fileType(info.Mode()))
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(size)+1))
	return data, info.Mode(), err
}

func fileType(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}
