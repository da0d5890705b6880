package experiments_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/experiment/ab"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/testprogram"
	"github.com/selvage/selvage/test/tier"
)

func TestMain(m *testing.M) { testprogram.Main(m, 4) }

const stateRoot = "/run/selvage/lab"

// patience is how long a program may take: far more than it does beside all others.
const patience = 4 * time.Minute

// Live tests run side by side, but for those that kill their program: what is left then, the
// start of any other would remove. The command lines ask for the shortest samples that there
// are; one run of each experiment with all its rows is enough.

// program is a running selvage and the labs that it has made.
type program struct {
	t              *testing.T
	cmd            *exec.Cmd
	token          string
	stdout, stderr bytes.Buffer
	lines          chan string   // of standard error
	ended          chan struct{} // with standard error
	wait           sync.WaitGroup
	mu             sync.Mutex
	labs           map[string]bool
}

func start(t *testing.T, args ...string) *program {
	t.Helper()
	p := newProgram(t, args...)
	p.cmd.Stdout = &p.stdout
	pipe, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.run(func() {
		defer close(p.lines)
		for scan := bufio.NewScanner(pipe); scan.Scan(); {
			p.stderr.WriteString(scan.Text() + "\n")
			p.lines <- scan.Text()
		}
	})
	return p
}

// newProgram is one to run.
func newProgram(t *testing.T, args ...string) *program {
	t.Helper()
	tier.Root(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, token: fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano()), lines: make(chan string, 1000), ended: make(chan struct{}), labs: map[string]bool{}}
	p.cmd = exec.Command(self, args...)
	p.cmd.Env = append(os.Environ(), testprogram.Mark+"="+p.token)
	return p
}

// run starts it. It has ended when follow has.
func (p *program) run(follow func()) {
	p.t.Helper()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	p.wait.Go(func() {
		defer close(p.ended)
		follow()
	})
	p.wait.Go(p.watch)
}

// watch notes the labs of the program until it ends.
func (p *program) watch() {
	for {
		files, _ := filepath.Glob(stateRoot + "/*.json")
		for _, file := range files {
			var state struct {
				ID    string
				Owner struct{ PID int }
			}
			data, err := os.ReadFile(file)
			if err == nil && json.Unmarshal(data, &state) == nil && state.Owner.PID == p.cmd.Process.Pid {
				p.mu.Lock()
				p.labs[state.ID] = true
				p.mu.Unlock()
			}
		}
		select {
		case <-p.ended:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// awaitLine waits until a line of standard error has the text.
func (p *program) awaitLine(text string) {
	p.t.Helper()
	limit := time.After(patience)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("it ended without a line with %q:\n%s", text, &p.stderr)
			}
			if strings.Contains(line, text) {
				return
			}
		case <-limit:
			p.t.Fatalf("no line with %q", text)
		}
	}
}

// awaitLab waits until the program has n labs.
func (p *program) awaitLab(n int) {
	p.t.Helper()
	err := await.Within(p.t.Context(), patience, "labs", func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.labs) < n {
			return fmt.Errorf("it has %d labs, not %d", len(p.labs), n)
		}
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// end waits for the program and returns its exit status.
func (p *program) end() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("it does not end:\n%s", &p.stderr)
	}
	_ = p.cmd.Wait() // the exit status says it too
	p.wait.Wait()
	state := p.cmd.ProcessState
	p.t.Logf("%s: %s of processor time", strings.Join(p.cmd.Args[1:3], " "), (state.UserTime() + state.SystemTime()).Round(time.Millisecond))
	return state.ExitCode()
}

// checkGone fails the test for everything of the program that is still there.
func (p *program) checkGone() {
	p.t.Helper()
	if len(p.labs) == 0 {
		p.t.Error("no lab was seen, so nothing can be said of what they left")
	}
	for _, what := range p.left() {
		p.t.Errorf("left behind: %s", what)
	}
}

