package experiment

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
)

// Parameters that say how the machine was before the run.
const (
	CheckGovernor = "check_governor"
	CheckTurbo    = "check_turbo" // true, false, or NotVisible
	CheckSMT      = "check_smt"   // the same
)

// NotVisible is what a check says of what the machine does not show, as virtual ones often
// do not: its host decides then.
const NotVisible = "not visible"

// restTime is how long the machine is watched before the run.
const restTime = time.Second

// NoteMachine writes down in r what CheckMachine finds, and tells its warnings.
func NoteMachine(ctx context.Context, r *result.Result, p *Progress) error {
	checks, warnings, err := CheckMachine(ctx)
	if err != nil {
		return err
	}
	maps.Copy(r.Parameters, checks)
	for _, warning := range warnings {
		p.Note("%s", warning)
	}
	return nil
}

// CheckMachine looks for what makes latency noisy, as the NSX firewall study did before it measured:
// power saving and other load. It changes nothing.
func CheckMachine(ctx context.Context) (checks result.Parameters, warnings []string, err error) {
	const cpu = "/sys/devices/system/cpu/"
	checks = result.Parameters{
		CheckGovernor:       result.Words(values(cpu + "cpu[0-9]*/cpufreq/scaling_governor")),
		CheckTurbo:          turbo(values(cpu+"intel_pstate/no_turbo"), values(cpu+"cpufreq/boost")),
		"check_idle_states": idleStates(cpu + "cpu0/cpuidle"),
		"check_idle_driver": result.Words(values(cpu + "cpuidle/current_driver")),
		CheckSMT:            oneIs(true, values(cpu+"smt/active")),
		"check_clock":       result.Words(values("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
	}
	if governor := checks.Text(CheckGovernor); governor != NotVisible && governor != "performance" {
		warnings = append(warnings, "power saving: governor "+governor+"; for quiet figures: cpupower frequency-set -g performance")
	}
	if deep := deepStates(cpu + "cpu0/cpuidle"); len(deep) > 0 {
		warnings = append(warnings, "power saving: idle states "+strings.Join(deep, ", ")+" take longer to leave than 20 µs; for quiet figures: cpupower idle-set -D 20")
	}
	before, err := measure.ReadCPU()
	if err != nil {
		return nil, nil, err
	}
	busy, err := Settle(ctx, restTime)
	if err != nil {
		return nil, nil, err
	}
	after, err := measure.ReadCPU()
	if err != nil {
		return nil, nil, err
	}
	steal := after.Since(before).Steal
	checks["check_busy"] = percent(busy).Explained("of all cores' time, in %s of rest", restTime)
	checks["check_stolen"] = percent(steal).Explained("of all cores' time, in the same rest")
	if busy > BusyLimit || steal > 0.05 {
		warnings = append(warnings, fmt.Sprintf("noise: in %s of rest the cores were %.1f %% busy, and %.1f %% were stolen", restTime, 100*busy, 100*steal))
	}
	return checks, warnings, nil
}

// values are the different contents of files.
func values(pattern string) string {
	files, _ := filepath.Glob(pattern) // the patterns are ours
	var all []string
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil {
			all = append(all, strings.TrimSpace(string(data)))
		}
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) == 0 {
		return NotVisible
	}
	return strings.Join(all, ", ")
}

// turbo reads either driver's switch.
func turbo(disabled, boost string) result.Parameter {
	if disabled != NotVisible {
		return oneIs(false, disabled)
	}
	return oneIs(true, boost)
}

// oneIs is what a file says that holds 1 or 0, or its words.
func oneIs(on bool, content string) result.Parameter {
	switch content {
	case "1":
		return result.Of(result.Bool(on))
	case "0":
		return result.Of(result.Bool(!on))
	}
	return result.Words(content)
}

// percent is a share in percent with one decimal.
func percent(share float64) result.Parameter {
	return result.Of(result.Number(math.Round(1000*share) / 10)).In("%")
}

// idleStates lists the states of a core in which it sleeps, with the time to leave them.
func idleStates(dir string) result.Parameter {
	var all result.Texts
	for _, s := range readIdleStates(dir) {
		all = append(all, fmt.Sprintf("%s %d µs", s.name, s.exit))
	}
	if len(all) == 0 {
		return result.Words(NotVisible)
	}
	return result.Of(all)
}

// deepExit is the longest time (µs) to leave an idle state that does not spoil latencies of
// some tens of µs.
const deepExit = 20

func deepStates(dir string) []string {
	var deep []string
	for _, s := range readIdleStates(dir) {
		if s.exit > deepExit && !s.off {
			deep = append(deep, fmt.Sprintf("%s (%d µs)", s.name, s.exit))
		}
	}
	return deep
}

type idleState struct {
	name string
	exit int // µs
	off  bool
}

func readIdleStates(dir string) []idleState {
	names, _ := filepath.Glob(dir + "/state[0-9]*/name")
	var all []idleState
	for _, file := range names {
		state := filepath.Dir(file)
		exit, err := strconv.Atoi(values(state + "/latency"))
		if err != nil {
			continue
		}
		all = append(all, idleState{values(file), exit, values(state+"/disable") == "1"})
	}
	return all
}
