package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/losses"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
)

// opProfile asks for what took the cores in a time.
const opProfile = "profile"

type profileRequest struct {
	Duration time.Duration `json:"duration"`
	// Functions are sampled once a machine, however many places it has.
	Functions bool `json:"functions"`
}

// Profile says what took the place's cores from now on for that long, by process, softirq and, with
// functions, kernel function; and for which reasons the kernel dropped packets of its namespace.
// What the place does not let this user read is in NotRead.
func (s *Session) Profile(ctx context.Context, d time.Duration, functions bool) (p result.Profile, err error) {
	err = s.call(ctx, opProfile, profileRequest{d, functions}, &p)
	return p, err
}

// Most lines of a profile.
const (
	mostProcesses = 12
	mostFunctions = 25
)

func (a *agent) profile(q profileRequest) (p result.Profile, err error) {
	if q.Duration > a.limits.Time {
		return p, fmt.Errorf("%s is longer than --max-time %s", q.Duration, a.limits.Time)
	}
	missing := func(what string, err error) {
		if err != nil {
			p.NotRead = append(p.NotRead, what+": "+err.Error())
		}
	}
	dropped, err := followDrops()
	missing("drop reasons", err)
	defer dropped.close()
	var sampler *sampler
	if q.Functions {
		sampler, err = startSampler(q.Duration)
		missing("kernel functions", err)
		defer sampler.close()
	}
	processes, err := readProcesses()
	missing("processes", err)
	softirqs, err := readSoftIRQs()
	missing("softirqs", err)
	before, err := measure.ReadCPU()
	if err != nil {
		return p, err
	}
	began := time.Now()
	sampler.enable()
	select {
	case <-a.ctx.Done():
		return p, context.Cause(a.ctx)
	case <-time.After(q.Duration):
	}
	sampler.disable()
	took := time.Since(began)
	after, err := measure.ReadCPU()
	if err != nil {
		return p, err
	}
	p.Duration, p.CPU = took.Seconds(), after.Since(before).Cores
	if softirqs != nil {
		now, err := readSoftIRQs()
		missing("softirqs", err)
		p.SoftIRQs = softirqsSince(now, softirqs)
	}
	if processes != nil {
		now, err := readProcesses()
		missing("processes", err)
		p.Processes = processesSince(now, processes)
	}
	if sampler != nil {
		p.Functions, err = sampler.functions(took)
		missing("kernel functions", err)
	}
	p.Drops, err = dropped.read()
	missing("drop reasons", err)
	return p, nil
}

// dropWatch counts the drops of this process's namespace, by reason.
type dropWatch struct {
	watch *losses.Watch
	netns uint32
}

func followDrops() (*dropWatch, error) {
	netns, err := losses.Inode("/proc/self/ns/net")
	if err != nil {
		return nil, err
	}
	watch, err := losses.Open()
	if err != nil {
		return nil, err
	}
	d := &dropWatch{watch, netns}
	if err := watch.Follow(netns, losses.All); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *dropWatch) close() {
	if d != nil {
		_ = d.watch.Close() // programs and maps go with their descriptors
	}
}

func (d *dropWatch) read() (drops []result.Drop, err error) {
	if d == nil {
		return nil, nil
	}
	counts, err := d.watch.Read(d.netns)
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		drops = add(drops, StageReason, "", reason, int64(counts[reason]))
	}
	return drops, err
}

// processTime is what a process has used itself, and what its children had that have ended.
type processTime struct {
	name            string
	parent          int
	ticks, children uint64
	started         uint64 // with the PID, the process: PIDs are used again, and names change
}

// mostRead is how many processes are looked at.
const mostRead = 50_000

// readProcesses reads proc_pid_stat(5) of all processes that this user sees.
func readProcesses() (map[int]processTime, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	all := map[int]processTime{}
	for _, dir := range dirs[:min(len(dirs), mostRead)] {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue // it has ended
		}
		if p, ok := parseProcess(string(data)); ok {
			all[pid] = p
		}
	}
	return all, nil
}

// parseProcess reads a line of "PID (NAME) STATE …", whose name may have blanks and parentheses.
func parseProcess(line string) (p processTime, ok bool) {
	begin, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if begin < 0 || end < begin {
		return p, false
	}
	words := strings.Fields(line[end+1:])
	if len(words) < 20 {
		return p, false
	}
	fields := make([]uint64, 20)
	for _, i := range []int{1, 11, 12, 13, 14, 19} { // ppid, utime, stime, cutime, cstime, starttime
		n, err := strconv.ParseInt(words[i], 10, 64)
		if err != nil {
			return p, false
		}
		fields[i] = uint64(max(0, n))
	}
	p = processTime{
		name: line[begin+1 : end], parent: int(fields[1]), ticks: fields[11] + fields[12], children: fields[13] + fields[14], started: fields[19],
	}
	if strings.HasPrefix(p.name, "kworker/") { // the rest changes with its work
		p.name = "kworker"
	}
	return p, true
}

// ticksPerSecond is the unit of times in /proc, which the kernel fixes for user space.
const ticksPerSecond = 100

// processesSince are the busiest of what ran, those of one name together. The instrument is this agent
// with its children: the time of one that has ended is its parent's. Of others, what ended meanwhile is not seen.
func processesSince(now, then map[int]processTime) (list []result.ProcessTime) {
	byName := map[string]float64{}
	for pid, p := range now {
		before := then[pid]
		if before.started != p.started {
			before = processTime{}
		}
		used, name := p.ticks-min(p.ticks, before.ticks), p.name
		if pid == os.Getpid() {
			used += p.children - min(p.children, before.children)
		}
		if pid == os.Getpid() || p.parent == os.Getpid() {
			name = "instrument"
		}
		if used > 0 {
			byName[name] += float64(used) / ticksPerSecond
		}
	}
	for name, seconds := range byName {
		list = append(list, result.ProcessTime{Name: name, Seconds: seconds})
	}
	slices.SortFunc(list, func(a, b result.ProcessTime) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), mostProcesses)]
}

// softIRQ is a kind on a core.
type softIRQ struct {
	kind string
	core int
}

// readSoftIRQs reads proc_softirqs: a line of cores, then one a kind.
func readSoftIRQs() (map[softIRQ]int64, error) {
	var cores []int
	all := map[softIRQ]int64{}
	err := eachLine("/proc/softirqs", func(words []string) error {
		if cores == nil {
			for _, word := range words {
				core, err := strconv.Atoi(strings.TrimPrefix(word, "CPU"))
				if err != nil {
					return err
				}
				cores = append(cores, core)
			}
			return nil
		}
		for i, word := range words[1:min(len(words), len(cores)+1)] {
			n, err := strconv.ParseInt(word, 10, 64)
			if err != nil {
				return err
			}
			all[softIRQ{strings.TrimSuffix(words[0], ":"), cores[i]}] = n
		}
		return nil
	})
	return all, err
}

func softirqsSince(now, then map[softIRQ]int64) (list []result.SoftIRQCount) {
	for key, n := range now {
		if n -= then[key]; n > 0 {
			list = append(list, result.SoftIRQCount{Kind: key.kind, Core: key.core, Count: n})
		}
	}
	slices.SortFunc(list, func(a, b result.SoftIRQCount) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Core, b.Core))
	})
	return list
}
