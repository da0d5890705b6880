package qemu

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/debian"
)

// recipe is a machine with all of Debian's drivers: its kernel for clouds lacks most.
func recipe(suite string) debian.Recipe {
	return debian.Recipe{Suite: suite, Kernel: "linux-image-amd64", Packages: []string{"ethtool", "iputils-ping"}}
}

// memory is that of a machine in MiB.
const memory = 1536

// programs are selvage and selvage-lab of this tree, where machines have them.
func programs(t *testing.T) map[string]string {
	t.Helper()
	dir, all := t.TempDir(), map[string]string{}
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir+"/", "../../cmd/selvage", "../../cmd/selvage-lab")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"selvage", "selvage-lab"} {
		all["/usr/bin/"+name] = filepath.Join(dir, name)
	}
	return all
}

// withDrivers is a machine with interfaces of all drivers, which have their names and are down.
func withDrivers(t *testing.T, suite string) *debian.Machine {
	t.Helper()
	lab, err := topo.New(t.Context(), "qemu-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	outside, err := lab.Host("outside")
	if err != nil {
		t.Fatal(err)
	}
	m := debian.VM(t, debian.Options{Recipe: recipe(suite), Files: programs(t), Memory: memory, Args: cards(t, outside), Namespace: outside.Namespace})
	m.Fact("the machine has all interfaces", fmt.Sprintf("[ $(ip -o link | grep -c ' 52:54:00:00:') = %d ]", len(drivers)*nics))
	m.Must(names())
	return m
}
