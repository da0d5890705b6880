package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// container is what an image has.
type container struct {
	programs []string // the last is what it runs
	licenses []string // their files in the repository
	folders  []entry  // besides those of each
	debian   string   // program of pinned packages of Debian, with all that it needs
	license  string   // of all of it, in SPDX's words
}

const ourLicense = "Apache-2.0 AND (GPL-2.0-only OR BSD-2-Clause)"

var (
	ourLicenses = []string{"LICENSE", "bpf/LICENSE", "bpf/LICENSE.GPL-2.0"}
	edgeFolders = []entry{folder("etc/selvage", 0o755), folder("var/lib/selvage", 0o700)}
)

// containers are the images, by name. The lab runs edges; the agent of a cluster's nodes runs nft.
var containers = map[string]container{
	"selvage":     {programs: []string{"selvage"}, licenses: ourLicenses, folders: edgeFolders, license: ourLicense},
	"selvage-lab": {programs: []string{"selvage", "selvage-lab"}, licenses: ourLicenses, folders: edgeFolders, license: ourLicense},
	"selvage-kube": {
		programs: []string{"selvage-kube"}, licenses: ourLicenses[:1], debian: "usr/sbin/nft",
		license: "Apache-2.0 AND GPL-2.0-only AND GPL-2.0-or-later AND LGPL-2.1-or-later AND (LGPL-3.0-or-later OR GPL-2.0-or-later) AND MIT AND BSD-3-Clause AND X11",
	},
}

// images makes an OCI archive of each: an index with an image for each architecture.
func (s source) images(out string) error {
	for _, name := range slices.Sorted(maps.Keys(containers)) {
		if err := s.image(out, name, architectures...); err != nil {
			return fmt.Errorf("image of %s: %w", name, err)
		}
	}
	return nil
}

// tag is the version as a registry takes it.
func (s source) tag() string { return strings.NewReplacer("~", "-", "+", "-").Replace(s.version) }

func (s source) image(out, program string, architectures ...string) error {
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
	err = at.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": program + ":" + s.tag(),
		"io.containerd.image.name":          registry + program + ":" + s.tag(), // what ctr images import calls it: as the chart does
	}))
	if err != nil {
		return err
	}
	return s.archive(dir, filepath.Join(out, fmt.Sprintf("%s_%s_oci.tar", program, s.tag())))
}

func (s source) imageFor(program, arch string) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	add := func(files []byte, by string, at time.Time) error {
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
			tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return err
		}
		image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: at}, CreatedBy: by}})
		return err
	}
	if needed := containers[program].debian; needed != "" { // first: it is the same in many versions
		p, debs, err := s.debian(arch)
		if err != nil {
			return nil, err
		}
		entries, err := linked(needed, debs)
		if err != nil {
			return nil, err
		}
		files, err := layerOf(append(entries, link("lib", "usr/lib"), link("lib64", "usr/lib64")), p.time)
		if err == nil {
			err = add(files, "make packages: "+needed+" of Debian", p.time)
		}
		if err != nil {
			return nil, err
		}
	}
	files, err := s.layer(program, arch)
	if err == nil {
		err = add(files, "make packages", s.time)
	}
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Architecture, config.OS, config.Created = arch, "linux", v1.Time{Time: s.time}
	config.Config = v1.Config{
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
			"org.opencontainers.image.licenses":    containers[program].license,
		},
	}
	return mutate.ConfigFile(image, config)
}

// entry is a file, a directory or a symbolic link of a layer.
type entry struct {
	name    string
	mode    int64
	content []byte
	link    string
	kind    byte // of package tar
}

func file(name string, mode int64, content []byte) entry {
	return entry{name, mode, content, "", tar.TypeReg}
}

func folder(name string, mode int64) entry { return entry{name, mode, nil, "", tar.TypeDir} }

func link(name, to string) entry { return entry{name, 0o777, nil, to, tar.TypeSymlink} }

// layer are our files of an image. The programs are linked statically. 65532 is whom those run as that need no root.
func (s source) layer(program, arch string) ([]byte, error) {
	c := containers[program]
	entries := append([]entry{
		file("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")),
		file("etc/group", 0o644, []byte("root:x:0:\nnonroot:x:65532:\n")),
		folder("root", 0o700), folder("run", 0o755), folder("tmp", 0o1777),
	}, c.folders...)
	for _, name := range c.programs {
		content, err := os.ReadFile(s.program(name, arch))
		if err != nil {
			return nil, err
		}
		notices, err := notices(s.program(name, arch))
		if err != nil {
			return nil, err
		}
		entries = append(entries, file("usr/bin/"+name, 0o755, content), file("usr/share/licenses/"+name+"/THIRD-PARTY", 0o644, notices))
		for _, license := range c.licenses {
			text, err := os.ReadFile(filepath.Join(s.root, license))
			if err != nil {
				return nil, err
			}
			entries = append(entries, file("usr/share/licenses/"+name+"/"+strings.ReplaceAll(license, "/", "-"), 0o644, text))
		}
	}
	return layerOf(entries, s.time)
}

// layerOf writes entries in order, with the directories that they are in, all of one time and root's.
func layerOf(entries []entry, at time.Time) ([]byte, error) {
	byName := map[string]entry{}
	for _, e := range entries {
		byName[e.name] = e
		for dir := path.Dir(e.name); dir != "."; dir = path.Dir(dir) {
			if _, there := byName[dir]; !there {
				byName[dir] = folder(dir, 0o755)
			}
		}
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if err := write(w, byName[name], at); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

func write(w *tar.Writer, e entry, at time.Time) error {
	h := &tar.Header{Name: e.name, Mode: e.mode, ModTime: at, Size: int64(len(e.content)), Typeflag: e.kind, Linkname: e.link, Format: tar.FormatPAX}
	if e.kind == tar.TypeDir {
		h.Name += "/"
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
	err = filepath.WalkDir(dir, func(from string, d fs.DirEntry, err error) error {
		if err != nil || from == dir {
			return err
		}
		name, err := filepath.Rel(dir, from)
		if err != nil || d.IsDir() {
			return cmp.Or(err, write(w, folder(name, 0o755), s.time))
		}
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		return write(w, file(name, 0o644, content), s.time)
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return f.Close()
}
