// Command build makes packages of programs that are built: deb, rpm and OCI images, for each architecture, and the Helm chart.
//
// Its one invariant: the same input files, version and time make the same bytes. It is a module of its own,
// so that what it needs burdens nobody who installs Selvage. scripts/dist.sh runs it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// source is what packages are made of.
type source struct {
	root    string // the repository
	work    string // ARCH/ with programs, share/PROGRAM/ with what goes to /usr/share
	version string
	commit  string
	time    time.Time
}

// architectures are those for which packages are made, as Go and Debian name them.
var architectures = []string{"amd64", "arm64"}

// programs are the packages, of one program each.
var programs = []string{"selvage", "selvage-lab"}

func main() {
	var s source
	var out string
	var epoch int64
	flag.StringVar(&s.root, "root", "", "the repository")
	flag.StringVar(&s.work, "work", "", "directory with ARCH/PROGRAM and share/PROGRAM/")
	flag.StringVar(&out, "out", "", "directory for the packages")
	flag.StringVar(&s.version, "version", "", "version, as dpkg and rpm sort it")
	flag.StringVar(&s.commit, "commit", "", "commit that the programs are built from")
	flag.Int64Var(&epoch, "epoch", 0, "time of that commit, in seconds since 1970")
	only := flag.String("only", "", "make deb and rpm for this architecture alone, the chart alone: chart, or a cluster's images alone: images-ARCH")
	flag.Parse()
	s.time = time.Unix(epoch, 0).UTC()
	if err := s.build(out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func (s source) build(out, only string) error {
	if s.root == "" || out == "" || s.version == "" {
		return errors.New("-root, -out and -version are needed")
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if arch, is := strings.CutPrefix(only, "images-"); is {
		return errors.Join(s.image(out, "selvage", arch), s.image(out, "selvage-kube", arch))
	}
	switch only {
	case "":
	case "chart":
		return s.chart(out)
	default:
		return s.packages(out, only)
	}
	for _, arch := range architectures {
		if err := s.packages(out, arch); err != nil {
			return err
		}
	}
	for name, c := range containers {
		for _, arch := range architectures {
			if c.debian == "" {
				continue
			}
			if err := s.bill(out, name, arch); err != nil {
				return fmt.Errorf("SBOM of %s: %w", name, err)
			}
		}
	}
	if err := s.chart(out); err != nil {
		return err
	}
	return s.images(out)
}

// packages makes the deb and the rpm of each program.
func (s source) packages(out, arch string) error {
	for _, program := range programs {
		contents, err := s.contents(program, arch)
		if err != nil {
			return fmt.Errorf("%s for %s: %w", program, arch, err)
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := s.writePackage(out, format, program, arch, contents); err != nil {
				return fmt.Errorf("%s of %s for %s: %w", format, program, arch, err)
			}
		}
	}
	return nil
}

// program is the path of one that is built.
func (s source) program(name, arch string) string { return filepath.Join(s.work, arch, name) }
