package measure

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/result"
)

// userHZ is the tick of /proc/stat, which the kernel fixes for user space.
const userHZ = 100

// CPU is where the machine's time went between two looks.
type CPU struct {
	Cores []result.CPUShare
	// Busy is CPU seconds of all cores that were neither idle nor stolen.
	Busy float64
	// Steal is the share of all cores' time that the hypervisor gave to others.
	Steal float64
}

// ticks are one core's of proc_stat(5), in its order.
type ticks struct {
	user, nice, system, idle, iowait, irq, softirq, steal uint64
}

// CPUClock is a look at /proc/stat.
type CPUClock map[int]ticks

// ReadCPU looks at the clocks of all cores. The figures have 10 ms ticks, or
// better where the kernel accounts by virtual time.
func ReadCPU() (CPUClock, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return nil, fmt.Errorf("CPU time: %w", err)
	}
	return ParseCPU(data)
}

// ParseCPU reads what /proc/stat holds, of this or another machine.
func ParseCPU(data []byte) (CPUClock, error) {
	clock := CPUClock{}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 9 || !strings.HasPrefix(fields[0], "cpu") || fields[0] == "cpu" {
			continue
		}
		core, err := strconv.Atoi(fields[0][len("cpu"):])
		if err != nil {
			return nil, fmt.Errorf("/proc/stat: core %q: %w", fields[0], err)
		}
		var t ticks
		for i, to := range []*uint64{&t.user, &t.nice, &t.system, &t.idle, &t.iowait, &t.irq, &t.softirq, &t.steal} {
			if *to, err = strconv.ParseUint(fields[i+1], 10, 64); err != nil {
				return nil, fmt.Errorf("/proc/stat: %s: %w", fields[0], err)
			}
		}
		clock[core] = t
	}
	if len(clock) == 0 {
		return nil, errors.New("/proc/stat names no core")
	}
	return clock, nil
}

// Since returns what happened after an earlier look.
func (now CPUClock) Since(then CPUClock) CPU {
	var all CPU
	var stolen, total float64
	for core := 0; len(all.Cores) < len(now); core++ {
		b, ok := now[core]
		if !ok {
			if core > 1<<16 {
				break
			}
			continue
		}
		a := then[core]
		share := result.CPUShare{
			Core:    core,
			User:    diff(b.user+b.nice, a.user+a.nice),
			System:  diff(b.system, a.system),
			SoftIRQ: diff(b.softirq+b.irq, a.softirq+a.irq),
			Idle:    diff(b.idle+b.iowait, a.idle+a.iowait),
		}
		steal := diff(b.steal, a.steal)
		busy := share.User + share.System + share.SoftIRQ
		sum := busy + share.Idle + steal
		all.Busy += busy / userHZ
		stolen, total = stolen+steal, total+sum
		if sum > 0 {
			share.User, share.System, share.SoftIRQ, share.Idle = share.User/sum, share.System/sum, share.SoftIRQ/sum, share.Idle/sum
		}
		all.Cores = append(all.Cores, share)
	}
	if total > 0 {
		all.Steal = stolen / total
	}
	return all
}

// diff is 0 where a counter went back, as idle and iowait may.
func diff(now, then uint64) float64 {
	if now < then {
		return 0
	}
	return float64(now - then)
}
