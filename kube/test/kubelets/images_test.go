package kubelets

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const pauseImage = "selvage.test/pause:1"

// product makes the images of a version as a release does, for this machine, and is their files.
func product(ctx context.Context, dir, version string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "scripts/dist.sh", "images-amd64")
	cmd.Dir = filepath.Join("..", "..", "..")
	cmd.Env = append(os.Environ(), "OUT="+dir, "VERSION="+version)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return filepath.Glob(filepath.Join(dir, "*_"+version+"_oci.tar"))
}

// pause makes the image of a static program: an archive as docker save writes it.
func pause(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "pause")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./testdata/pause")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build pause: %w\n%s", err, out)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return "", err
	}
	layer, err := archive(file{"pause", content})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{"Entrypoint": []string{"/pause"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return "", err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{pauseImage}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return "", err
	}
	image, err := archive(file{"manifest.json", manifest}, file{"config.json", config}, file{"layer.tar", layer})
	if err != nil {
		return "", err
	}
	at := filepath.Join(dir, "pause.tar")
	return at, os.WriteFile(at, image, 0o600)
}

type file struct {
	name    string
	content []byte
}

func archive(files ...file) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	var errs []error
	for _, f := range files {
		errs = append(errs, w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o755, Size: int64(len(f.content)), Typeflag: tar.TypeReg}))
		_, err := w.Write(f.content)
		errs = append(errs, err)
	}
	return b.Bytes(), errors.Join(append(errs, w.Close())...)
}
