package nodes

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/selvage/selvage/internal/program"
	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/test/e2e/harness"
)

// TestMain has the program of the product's module, which is not this one. A copy of the test is the lab's agent in a container.
func TestMain(m *testing.M) {
	measure.RunInstrument(os.Args[1:])
	agent.Run(os.Args[1:], program.Version(), nil)
	if os.Geteuid() == 0 && os.Getenv("SELVAGE_TEST_BINARY") == "" {
		dir, err := os.MkdirTemp("", "selvage-kube-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		build := exec.Command("go", "build", "-o", dir, "./cmd/selvage")
		build.Dir = filepath.Join("..", "..", "..")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build selvage: %v\n%s", err, out)
			os.Exit(1)
		}
		os.Setenv("SELVAGE_TEST_BINARY", filepath.Join(dir, "selvage"))
	}
	if os.Getenv(demoDir) != "" {
		klog.SetLogger(logr.Discard())
		ctrl.SetLogger(logr.Discard())
	} else {
		ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	}
	harness.Main(m)
}