func (p *program) left() []string {
	var left []string
	for id := range p.labs {
		for _, pattern := range []string{
			"/run/netns/sv-" + id + "-*", stateRoot + "/" + id + "*", "/run/selvage/*" + id + "*", "/sys/fs/bpf/selvage/*" + id + "*",
		} {
			paths, _ := filepath.Glob(pattern)
			left = append(left, paths...)
		}
	}
	environments, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range environments {
		data, err := os.ReadFile(file)
		if err == nil && bytes.Contains(data, []byte(testprogram.Mark+"="+p.token)) {
			left = append(left, "process "+filepath.Base(filepath.Dir(file)))
		}
	}
	return left
}

// sysctls are some of the machine that a path or an edge might want changed.
func sysctls(t *testing.T) map[string]string {
	t.Helper()
	values := map[string]string{}
	for _, key := range []string{"net/core/rmem_max", "net/core/wmem_max", "net/core/bpf_jit_enable", "net/core/default_qdisc",
		"net/core/netdev_max_backlog", "net/core/netdev_budget", "net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", "net/ipv6/conf/all/disable_ipv6"} {
		value, err := os.ReadFile("/proc/sys/" + key)
		if err != nil {
			t.Fatal(err)
		}
		values[key] = string(value)
	}
	return values
}

// results are the run directories under root.
func results(t *testing.T, root string) []string {
	t.Helper()
	dirs, err := filepath.Glob(root + "/*")
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// measuredAb runs selvage lab ab to its end, and checks that its result is good and that
// nothing else is left of it.
func measuredAb(t *testing.T, args ...string) (r result.Result, dir string) {
	t.Helper()
	t.Parallel()
	root := t.TempDir()
	before := sysctls(t)
	p := start(t, append([]string{"lab", "ab", "--results", root, "-o", "json", "--rounds", "1", "--cycles", "1", "--slice", "10ms"}, args...)...)
	code := p.end()
	if code != 0 {
		t.Fatalf("exit status %d:\n%s", code, &p.stderr)
	}
	p.checkGone()
	if after := sysctls(t); !maps.Equal(before, after) {
		t.Errorf("sysctls were %v and are %v", before, after)
	}
	r, err := result.Read(&p.stdout) // strict
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Preflight) != 1 || r.Preflight[0].Machine.Kernel != r.Environment.Kernel || len(r.Preflight[0].Sysctls) == 0 {
		t.Errorf("preflight: %+v", r.Preflight)
	}
	dirs := results(t, root)
	if len(dirs) != 1 {
		t.Fatalf("results in %v, want one directory", dirs)
	}
	for _, file := range []string{"result.json", "report.html"} {
		if path := filepath.Join(dirs[0], file); !strings.Contains(p.stderr.String(), path) {
			t.Errorf("standard error does not name %s", path)
		}
	}
	if lines := stats.Errors(r); len(lines) > 0 {
		t.Errorf("samples failed: %s", lines)
	}
	for _, s := range r.Samples {
		if n, ok := s.Metrics["csum_errors"]; !ok && !strings.HasPrefix(s.Case, "transit") || n != 0 {
			t.Errorf("%s of %s: %v checksum errors", s.Case, s.Target, n)
		}
	}
	return r, dirs[0]
}

