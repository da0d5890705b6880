package experiment

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/result"
)

// Builds are the programs of targets that are edges of another build, by target.
type Builds map[string]string

// buildName is a target's that is no data path of its own. A suffix would be an encapsulation.
var buildName = regexp.MustCompile(`^[a-z0-9][a-z0-9._]*$`)

// ReadBuilds takes the programs out of targets NAME=PROGRAM, where NAME is selvage, one of
// its encapsulations, or a new one. Programs are named by their absolute paths.
func ReadBuilds(targets, known []string) (names []string, programs Builds, err error) {
	programs = Builds{}
	for _, target := range targets {
		name, program, ok := strings.Cut(target, "=")
		names = append(names, name)
		if !ok {
			continue
		}
		if slices.Contains(known, name) && PathOf(name) != "selvage" {
			return nil, nil, fmt.Errorf("--targets: %s: %s is no edge; use another name for the build, such as old=%s", target, name, program)
		}
		if !slices.Contains(known, name) && !buildName.MatchString(name) {
			return nil, nil, fmt.Errorf("--targets: %s: %q is not a name for a build; use small letters, digits, dots and underscores", target, name)
		}
		if program, err = filepath.Abs(program); err != nil {
			return nil, nil, fmt.Errorf("--targets: %s: %w", target, err)
		}
		switch info, err := os.Stat(program); {
		case err != nil:
			return nil, nil, fmt.Errorf("--targets: %s: %w", target, err)
		case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
			return nil, nil, fmt.Errorf("--targets: %s: %s is not a program", target, program)
		}
		programs[name] = program
	}
	return names, programs, nil
}

// And is the names of known targets and of builds.
func (b Builds) And(known []string) []string {
	return append(slices.Clone(known), slices.Sorted(maps.Keys(b))...)
}

// Of is the program of a target, or the one that those without have.
func (b Builds) Of(target, or string) string { return cmp.Or(b[target], or) }

// Path is the data path of a target: that of an edge for a build, otherwise as it is given.
func (b Builds) Path(target, otherwise string) string {
	if b[target] != "" {
		return "selvage"
	}
	return otherwise
}

// Record writes the programs down in a result's parameters, each by its target.
func (b Builds) Record(p result.Parameters) {
	for name, program := range b {
		p["program_"+name] = result.Words(program)
	}
}
