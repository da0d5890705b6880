// Package apiserver runs a real API server of Kubernetes, with a real etcd, for tests. Their programs are those of envtest or of PATH;
// what is missing is built once a machine, which takes about five minutes on two cores.
package apiserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// programs are what is built, by the name of their file.
var programs = map[string]string{
	"etcd":                    "go.etcd.io/etcd/server/v3",
	"kube-apiserver":          "k8s.io/kubernetes/cmd/kube-apiserver",
	"kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
	"kube-scheduler":          "k8s.io/kubernetes/cmd/kube-scheduler",
	"kubelet":                 "k8s.io/kubernetes/cmd/kubelet",
	"kubectl":                 "k8s.io/kubernetes/cmd/kubectl",
	"helm":                    "helm.sh/helm/v4/cmd/helm",
}

// linked gives the programs the version that kube/test/cluster has of them, as a release does: clients ask the API server for it.
const linked = "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"

// assetsVariable names the directory of envtest's binaries.
const assetsVariable = "KUBEBUILDER_ASSETS"

// Program is a file outside the repository: one of Kubernetes' programs, from envtest's directory or PATH. One that is missing there
// is built, by one process at a time.
func Program(ctx context.Context, name string) (string, error) {
	path, known := programs[name]
	if !known {
		return "", fmt.Errorf("program %s: kube/test/cluster has none of that name", name)
	}
	if found, err := exec.LookPath(filepath.Join(os.Getenv(assetsVariable), name)); err == nil && os.Getenv(assetsVariable) != "" {
		return found, nil
	}
	if found, err := exec.LookPath(name); err == nil {
		return found, nil
	}
	module, err := moduleDir()
	if err != nil {
		return "", err
	}
	sum, err := os.ReadFile(filepath.Join(module, "go.sum"))
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	hash := sha256.Sum256(append(sum, runtime.Version()+linked...))
	dir := filepath.Join(cache, "selvage", "kubernetes-"+hex.EncodeToString(hash[:])[:16])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	file := filepath.Join(dir, name)
	return file, build(ctx, module, file, path)
}

func build(ctx context.Context, module, file, path string) error {
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	fmt.Fprintf(os.Stderr, "building %s of Kubernetes into %s, which takes minutes; %s or PATH may have it instead\n", filepath.Base(file), filepath.Dir(file), assetsVariable)
	fresh := file + ".new"
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", linked, "-o", fresh, path)
	cmd.Dir, cmd.Env = module, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", path, err, out)
	}
	return os.Rename(fresh, file)
}

// moduleDir is where the tools' module is.
func moduleDir() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find Kubernetes' module: %w", err)
	}
	return filepath.Join(string(out[:len(out)-1]), "test", "cluster"), nil
}

func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
