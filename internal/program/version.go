package program

import (
	_ "embed"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
)

// Release is set by the linker, by make build and in packages. Else what the Go command recorded in
// the program is used.
var Release string

// Commit is the like.
var Commit string

// next is the release that this source is on the way to, or is: scripts/version.sh reads the same file.
//
//go:embed VERSION
var next string

// hashLength is how much of a commit's hash is printed.
const hashLength = 12

// Version is this program's: 0.2.0 of a release; before it 0.2.0~dev and what is known of the build, as
// 0.2.0~dev.7+gHASH, which dpkg, rpm and apt sort before 0.2.0.
func Version() string {
	if Release != "" {
		return Release
	}
	build, _ := debug.ReadBuildInfo()
	return versionOf(build)
}

var (
	released = regexp.MustCompile(`^v([0-9]+\.[0-9]+\.[0-9]+)$`)
	pseudo   = regexp.MustCompile(`[-.][0-9]{14}-([0-9a-f]{12})(\+dirty)?$`)
)

// versionOf is the version of a program that the Go command built by itself: go build in a clone, or go
// install of a version, which may be one without a tag.
func versionOf(build *debug.BuildInfo) string {
	version := strings.TrimSpace(next) + "~dev"
	if build == nil {
		return version
	}
	if m := released.FindStringSubmatch(build.Main.Version); m != nil {
		return m[1]
	}
	hash, modified := recorded(build)
	if m := pseudo.FindStringSubmatch(build.Main.Version); hash == "" && m != nil {
		hash = m[1]
	}
	if hash != "" {
		version += "+g" + hash
	}
	if modified {
		version += ".dirty"
	}
	return version
}

// Line is what a program of this build and of that name prints for --version: its version, and
// what it was built from and with.
func Line(name string) string {
	return fmt.Sprintf("%s %s (%s%s, %s/%s)", name, Version(), commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// commit is the beginning of the commit's hash and ", ", or "" when the build does not know it.
func commit() string {
	if Commit != "" {
		return "commit " + Commit + ", "
	}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	hash, modified := recorded(build)
	switch {
	case hash == "":
		return ""
	case modified:
		hash += " modified"
	}
	return "commit " + hash + ", "
}

// recorded is what the Go command recorded of the repository: the beginning of the commit's hash, and
// whether files differed from it.
func recorded(build *debug.BuildInfo) (hash string, modified bool) {
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			hash = s.Value[:min(hashLength, len(s.Value))]
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	return hash, modified
}
