package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goreleaser/nfpm/v2/files"
)

// tree collects the files of a package. First error counts.
type tree struct {
	s    source
	made string // directory for files that are made here
	list files.Contents
	err  error
}

// contents are the files of a program's packages.
func (s source) contents(program, arch string) (files.Contents, error) {
	made := filepath.Join(s.work, "made", arch, program)
	t := &tree{s: s, made: made}
	t.file(s.program(program, arch), "/usr/bin/"+program, 0o755)
	t.shared(program)
	doc := "/usr/share/doc/" + program + "/"
	t.debOnly(func() {
		t.file(filepath.Join(s.root, "deploy/packages/copyright"), doc+"copyright", 0o644)
		t.compressed(s.changelog(program), doc+"changelog.gz")
		t.file(filepath.Join(s.root, "deploy/packages/lintian", program), "/usr/share/lintian/overrides/"+program, 0o644)
	})
	t.license(program)
	notices, err := notices(s.program(program, arch))
	if err != nil {
		return nil, err
	}
	t.compressed(notices, doc+"THIRD-PARTY.gz")
	if program == "selvage" {
		t.edge(doc)
	}
	return t.list, t.err
}

// edge adds what the package of the edge has besides a program.
func (t *tree) edge(doc string) {
	changes, err := os.ReadFile(filepath.Join(t.s.root, "CHANGELOG.md"))
	t.fail(err)
	t.compressed(changes, doc+"CHANGELOG.md.gz")
	t.directory("/etc/selvage", 0o755)
	t.file(filepath.Join(t.s.root, "deploy/packages/example.yaml"), "/etc/selvage/example.yaml", 0o644)
	t.list[len(t.list)-1].Type = files.TypeConfigNoReplace
	t.under(filepath.Join(t.s.root, "examples"), doc+"examples")
	t.systemd(filepath.Join(t.s.root, "deploy/systemd"))
}

// shared adds manual pages, compressed, and completion.
func (t *tree) shared(program string) {
	dir := filepath.Join(t.s.work, "share", program)
	t.walk(dir, func(from, name string) {
		switch {
		case strings.HasPrefix(name, "man/"):
			text, err := os.ReadFile(from)
			t.fail(err)
			t.compressed(text, "/usr/share/"+name+".gz")
		case strings.HasPrefix(name, "zsh/"): // Debian has a place for those of packages
			t.file(from, "/usr/share/"+name, 0o644)
			t.list[len(t.list)-1].Packager = "rpm"
			t.file(from, "/usr/share/zsh/vendor-completions/"+path.Base(name), 0o644)
			t.list[len(t.list)-1].Packager = "deb"
		default:
			t.file(from, "/usr/share/"+name, 0o644)
		}
	})
}

// places are where files of systemd go, by the end of their name, or by their directory.
var places = map[string]string{
	".service": "system", ".socket": "system", ".target": "system", ".timer": "system", ".path": "system", ".slice": "system", ".mount": "system",
	"tmpfiles.d": "tmpfiles.d", "sysusers.d": "sysusers.d", "sysctl.d": "sysctl.d", "modules-load.d": "modules-load.d",
}

// systemd adds units and what else systemd reads. Every file has a place, or it would be missed.
func (t *tree) systemd(dir string) {
	t.walk(dir, func(from, name string) {
		if path.Ext(name) == ".md" {
			return
		}
		first, _, _ := strings.Cut(name, "/")
		place, ok := places[first]
		if !ok {
			place, ok = places[path.Ext(name)]
		}
		switch {
		case !ok:
			t.fail(fmt.Errorf("%s: nobody knows where it belongs: see places in deploy/packages/build/contents.go", from))
		case place == "system":
			t.file(from, "/usr/lib/systemd/system/"+name, 0o644)
		default:
			t.file(from, "/usr/lib/"+place+"/"+path.Base(name), 0o644)
		}
	})
}

// license adds the licences where rpm has them.
func (t *tree) license(program string) {
	for from, to := range map[string]string{"LICENSE": "LICENSE", "bpf/LICENSE": "LICENSE.bpf", "bpf/LICENSE.GPL-2.0": "LICENSE.GPL-2.0"} {
		t.file(filepath.Join(t.s.root, from), "/usr/share/licenses/"+program+"/"+to, 0o644)
		last := t.list[len(t.list)-1]
		last.Packager, last.Type = "rpm", files.TypeRPMLicense
	}
	slices.SortFunc(t.list, func(a, b *files.Content) int { return strings.Compare(a.Destination, b.Destination) })
}

// debOnly gives what add adds to the deb alone.
func (t *tree) debOnly(add func()) {
	before := len(t.list)
	add()
	for _, c := range t.list[before:] {
		c.Packager = "deb"
	}
}

// under adds the files of a directory.
func (t *tree) under(dir, to string) {
	t.directory(to, 0o755)
	t.walk(dir, func(from, name string) { t.file(from, to+"/"+name, 0o644) })
}

// walk calls do for each file below a directory, in order; there may be none.
func (t *tree) walk(dir string, do func(from, name string)) {
	if _, err := os.Stat(dir); err != nil {
		return
	}
	t.fail(filepath.WalkDir(dir, func(from string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, from)
		do(from, filepath.ToSlash(name))
		return err
	}))
}

func (t *tree) directory(to string, mode fs.FileMode) {
	t.list = append(t.list, &files.Content{Destination: to, Type: files.TypeDir, FileInfo: t.info(mode)})
}

func (t *tree) file(from, to string, mode fs.FileMode) {
	t.list = append(t.list, &files.Content{Source: from, Destination: to, FileInfo: t.info(mode)})
}

// compressed adds a text, compressed as gzip -9n does.
func (t *tree) compressed(text []byte, to string) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	t.fail(err)
	_, err = z.Write(text)
	t.fail(err)
	t.fail(z.Close())
	from := filepath.Join(t.made, to)
	t.fail(os.MkdirAll(filepath.Dir(from), 0o755))
	t.fail(os.WriteFile(from, b.Bytes(), 0o644))
	t.file(from, to, 0o644)
}

func (t *tree) info(mode fs.FileMode) *files.ContentFileInfo {
	return &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: t.s.time}
}

func (t *tree) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// changelog is the package's in Debian's format; what changed in the program is in CHANGELOG.md.
func (s source) changelog(program string) []byte {
	return fmt.Appendf(nil, "%s (%s) unstable; urgency=medium\n\n  * New version, whose changes are in CHANGELOG.md.gz.\n\n -- %s  %s\n",
		program, s.version, maintainer, s.time.Format("Mon, 02 Jan 2006 15:04:05 -0700"))
}
