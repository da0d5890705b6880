package ops

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

// BenchmarkIdle has what the edges of examples take while nothing happens, once they have settled:
//
//	sudo make bench T=./test/e2e/ops B=BenchmarkIdle     # a minute and a quarter for each
//
// Of evpn a third one has a neighbour that is there: it does not dial one each second for as long as it runs.
//
// "core-%" is the share of a core that their threads had, in user space and in the kernel, as a control group counts it.
// What the kernel does for packets is not in it, nor what other processes cause. With -benchtime 1x it is
// measured for two seconds, which says little.
func BenchmarkIdle(b *testing.B) {
	tier.Root(b)
	settles, window := idleSettles, time.Minute
	if flag.Lookup("test.benchtime").Value.String() == "1x" {
		settles, window = time.Second, 2*time.Second
	}
	for _, example := range append(slices.Clone(idleExamples), withSession) {
		b.Run(example, func(b *testing.B) {
			var used, took time.Duration
			rss := 0
			for b.Loop() {
				u, t, r := measureIdle(b, example, settles, window)
				used, took, rss = used+u, took+t, max(rss, r)
			}
			b.ReportMetric(0, "ns/op") // of a window: nobody's question
			b.ReportMetric(100*used.Seconds()/took.Seconds(), "core-%")
			b.ReportMetric(float64(rss)/1024, "RSS-MiB")
		})
	}
}

// withSession is evpn with a neighbour.
const withSession = "evpn-session"

// measureIdle is what the edge of an example used of a core in which time, and what memory it has then.
func measureIdle(b *testing.B, example string, settles, window time.Duration) (used, took time.Duration, rss int) {
	b.Helper()
	lab, err := topo.New(b.Context(), b.Name())
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := lab.Close(); err != nil {
			b.Error(err)
		}
	}()
	start := func() (*dut.Edge, error) { return startIdle(b.Context(), lab, harness.Program, example) }
	if example == withSession {
		start = func() (*dut.Edge, error) { return startWithSession(b.Context(), lab, harness.Program) }
	}
	e, err := start()
	if err != nil {
		b.Fatal(err)
	}
	group, err := newCPUGroup(lab, e.Command.PID())
	if err != nil {
		b.Fatal(err)
	}
	after(settles)
	before, err := group.used()
	began := time.Now()
	after(window)
	now, again := group.used()
	took = time.Since(began)
	rss, noRSS := rssKiB(e.Command.PID())
	if err := errors.Join(err, again, noRSS); err != nil {
		b.Fatal(err)
	}
	return now - before, took, rss
}

// cpuGroup is a control group that counts the processor time of its processes.
type cpuGroup struct {
	file string        // of that time
	key  string        // before it in the file, "": it stands alone
	unit time.Duration // of it
}

// newCPUGroup puts a process with all its threads into a control group of its own, which goes with the lab.
func newCPUGroup(lab *topo.Lab, pid int) (g cpuGroup, err error) {
	root, v2, err := cpuGroups()
	if err != nil {
		return g, err
	}
	dir := filepath.Join(root, "selvage-idle-"+lab.ID)
	g = cpuGroup{file: filepath.Join(dir, "cpuacct.usage"), unit: time.Nanosecond}
	if v2 {
		g = cpuGroup{file: filepath.Join(dir, "cpu.stat"), key: "usage_usec ", unit: time.Microsecond}
	}
	if err := errors.Join(lab.Owns(dir), os.Mkdir(dir, 0o755)); err != nil {
		return g, fmt.Errorf("make a control group: %w", err)
	}
	return g, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600)
}

// cpuGroups is where control groups that count processor time are mounted, and whether they are of version 2, whose
// groups all do.
func cpuGroups() (root string, v2 bool, err error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", false, err
	}
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		switch {
		case len(f) > 3 && f[2] == "cgroup" && slices.Contains(strings.Split(f[3], ","), "cpuacct"):
			return f[1], false, nil
		case len(f) > 3 && f[2] == "cgroup2":
			root = f[1]
		}
	}
	if root == "" {
		return "", false, errors.New("no control groups are mounted: mount -t cgroup2 none DIRECTORY")
	}
	return root, true, nil
}

// used is the processor time that the group has had.
func (g cpuGroup) used() (time.Duration, error) {
	text, err := os.ReadFile(g.file)
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut("\n"+string(text), "\n"+g.key)
	if !ok {
		return 0, fmt.Errorf("%s has no %s", g.file, g.key)
	}
	number, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", g.file, err)
	}
	return time.Duration(n) * g.unit, nil
}
