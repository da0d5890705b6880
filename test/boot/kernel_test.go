package boot

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/test/debian"
	"github.com/selvage/selvage/test/tier"
)

// Debian's own kernel, which is older than what we develop on, takes the programs, and an edge on it forwards, also after
// a boot. All steps are one machine's, which is emulated where the processor has no virtualisation.
func TestDebianKernel(t *testing.T) {
	tier.Long(t, "TestEveryCombinationVerifies, on the kernel that there is")
	program := filepath.Join(t.TempDir(), "datapath.test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", program, "../../internal/datapath").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m := machine(t, debian.VM, map[string]string{"/root/datapath.test": program})
	t.Logf("Linux %s", m.Must("uname -r"))
	inOrder(t, m, []step{{"Install", install}, {"Reboot", reboot}, {"ProgramsLoad", programsLoad}})
}

// loadMost bounds how long an emulated processor verifies programs.
const loadMost = 20 * time.Minute

// programsLoad runs those tests of the data path in the machine that load all of its programs.
func programsLoad(t *testing.T, m *debian.Machine) {
	ctx, cancel := context.WithTimeout(t.Context(), loadMost)
	defer cancel()
	r, err := m.Run(ctx, "cd /root && CI=true ./datapath.test -test.v -test.run '^("+strings.Join(loading, "|")+")$' >log 2>&1; status=$?; tail -n 200 log; exit $status")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r.Out)
}

// loading are the tests that load all programs, among them each with what closes its branches or opens them.
var loading = []string{"TestEveryCombinationVerifies", "TestVerifiedInstructions", "TestTraceLoads", "TestEveryObjectVerifies"}