func TestAb(t *testing.T) {
	targets := []string{"plain", "kernel", "selvage"}
	r, dir := measuredAb(t, "--targets", strings.Join(targets, ","), "--cases", "tcp,rr,udp,transit")
	saved, err := result.ReadFile(filepath.Join(dir, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := marshal(t, r), marshal(t, saved); a != b {
		t.Error("standard output and result.json differ")
	}
	if len(r.Samples) != 3*6 || len(r.Summary) != 3*len(ab.Metrics()) {
		t.Errorf("%d samples and %d rows, want 18 and %d", len(r.Samples), len(r.Summary), 3*len(ab.Metrics()))
	}
	for _, m := range ab.Metrics() {
		for _, name := range targets {
			if row, ok := stats.Find(r.Summary, name, m.Case, m.Name); !ok || row.N != 1 || (row.Median <= 0 && m.Name != "retransmits" && m.Name != "udp_loss_ppm") {
				t.Errorf("%s %s of %s: %+v", m.Case, m.Name, name, row)
			}
		}
	}
	checkSamples(t, r, 1450-52)
	for i, c := range r.Targets {
		// Same end systems: what is left is 50 bytes more in 1500 + 38.
		want := map[bool]float64{false: 50.0 / 1538}[c.Name == "plain"]
		if c.Name != targets[i] || c.InnerMTU != 1450 || c.Description == "" || c.HeaderTax < want-1e-9 || c.HeaderTax > want+1e-9 {
			t.Errorf("target %+v, want header tax %v", c, want)
		}
	}
	if r.Experiment != "ab" || r.Command[0] != "selvage" || r.Environment.Kernel == "" || r.Environment.MTU["plain"] != 1450 || len(r.Topology.Links) != 3 || !r.Verdict.Refused {
		t.Errorf("%s, %v, %+v, %+v, %+v", r.Experiment, r.Command, r.Environment, r.Topology, r.Verdict)
	}
	checkReport(t, dir, r)
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// checkSamples checks what every sample has to say.
func checkSamples(t *testing.T, r result.Result, mss float64) {
	t.Helper()
	last := 0.0
	for _, s := range r.Samples {
		if s.Round != 1 || s.Duration <= 0 || s.Start <= last {
			t.Errorf("%s of %s: round %d, start %v, duration %v", s.Case, s.Target, s.Round, s.Start, s.Duration)
		}
		last = s.Start
		switch {
		case s.Case == "tcp" && (len(s.CPU) != r.Environment.Cores || s.Metrics["mss"] != mss || len(s.Series[measure.TCPThroughput]) != 5):
			t.Errorf("tcp of %s: MSS %v, want %v; series %v", s.Target, s.Metrics["mss"], mss, s.Series)
		case strings.HasPrefix(s.Case, "rr") && len(s.Latency) == 0:
			t.Errorf("%s of %s has no latency", s.Case, s.Target)
		}
	}
}

// checkReport writes the report once more, into the same bytes.
func checkReport(t *testing.T, dir string, r result.Result) {
	t.Helper()
	name := filepath.Join(dir, "report.html")
	first, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(first, []byte("No verdict")) || !bytes.Contains(first, []byte(r.Environment.Kernel)) {
		t.Error("the report lacks the verdict or the kernel")
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	p := start(t, "lab", "report", filepath.Join(dir, "result.json"))
	if code := p.end(); code != 0 || !strings.Contains(p.stderr.String(), name) {
		t.Fatalf("exit status %d:\n%s", code, &p.stderr)
	}
	again, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(first, again) {
		t.Errorf("the report of the same result differs (%v)", err)
	}
}

// Large packets over an underlay of IPv6, whose interfaces cannot segment tunnels, nor those of
// the end systems compute checksums; bridges leave netfilter out. The result has the shape of
// that network.
func TestAbNetwork(t *testing.T) {
	r, _ := measuredAb(t, "--targets", "wire,kernel,selvage", "--cases", "tcp", "--family", "6", "--underlay-mtu", "9000", "--bridge-netfilter", "off",
		"--offload", "underlay:tx-udp_tnl-segmentation=off,client:tx-checksum-ip-generic=off")
	checkSamples(t, r, 8930-52)
	if mtu := r.Environment.MTU; mtu["underlay"] != 9000 || mtu["inner"] != 8930 {
		t.Errorf("MTU %v", mtu)
	}
	for _, key := range topo.BridgeNetfilterSysctls() {
		if value, known := r.Environment.Sysctls[key]; known && value != "0" {
			t.Errorf("%s is %s", key, value)
		}
	}
	on := r.Environment.Offloads
	if on["underlay"]["tx-udp_tnl-segmentation"] || on["client"]["tx-checksum-ip-generic"] || !on["server"]["tx-checksum-ip-generic"] {
		t.Errorf("offloads %v", on)
	}
}

// The results of an interrupted run are kept, and it leaves nothing else.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	p := start(t, "lab", "ab", "--results", root, "--targets", "plain,kernel", "--cases", "rr", "--cycles", "1", "--slice", "40ms", "--rounds", "9")
	p.awaitLine("1/9 ")
	_ = p.cmd.Process.Signal(os.Interrupt)
	_ = p.cmd.Process.Signal(os.Interrupt) // once more, as people do
	if code := p.end(); code != 1 || !strings.HasSuffix(p.stderr.String(), "\nselvage: interrupted\n") {
		t.Errorf("exit status %d:\n%s", code, &p.stderr)
	}
	p.checkGone()
	dirs := results(t, root)
	if len(dirs) != 1 {
		t.Fatalf("results in %v", dirs)
	}
	r, err := result.ReadFile(filepath.Join(dirs[0], "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Samples) != 4 || len(stats.Errors(r)) > 0 || !r.Verdict.Refused || !strings.Contains(r.Verdict.String(), "interrupted in round 2 of 9") {
		t.Errorf("%d samples, errors %v, %+v", len(r.Samples), stats.Errors(r), r.Verdict)
	}
	if _, err := os.Stat(filepath.Join(dirs[0], "report.html")); err != nil {
		t.Error(err)
	}
}

// Before the first sample there is nothing to keep.
func TestInterruptWhileBuilding(t *testing.T) {
	for n := 1; n <= 4; n++ {
		t.Run(fmt.Sprintf("lab %d", n), func(t *testing.T) {
			interruptAt(t, n, 2, "ab", "--targets", "selvage,plain,kernel", "--cases", "rr")
		})
	}
}

// interruptAt ends an experiment by SIGTERM when it has n labs, of which make test tries some.
func interruptAt(t *testing.T, n, some int, args ...string) {
	t.Helper()
	if n != some {
		tier.Long(t, "the same with another number of labs")
	}
	t.Parallel()
	root := t.TempDir()
	p := start(t, append([]string{"lab", args[0], "--results", root}, args[1:]...)...)
	p.awaitLab(n)
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if code := p.end(); code != 1 || !strings.HasSuffix(p.stderr.String(), "\nselvage: interrupted\n") {
		t.Errorf("exit status %d:\n%s", code, &p.stderr)
	}
	p.checkGone()
	if dirs := results(t, root); len(dirs) > 0 {
		t.Errorf("results in %v", dirs)
	}
}

// A killed program takes its edges and databases with it; the rest goes by restore. It is not
// beside other tests, each of which restores what it finds.
func TestRestore(t *testing.T) {
	p := start(t, appArgs(t.TempDir(), "--targets", "plain,selvage", "--sample", "20s")...)
	p.awaitLine("TCP_RR 1024: p50")
	if len(p.databases(t)) == 0 {
		t.Error("there is no database, so nothing can be said of what they left")
	}
	_ = p.cmd.Process.Kill()
	p.end()
	err := await.That(t.Context(), "databases to end with the program", func() error {
		if left := p.databases(t); len(left) > 0 {
			return fmt.Errorf("left behind: %s", left)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if len(p.left()) == 0 {
		t.Error("a killed run left nothing, so there is nothing to test")
	}
	restore := start(t, "lab", "restore")
	if code := restore.end(); code != 0 {
		t.Errorf("exit status %d:\n%s", code, &restore.stderr)
	}
	p.checkGone()
	lines := strings.Split(strings.TrimSpace(restore.stdout.String()), "\n")
	if slices.Contains(lines, "") {
		t.Error("restore said nothing")
	}
}
