package compare

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/result"
)

// Difference is a field of two results that has to be equal before their figures are compared.
type Difference struct {
	// Field is a name of Allowable, with dots before what is below it: offloads.underlay.tx-…
	Field string `json:"field"`
	Old   string `json:"old"`
	New   string `json:"new"`
}

// String is the difference in words.
func (d Difference) String() string { return fmt.Sprintf("%s: %s, then %s", d.Field, d.Old, d.New) }

// Allowable are the fields that may differ where the user says so.
func Allowable() []string {
	return []string{"kernel", "cpu", "cores", "memory", "adapters", "versions", "offloads", "mtu", "sysctls", "parameters", "targets"}
}

// machine are the fields that make two machines: figures are not compared across them, only ratios.
func machine() []string { return []string{"cpu", "cores", "memory"} }

// memoryTolerance is the share by which the memory of one machine differs from boot to boot, as the
// kernel keeps more or less of it.
const memoryTolerance = 0.05

// absent is the value of a field that one result lacks.
const absent = "not recorded"

// Differences are the fields in which two results differ and that bear on their figures.
func Differences(old, latest result.Result) []Difference {
	a, b := fields(old), fields(latest)
	if x, y := float64(old.Environment.MemoryBytes), float64(latest.Environment.MemoryBytes); math.Abs(x-y) <= memoryTolerance*max(x, y) {
		delete(a, "memory")
		delete(b, "memory")
	}
	names := slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b)))
	slices.Sort(names)
	all := differencesOfPlaces(old, latest)
	for _, name := range slices.Compact(names) {
		was, okA := a[name]
		is, okB := b[name]
		switch top := topOf(name); {
		case was == is:
			continue
		case top == "targets" && (!okA || !okB): // a target of one alone is not compared
			continue
		case !okA:
			was = absent
		case !okB:
			is = absent
		}
		all = append(all, Difference{name, was, is})
	}
	slices.SortStableFunc(all, func(x, y Difference) int { return order(x.Field) - order(y.Field) })
	return all
}

// order is where a field stands: as in Allowable, what cannot be allowed first.
func order(field string) int { return slices.Index(Allowable(), topOf(field)) }

// topOf is the name of Allowable that a field is below.
func topOf(field string) string {
	top, _, _ := strings.Cut(field, ".")
	return top
}

// fields are what has to be equal, by name.
func fields(r result.Result) map[string]string {
	e := r.Environment
	all := map[string]string{"experiment": r.Experiment}
	if len(r.Places) == 0 { // whose hosts are compared as such
		all["kernel"], all["cpu"], all["cores"] = e.Kernel, e.CPU, strconv.Itoa(e.Cores)
		all["memory"] = fmt.Sprintf("%.1f GiB", float64(e.MemoryBytes)/(1<<30))
	}
	add := func(under string, values map[string]string) {
		for name, value := range values {
			all[under+"."+name] = value
		}
	}
	add("versions", e.Versions)
	add("sysctls", e.Sysctls)
	add("parameters", Parameters(r))
	for role, features := range e.Offloads {
		for feature, on := range features {
			all["offloads."+role+"."+feature] = map[bool]string{true: "on", false: "off"}[on]
		}
	}
	for name, mtu := range e.MTU {
		all["mtu."+name] = strconv.Itoa(mtu)
	}
	for _, t := range r.Targets {
		all["targets."+t.Name+".description"] = t.Description
		all["targets."+t.Name+".inner_mtu"] = strconv.Itoa(t.InnerMTU)
	}
	return all
}

// Parameters are the parameters that bear on figures: not how many rounds there were, where the
// run was interrupted, where programs are, what was measured before the run (the machine's load, the
// generator's ceiling), nor what hosts said of themselves and of their clocks, nor which addresses a
// target saw.
func Parameters(r result.Result) map[string]string {
	all := map[string]string{}
	for name, value := range r.Parameters {
		incidental := slices.Contains([]string{"rounds", "kills", "interrupted", "selvage_binary"}, name)
		for _, prefix := range []string{"ceiling", "check_", "program_", "client ", "server ", "watch ", "firewall ", "node ", "gateway ", "target ", "source_", "gateway_error_"} {
			incidental = incidental || strings.HasPrefix(name, prefix)
		}
		if !incidental {
			all[name] = value.String()
		}
	}
	return all
}

// Incomparable is the error of results that differ in what was not allowed to.
type Incomparable struct{ Differences []Difference }

// ExitStatus is that of a program that was to compare them.
const ExitStatus = 4

// ExitCode is ExitStatus, for kong.
func (e Incomparable) ExitCode() int { return ExitStatus }

// Error lists the fields with both values, and what would compare them all the same.
func (e Incomparable) Error() string {
	lines := []string{"the runs are not comparable:"}
	var allow []string
	for _, d := range e.Differences {
		lines = append(lines, "  "+d.String())
		if top := topOf(d.Field); order(top) >= 0 && !slices.Contains(allow, top) {
			allow = append(allow, top)
		}
	}
	if e.Differences[0].Field == "experiment" {
		return strings.Join(append(lines, "figures of different experiments are never compared"), "\n")
	}
	return strings.Join(append(lines, "if what differs is what you compare: --allow "+strings.Join(allow, ",")), "\n")
}

// check divides the differences into those that are allowed and an error of the others.
func check(old, latest result.Result, allow []string) ([]Difference, error) {
	for i, name := range allow {
		if name == "version" {
			allow[i] = "versions"
		}
		if order(allow[i]) < 0 {
			return nil, fmt.Errorf("--allow %s: no such field; choose from %s, or one below them such as versions.selvage", name, strings.Join(Allowable(), ", "))
		}
	}
	var allowed, others []Difference
	for _, d := range Differences(old, latest) {
		if slices.ContainsFunc(allow, func(name string) bool { return d.Field == name || strings.HasPrefix(d.Field, name+".") }) {
			allowed = append(allowed, d)
		} else {
			others = append(others, d)
		}
	}
	if len(others) > 0 {
		return nil, Incomparable{others}
	}
	return allowed, nil
}
