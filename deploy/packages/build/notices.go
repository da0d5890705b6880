package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/mod/module"
)

// ours is the repository's module.
const ours = "github.com/selvage/selvage"

var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|unlicense)([-.].*)?$`)

// notices are the licences of the modules that a program is linked from, and of Go's library: by most of
// them they go with every copy. They are read where $GOROOT and $GOMODCACHE say.
func notices(program string) ([]byte, error) {
	build, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	goroot, cache := os.Getenv("GOROOT"), os.Getenv("GOMODCACHE")
	var b bytes.Buffer
	fmt.Fprintf(&b, "Software of others in this program, and its licences.\n")
	if err := licensesIn(&b, "Go "+build.GoVersion, goroot); err != nil {
		return nil, err
	}
	for _, dep := range build.Deps {
		if dep.Path == ours { // of the module kube, whose licence is another file already
			continue
		}
		if dep.Replace != nil {
			dep = dep.Replace
		}
		at, err := module.EscapePath(dep.Path)
		if err != nil {
			return nil, err
		}
		version, err := module.EscapeVersion(dep.Version)
		if err != nil {
			return nil, err
		}
		if err := licensesIn(&b, dep.Path+" "+dep.Version, filepath.Join(cache, at+"@"+version)); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// licensesIn writes the licences in a directory. There has to be one.
func licensesIn(b *bytes.Buffer, what, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("licence of %s: %w", what, err)
	}
	found := false
	for _, e := range entries {
		if e.IsDir() || !licenseFile.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		found = true
		fmt.Fprintf(b, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("=", 80), what, e.Name(), bytes.TrimSpace(text))
	}
	if !found {
		return fmt.Errorf("%s has no licence in %s", what, dir)
	}
	return nil
}
