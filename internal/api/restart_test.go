package api

import (
	"strings"
	"testing"
)

// Whoever reads of an edge that does not run is told to start it, but in a cluster, where a kubelet does.
func TestRestart(t *testing.T) {
	t.Setenv(serviceEnv, "")
	none := Dial(t.TempDir(), "n1")
	asked := func() string {
		_, err := none.Status(t.Context())
		if err == nil {
			t.Fatal("it answers")
		}
		return err.Error()
	}
	for _, c := range []struct{ says, want string }{
		{asked(), "edge n1 is not running here: start it with `selvage edge -c FILE`: "},
		{RestartOrRemove("a.yaml", "n1"), "start it again with `selvage edge -c a.yaml`, or remove it with `selvage remove n1`"},
	} {
		if !strings.HasPrefix(c.says, c.want) {
			t.Errorf("%q, want %q", c.says, c.want)
		}
	}
	t.Setenv(serviceEnv, "10.96.0.1")
	for _, says := range []string{asked(), RestartOrRemove("a.yaml", "n1")} {
		if !strings.Contains(says, "the kubelet starts its container") || strings.Contains(says, "selvage edge -c") || strings.Contains(says, "selvage remove") {
			t.Errorf("in a cluster: %q", says)
		}
	}
}
