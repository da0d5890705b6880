package place

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/selvage/selvage/internal/printable"
)

// program is what an agent is run from.
type program struct{ path, hash string }

// architectures are Go's names of uname's.
var architectures = map[string]string{"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}

// ownProgram is this program.
func ownProgram() (*program, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("path of this program: %w", err)
	}
	return load(path, "/proc/self/exe")
}

// programFor is the program for a machine: this one, or else one of its name in dir, which is by
// default where this one is. One of its name also goes before this one.
func programFor(machine, dir string) (*program, error) {
	arch, known := architectures[machine]
	if !known {
		return nil, fmt.Errorf("its processor is %q; agents run on x86_64 and aarch64", printable.Bounded(machine, 40))
	}
	if dir == "" {
		path, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("path of this program: %w", err)
		}
		dir = filepath.Dir(path)
	}
	path := filepath.Join(dir, "selvage-lab-linux-"+arch)
	_, err := os.Stat(path)
	switch {
	case err == nil:
		return load(path, path)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case arch == runtime.GOARCH:
		return ownProgram()
	}
	return nil, fmt.Errorf("its processor is %s, and there is no %s: make build-places makes it from the source of this one; copy it there, or name its directory with --programs",
		machine, path)
}

// load reads a program for its hash.
func load(path, from string) (*program, error) {
	file, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &program{path: path, hash: hex.EncodeToString(hash.Sum(nil))}, nil
}

// copy sends the size of a program and then the program.
func (c *connection) copy(p *program) error {
	from := p.path
	if own, err := os.Executable(); err == nil && own == from {
		from = "/proc/self/exe" // whatever has become of its name
	}
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(c.in, info.Size()); err != nil {
		return err
	}
	_, err = io.Copy(c.in, file)
	return err
}
