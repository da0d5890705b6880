package debian

import (
	"archive/tar"
	"io"
	"os"
	"strings"
)

// pack makes a disk that is a tar of files.
func pack(path string, files map[string]string) error {
	disk, err := os.Create(path)
	if err != nil {
		return err
	}
	defer disk.Close()
	w := tar.NewWriter(disk)
	for to, from := range files {
		if err := packOne(w, strings.TrimPrefix(to, "/"), from); err != nil {
			return err
		}
	}
	return w.Close()
}

func packOne(w *tar.Writer, to, from string) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: to, Mode: int64(info.Mode().Perm()), Size: info.Size(), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err = io.Copy(w, file)
	return err
}
