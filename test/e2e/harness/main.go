package harness

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/selvage/selvage/lab/measure"
)

// binaryEnv names a selvage that is built already.
const binaryEnv = "SELVAGE_TEST_BINARY"

// Program is the program under test. Main sets it.
var Program string

// Content is what transfers send: random, and the same in every run.
var (
	Content    = randomBytes(20_000_000)
	contentSum = sha256.Sum256(Content)
)

// Main is every package's TestMain. The program under test is the file that
// SELVAGE_TEST_BINARY names, or built here.
func Main(m *testing.M) {
	measure.RunInstrument(os.Args[1:])
	os.Exit(run(m))
}

func run(m *testing.M) int {
	flag.Parse()
	if os.Geteuid() != 0 || testing.Short() { // then every test skips, or fails in CI
		return m.Run()
	}
	if Program = os.Getenv(binaryEnv); Program != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "selvage-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	Program = filepath.Join(dir, "selvage")
	build := exec.Command("go", "build", "-o", Program, "github.com/selvage/selvage/cmd/selvage")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build selvage: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b) // never fails
	return b
}
