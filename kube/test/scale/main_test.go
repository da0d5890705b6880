package scale

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/selvage/selvage/kube/test/apiserver"
)

const (
	chart     = "../../chart/selvage"
	namespace = "selvage-system"
	release   = "egress"
)

// metrics is where the controller serves them. It is of the test's own loopback network that nobody else uses.
const metrics = "127.78.89.1:18089"

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	if node := os.Getenv(agentOf); node != "" {
		os.Exit(beAgent(node))
	}
	os.Exit(m.Run())
}

// process is a controller or an agent that runs.
type process struct {
	cmd     *exec.Cmd
	stop    func()
	metrics string // address
}

// build is the program.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "selvage-kube")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/selvage-kube").CombinedOutput(); err != nil {
		t.Fatalf("build selvage-kube: %v\n%s", err, out)
	}
	return program
}

// run has the controller run with the chart's account and arguments, as a process of its own.
func run(t *testing.T, program string, s *apiserver.Server) *process {
	t.Helper()
	config, err := s.As(t.Context(), namespace, release+"-controller", nil)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, config, metrics, program, "controller", "--lease-namespace="+namespace, "--metrics="+metrics)
}

// start runs a program that reaches the API server by a configuration, until the test ends.
func start(t *testing.T, by *rest.Config, metrics string, argv ...string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := apiserver.WriteKubeconfig(file, by); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.CommandContext(context.WithoutCancel(t.Context()), argv[0], argv[1:]...), metrics: metrics}
	p.cmd.Env = append(os.Environ(), "KUBECONFIG="+file)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.stop = sync.OnceFunc(func() {
		_ = p.cmd.Process.Signal(os.Interrupt) // so that a controller gives its lease back
		_ = p.cmd.Wait()
		log.Close()
		if said, err := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%s said, %v: %s", filepath.Base(argv[0]), err, said[max(0, len(said)-5000):])
		}
	})
	t.Cleanup(p.stop)
	return p
}

// use is what a process has of the machine.
type use struct {
	now, most, heap int64 // bytes; heap is what is in use of it
	cpu             time.Duration
}

// MB is of a million bytes.
func mb(bytes int64) string { return fmt.Sprintf("%d MB", bytes/1e6) }

// String implements fmt.Stringer.
func (u use) String() string {
	return fmt.Sprintf("%s resident, %s at most, %s of heap in use", mb(u.now), mb(u.most), mb(u.heap))
}

// use reads what the kernel and the process itself say.
func (p *process) use(t *testing.T) (u use) {
	t.Helper()
	file := func(name string) string {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	status := file("status")
	u.now, u.most = 1024*number(t, status, "VmRSS:"), 1024*number(t, status, "VmHWM:")
	_, fields, _ := strings.Cut(file("stat"), ") ") // 1 is the state, which is the third of proc_pid_stat(5)
	const hertz = 100                               // USER_HZ, which the kernel fixes for user space
	for _, ticks := range strings.Fields(fields)[11:13] {
		n, err := strconv.Atoi(ticks)
		if err != nil {
			t.Fatal(err)
		}
		u.cpu += time.Duration(n) * time.Second / hertz
	}
	answer, err := http.Get("http://" + p.metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	u.heap = number(t, string(text), "\ngo_memstats_heap_inuse_bytes ")
	return u
}

// number is the one after a name.
func number(t *testing.T, text, name string) int64 {
	t.Helper()
	_, after, _ := strings.Cut(text, name)
	value, err := strconv.ParseFloat(strings.FieldsFunc(after+" .", func(r rune) bool { return r == ' ' || r == '\n' || r == '\t' })[0], 64)
	if err != nil {
		t.Fatalf("%s: %v", strings.TrimSpace(name), err)
	}
	return int64(value)
}
