package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/blakesmith/ar"
	"github.com/ulikunitz/xz"
)

// pins are packages of Debian, by what they are to be: the file deploy/packages/debian.pins, which scripts/debian-pins.sh writes.
type pins struct {
	time    time.Time // at which the archive has all of them
	archive string    // of all that there ever was
	list    []pin
}

// pin is one of them.
type pin struct {
	sum  string // SHA-256
	path string // ARCHIVE/pool/…/NAME_VERSION_ARCH.deb, as mirrors have it
}

func (p pin) is(arch string) bool {
	return strings.HasSuffix(p.path, "_"+arch+".deb") || strings.HasSuffix(p.path, "_all.deb")
}

var pinLine = regexp.MustCompile(`^([0-9a-f]{64})  ([a-z-]+/pool/\S+_(amd64|arm64|all)\.deb)$`)

func readPins(file string) (p pins, err error) {
	p.archive = "http://snapshot.debian.org/archive/"
	text, err := os.ReadFile(file)
	if err != nil {
		return p, err
	}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if at, ok := strings.CutPrefix(line, "# snapshot "); ok {
			if p.time, err = time.Parse("20060102T150405Z", at); err != nil {
				return p, fmt.Errorf("%s:%d: %w", file, i+1, err)
			}
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		m := pinLine.FindStringSubmatch(line)
		if m == nil {
			return p, fmt.Errorf("%s:%d: %q is not SHA256 and PATH of a package: scripts/debian-pins.sh writes the file", file, i+1, line)
		}
		p.list = append(p.list, pin{m[1], m[2]})
	}
	if p.time.IsZero() {
		return p, fmt.Errorf("%s: there is no line \"# snapshot TIME\": scripts/debian-pins.sh writes the file", file)
	}
	return p, nil
}

// urls are where a package is: at the mirror for as long as no newer one has replaced it, and at the archive.
func (p pins) urls(of pin) []string {
	escaped := strings.ReplaceAll((&url.URL{Path: of.path}).EscapedPath(), "+", "%2B") // as apt asks: not all mirrors take a + for itself
	archive, rest, _ := strings.Cut(escaped, "/")
	mirror := cmp.Or(os.Getenv("DEBIAN_MIRROR"), "http://deb.debian.org")
	return []string{strings.TrimSuffix(mirror, "/") + "/" + escaped, p.snapshot(archive) + rest}
}

func (p pins) snapshot(archive string) string {
	return p.archive + archive + "/" + p.time.Format("20060102T150405Z") + "/"
}

// fetch is a package's file. Those of the user's cache are not asked for again; all are what the pin says.
func (p pins) fetch(of pin) ([]byte, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	kept := filepath.Join(cache, "selvage", "debian", of.sum+".deb")
	if deb, err := os.ReadFile(kept); err == nil && of.check(deb) == nil {
		return deb, nil
	}
	var errs []error
	for _, from := range p.urls(of) {
		deb, err := get(from)
		if err == nil {
			err = of.check(deb)
		}
		if err == nil {
			return deb, keep(kept, deb)
		}
		errs = append(errs, fmt.Errorf("%s: %w", from, err))
	}
	return nil, fmt.Errorf("a package of Debian that an image has files of: name a mirror that has it by $DEBIAN_MIRROR, or pin newer ones by scripts/debian-pins.sh:\n%w",
		errors.Join(errs...))
}

func (p pin) check(deb []byte) error {
	if sum := sha256.Sum256(deb); hex.EncodeToString(sum[:]) != p.sum {
		return fmt.Errorf("SHA-256 is %x, and should be %s", sum, p.sum)
	}
	return nil
}

// most is of the size of a package, which are of less than 3 MiB.
const most = 64 << 20

func get(from string) ([]byte, error) {
	client := http.Client{Timeout: 2 * time.Minute}
	answer, err := client.Get(from)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(answer.Status)
	}
	return io.ReadAll(io.LimitReader(answer.Body, most))
}

func keep(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// deb is what is in a package.
type deb struct {
	pin
	control string
	fields  map[string]string // of control, without those that go on in another line
	files   map[string]entry  // by path
}

func unpack(p pin, content []byte) (d deb, err error) {
	d = deb{pin: p, files: map[string]entry{}}
	r := ar.NewReader(bytes.NewReader(content))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return d, err
		}
		part, _, _ := strings.Cut(strings.TrimSuffix(h.Name, "/"), ".")
		if part != "control" && part != "data" {
			continue
		}
		files, err := unpackXZ(r)
		if err != nil {
			return d, fmt.Errorf("%s: %w", h.Name, err)
		}
		if part == "control" {
			d.control = string(files["control"].content)
		} else {
			d.files = files
		}
	}
	d.fields = map[string]string{}
	for line := range strings.Lines(d.control) {
		if name, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, " ") {
			d.fields[name] = strings.TrimSpace(value)
		}
	}
	if d.fields["Package"] == "" || d.fields["Version"] == "" || len(d.files) == 0 {
		return d, fmt.Errorf("it has package %q, version %q, %d files", d.fields["Package"], d.fields["Version"], len(d.files))
	}
	return d, nil
}

