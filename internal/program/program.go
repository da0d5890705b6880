// Package program says which build a program is of, and finds the other program of that build:
// selvage finds selvage-lab, and that the one that runs edges.
//
// Its one invariant: a program that Find returns says of itself that it is of this one's build.
// Do not use it to start anything.
package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// The programs.
const (
	Selvage = "selvage"
	Lab     = "selvage-lab"
)

// LabCommand is what selvage-lab is called (its first argument) when it was typed as a command of
// selvage, so that its help and its errors say what to type.
const LabCommand = "selvage lab"

// Path is the program of a name beside this one, or else in $PATH.
func Path(name string) (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("path of this program: %w", err)
	}
	path, err := exec.LookPath(filepath.Join(filepath.Dir(own), name))
	if errors.Is(err, fs.ErrNotExist) {
		path, err = exec.LookPath(name)
	}
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("there is no program %s beside %s or in $PATH: install the package %[1]s of this version; of a build, which makes both, copy both", name, own)
	}
	return path, err
}

// versionTime is how long a program may take to say which build it is of.
const versionTime = 10 * time.Second

// Find is Path, of this program's build.
func Find(ctx context.Context, name string) (string, error) {
	path, err := Path(name)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	ask := exec.CommandContext(ctx, path, "--version")
	ask.WaitDelay = time.Second
	said, err := ask.Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", path, err)
	}
	if said, want := string(bytes.TrimSpace(said)), Line(name); said != want {
		return "", fmt.Errorf("%s is of another build than this program: it is %q and should be %q; make build makes both: copy both, or remove the old one", path, said, want)
	}
	return path, nil
}
