package commandline_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/selvage/selvage/kube/internal/commandline"
)

// TestCluster finds a cluster by a file.
func TestCluster(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"a","clusters":[{"name":"c","cluster":{"server":"https://192.0.2.1:6443"}},{"name":"d","cluster":{"server":"https://192.0.2.2:6443"}}],
"contexts":[{"name":"a","context":{"cluster":"c","user":"u"}},{"name":"b","context":{"cluster":"d","user":"u","namespace":"shop"}}],"users":[{"name":"u","user":{}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"": "https://192.0.2.1:6443 default", "b": "https://192.0.2.2:6443 shop"} {
		if config, namespace, err := (commandline.Cluster{Kubeconfig: file, Context: name}).Config(); err != nil || config.Host+" "+namespace != want {
			t.Errorf("context %q: %v, %s, %v", name, config, namespace, err)
		}
	}
	if _, _, err := (commandline.Cluster{Kubeconfig: file, Context: "none"}).Config(); !errors.As(err, new(commandline.UsageError)) {
		t.Errorf("a context that is not there: %v", err)
	}
}
