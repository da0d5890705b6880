package boot

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// Packages of two builds, as apt sorts them.
const older, newer = "0.2.0~test1", "0.2.0~test2"

// packages makes the Debian packages of this tree as two versions, and returns their paths. Those of $SELVAGE_TEST_DEBS,
// a directory, are not made again.
func packages(t *testing.T) map[string]string {
	t.Helper()
	dir := os.Getenv("SELVAGE_TEST_DEBS")
	if dir == "" {
		dir = t.TempDir()
	}
	debs := make(map[string]string)
	for _, version := range []string{older, newer} {
		debs[version] = filepath.Join(dir, "selvage_"+version+"_"+runtime.GOARCH+".deb")
		if _, err := os.Stat(debs[version]); err == nil {
			continue
		}
		pack := exec.Command("../../scripts/dist.sh", runtime.GOARCH)
		pack.Env = append(os.Environ(), "VERSION="+version, "OUT="+dir)
		if out, err := pack.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return debs
}
