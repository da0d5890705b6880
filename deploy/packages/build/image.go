package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// imagePrograms are the programs in each image. The lab runs edges.
var imagePrograms = map[string][]string{
	"selvage":     {"selvage"},
	"selvage-lab": {"selvage", "selvage-lab"},
}

// images makes an OCI archive of each program: an index with an image for each architecture.
func (s source) images(out string) error {
	for _, program := range programs {
		if err := s.image(out, program); err != nil {
			return fmt.Errorf("image of %s: %w", program, err)
		}
	}
	return nil
}

// tag is the version as a registry takes it.
func (s source) tag() string { return strings.NewReplacer("~", "-", "+", "-").Replace(s.version) }

func (s source) image(out, program string) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range architectures {
		image, err := s.imageFor(program, arch)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	dir := filepath.Join(s.work, "oci", program)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	at, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	err = at.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": program + ":" + s.tag()}))
	if err != nil {
		return err
	}
	return s.archive(dir, filepath.Join(out, fmt.Sprintf("%s_%s_oci.tar", program, s.tag())))
}

func (s source) imageFor(program, arch string) (v1.Image, error) {
	files, err := s.layer(program, arch)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: s.time}, CreatedBy: "make packages"},
	})
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Architecture, file.OS, file.Created = arch, "linux", v1.Time{Time: s.time}
	file.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/" + program},
		Env:        []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
		WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title":       program,
			"org.opencontainers.image.description": about[program].summary,
			"org.opencontainers.image.version":     s.version,
			"org.opencontainers.image.revision":    s.commit,
			"org.opencontainers.image.created":     s.time.Format("2006-01-02T15:04:05Z07:00"),
			"org.opencontainers.image.source":      homepage,
			"org.opencontainers.image.licenses":    "Apache-2.0 AND (GPL-2.0-only OR BSD-2-Clause)",
		},
	}
	return mutate.ConfigFile(image, file)
}

// entry is a file or, without content, a directory of a layer.
type entry struct {
	name    string
	mode    int64
	content []byte
}

// layer is the whole of an image's files: the programs are linked statically and need nothing else.
func (s source) layer(program, arch string) ([]byte, error) {
	entries := []entry{
		{"etc", 0o755, nil}, {"etc/selvage", 0o755, nil},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/sbin/nologin\n")}, {"etc/group", 0o644, []byte("root:x:0:\n")},
		{"root", 0o700, nil}, {"run", 0o755, nil}, {"tmp", 0o1777, nil}, {"usr", 0o755, nil}, {"usr/bin", 0o755, nil},
		{"usr/share", 0o755, nil}, {"usr/share/licenses", 0o755, nil},
		{"var", 0o755, nil}, {"var/lib", 0o755, nil}, {"var/lib/selvage", 0o700, nil},
	}
	for _, name := range imagePrograms[program] {
		content, err := os.ReadFile(s.program(name, arch))
		if err != nil {
			return nil, err
		}
		notices, err := notices(s.program(name, arch))
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{"usr/bin/" + name, 0o755, content}, entry{"usr/share/licenses/" + name, 0o755, nil},
			entry{"usr/share/licenses/" + name + "/THIRD-PARTY", 0o644, notices})
		for _, license := range []string{"LICENSE", "bpf/LICENSE", "bpf/LICENSE.GPL-2.0"} {
			text, err := os.ReadFile(filepath.Join(s.root, license))
			if err != nil {
				return nil, err
			}
			entries = append(entries, entry{"usr/share/licenses/" + name + "/" + strings.ReplaceAll(license, "/", "-"), 0o644, text})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if err := s.write(w, e); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

func (s source) write(w *tar.Writer, e entry) error {
	h := &tar.Header{Name: e.name, Mode: e.mode, ModTime: s.time, Size: int64(len(e.content)), Typeflag: tar.TypeReg, Format: tar.FormatPAX}
	if e.content == nil {
		h.Typeflag, h.Name = tar.TypeDir, e.name+"/"
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(e.content)
	return err
}

// archive writes a directory as an archive, its files in order.
func (s source) archive(dir, to string) error {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer f.Close()
	w := tar.NewWriter(f)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || d.IsDir() {
			return cmp.Or(err, s.write(w, entry{name: name, mode: 0o755}))
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return s.write(w, entry{name, 0o644, content})
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return f.Close()
}
