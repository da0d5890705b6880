package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

var chartVersion = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)

// chart writes the Helm chart as helm package does: selvage-VERSION.tgz. Its version is the images' tag, which is a semantic version
// too, so that images.*.tag that are left out are the images of this build.
func (s source) chart(out string) error {
	dir := filepath.Join(s.root, "kube/chart/selvage")
	var entries []entry
	err := filepath.WalkDir(dir, func(from string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, from)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if name == "Chart.yaml" {
			if n := len(chartVersion.FindAll(content, -1)); n != 2 {
				return fmt.Errorf("%s has %d lines of version and appVersion, and should have one of each", from, n)
			}
			content = chartVersion.ReplaceAll(content, fmt.Appendf(nil, "$1: %q", s.tag()))
		}
		entries = append(entries, file("selvage/"+filepath.ToSlash(name), 0o644, content))
		return nil
	})
	if err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	for _, e := range entries { // Chart.yaml is the first
		if err := write(w, e, s.time); err != nil {
			return err
		}
	}
	for _, c := range []interface{ Close() error }{w, z} {
		if err := c.Close(); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(out, "selvage-"+s.tag()+".tgz"), b.Bytes(), 0o644)
}
