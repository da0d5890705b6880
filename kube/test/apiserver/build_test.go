package apiserver

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/selvage/selvage/test/tier"
)

// The programs by which people reach a cluster are built, and reach nobody else's.
func TestPrograms(t *testing.T) {
	tier.Slow(t)
	s := &Server{dir: t.TempDir(), port: 1}
	if out, err := s.Run(t.Context(), "helm", "version", "--short"); err != nil || !regexp.MustCompile(`^v[34]\.`).MatchString(out) {
		t.Errorf("%s %v", out, err)
	}
	if out, err := s.Run(t.Context(), "kubectl", "get", "nodes"); err == nil || !strings.Contains(out, "127.0.0.1:1") {
		t.Errorf("%s %v", out, err)
	}
	module, err := moduleDir()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil || !bytes.Contains(text, []byte("k8s.io/kubernetes "+regexp.MustCompile(`gitVersion=(\S+)`).FindStringSubmatch(linked)[1]+" ")) {
		t.Errorf("programs say that they are of another version than they are: %s %v", linked, err)
	}
	if _, err := Program(t.Context(), "minikube"); err == nil {
		t.Error("there is a program that the module does not name")
	}
}