func unpackXZ(from io.Reader) (map[string]entry, error) {
	z, err := xz.NewReader(bufio.NewReader(from))
	if err != nil {
		return nil, err
	}
	out := map[string]entry{}
	r := tar.NewReader(z)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(h.Name, "./")
		switch h.Typeflag {
		case tar.TypeReg:
			content, err := io.ReadAll(r)
			if err != nil {
				return nil, err
			}
			out[name] = file(name, h.Mode&0o777, content)
		case tar.TypeSymlink:
			out[name] = link(name, h.Linkname)
		}
	}
}

// licenses are the names that a package's copyright file has of them.
func (d deb) licenses() (names []string, err error) {
	text := d.files[d.copyright()].content
	for _, m := range regexp.MustCompile(`(?m)^License: *(\S.*)$`).FindAllSubmatch(text, -1) {
		names = append(names, strings.TrimSpace(string(m[1])))
	}
	if slices.Sort(names); len(names) == 0 {
		return nil, fmt.Errorf("%s names no licence in %s", d.path, d.copyright())
	}
	return slices.Compact(names), nil
}

func (d deb) copyright() string { return "usr/share/doc/" + d.fields["Package"] + "/copyright" }

// debian unpacks the packages of an architecture.
func (s source) debian(arch string) (p pins, list []deb, err error) {
	if p, err = readPins(filepath.Join(s.root, "deploy/packages/debian.pins")); err != nil {
		return p, nil, err
	}
	for _, one := range p.list {
		if !one.is(arch) {
			continue
		}
		content, err := p.fetch(one)
		if err != nil {
			return p, nil, err
		}
		d, err := unpack(one, content)
		if err != nil {
			return p, nil, fmt.Errorf("%s: %w", one.path, err)
		}
		list = append(list, d)
	}
	return p, list, nil
}

// linked are a program of the packages and all that its loader takes for it. Of each package there is something, with its licences and what
// dpkg knows of it, where scanners for vulnerabilities look in images without dpkg.
func linked(program string, debs []deb) ([]entry, error) {
	l := loader{files: map[string]entry{}, taken: map[string]entry{}}
	for _, d := range debs {
		maps.Copy(l.files, d.files)
	}
	if err := l.take(program); err != nil {
		return nil, err
	}
	for _, d := range debs {
		used := false
		for name := range d.files {
			_, taken := l.taken[name]
			used = used || taken
		}
		if !used {
			return nil, fmt.Errorf("%s has nothing that %s needs: take it out of scripts/debian-pins.sh", d.path, program)
		}
		text, ok := d.files[d.copyright()]
		if !ok {
			return nil, fmt.Errorf("%s has no %s", d.path, d.copyright())
		}
		l.taken[d.copyright()] = text
		status := "var/lib/dpkg/status.d/" + d.fields["Package"]
		l.taken[status] = file(status, 0o644, []byte(d.control))
	}
	return slices.Collect(maps.Values(l.taken)), nil
}

// loader finds what dynamic loading needs.
type loader struct{ files, taken map[string]entry }

// take takes a file with what it is linked to, by symbolic link and by name of a library.
func (l loader) take(name string) error {
	e, ok := l.files[name]
	if !ok {
		return fmt.Errorf("%s is in no package that is pinned: add its package to scripts/debian-pins.sh", name)
	}
	if _, done := l.taken[name]; done {
		return nil
	}
	l.taken[name] = e
	if e.link != "" {
		return l.take(path.Join(path.Dir(name), e.link))
	}
	f, err := elf.NewFile(bytes.NewReader(e.content))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			interpreter, err := io.ReadAll(p.Open())
			if err != nil {
				return err
			}
			if err := l.take("usr" + strings.TrimRight(string(interpreter), "\x00")); err != nil { // /lib is a link to usr/lib
				return err
			}
		}
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, library := range libraries {
		if err := l.take(triplets[f.Machine] + library); err != nil {
			return fmt.Errorf("%s needs it: %w", name, err)
		}
	}
	return nil
}

// triplets are where Debian has libraries of an architecture.
var triplets = map[elf.Machine]string{elf.EM_X86_64: "usr/lib/x86_64-linux-gnu/", elf.EM_AARCH64: "usr/lib/aarch64-linux-gnu/"}
