// Command proxy writes a version of the repository's module as a Go module proxy serves it, so that a test can
// go install it before anybody else does. What it writes is of the present commit, by the Go project's own
// rules of what a module has.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const path = "github.com/selvage/selvage"

func main() {
	root := flag.String("root", "", "the repository")
	version := flag.String("version", "", "version, as v0.2.0")
	out := flag.String("out", "", "directory of the proxy")
	flag.Parse()
	if err := write(*root, *version, *out); err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
		os.Exit(1)
	}
}

func write(root, version, out string) error {
	hash, err := exec.Command("git", "-C", root, "rev-parse", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("commit of %s: %w", root, err)
	}
	revision := strings.TrimSpace(string(hash))
	clone, err := os.MkdirTemp("", "proxy-") // a work tree of another repository is none to package zip
	if err != nil {
		return err
	}
	defer os.RemoveAll(clone)
	if said, err := exec.Command("git", "clone", "-q", root, clone).CombinedOutput(); err != nil {
		return fmt.Errorf("clone %s: %w\n%s", root, err, said)
	}
	var files bytes.Buffer
	if err := zip.CreateFromVCS(&files, module.Version{Path: path, Version: version}, clone, revision, ""); err != nil {
		return err
	}
	gomod, err := exec.Command("git", "-C", root, "show", revision+":go.mod").Output()
	if err != nil {
		return fmt.Errorf("go.mod of %s: %w", revision, err)
	}
	dir := filepath.Join(out, filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"list":            []byte(version + "\n"),
		version + ".info": fmt.Appendf(nil, `{"Version":%q}`, version),
		version + ".mod":  gomod,
		version + ".zip":  files.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
