// Package doctor examines a host for what breaks or slows an overlay, whoever
// runs it: Selvage, Open vSwitch or the kernel's own tunnel devices.
//
// Its one invariant: it changes nothing, and says nothing of what it could not
// read but that. It has two halves: Read takes an inventory, which is plain
// data, and Diagnose, which is pure, draws findings from it. Do not use it to
// watch a host: it looks once.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/internal/doctor/fix"
)

// Severity says how much a finding matters.
type Severity string

// The severities, the worst first.
const (
	Fault   Severity = "fault"   // packets are lost
	Warning Severity = "warning" // throughput or latency is lost, or packets will be
	Note    Severity = "note"    // worth knowing; whether it costs depends on the use
	OK      Severity = "ok"      // examined and good
)

func (s Severity) rank() int {
	return slices.Index([]Severity{Fault, Warning, Note, OK}, s)
}

// Finding is one thing that was examined. One that is ok has no more than its
// first four fields.
type Finding struct {
	Check    string   `json:"check"` // "mtu", "offloads", …
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject"` // interfaces, a tunnel, or "host"
	What     string   `json:"what"`
	Evidence string   `json:"evidence,omitempty"` // what was read, and where
	Why      string   `json:"why,omitempty"`      // with a number and its source
	Change   []string `json:"change,omitempty"`   // commands; none when nothing can be set
	Or       []string `json:"or,omitempty"`       // other commands, instead of those of Change
	// Fixes are those of the commands that leave no choice, with their way back.
	Fixes   []fix.Fix `json:"fixes,omitempty"`
	Measure []string  `json:"measure,omitempty"` // commands that show the effect
}

// Title is what a finding is about.
func (f Finding) Title() string { return f.Check + ", " + f.Subject }

// Alike says whether two findings, of two hosts, are one for a reader: what they say, but for counters, and the commands.
func (f Finding) Alike(o Finding) bool {
	return f.Title() == o.Title() && f.Severity == o.Severity && slices.Equal(f.Change, o.Change) && (f.What == o.What || f.Check == "softnet")
}

// fix adds a change that a script can make and undo.
func (f *Finding) fix(x fix.Fix) {
	f.Fixes = append(f.Fixes, x)
	f.Change = append(f.Change, x.Do.String())
}

// either adds commands that do instead of Change, if that has any.
func (f *Finding) either(or []string) {
	if len(f.Change) == 0 {
		f.Change = or
		return
	}
	f.Or = or
}

// Report is the answer of the doctor. Findings are ordered by severity.
type Report struct {
	Findings  []Finding `json:"findings"`
	Unknown   []Unknown `json:"unknown"`
	Inventory Inventory `json:"inventory"`
}

// Options choose what is examined.
type Options struct {
	// Interface restricts the examination to one interface and the tunnels over
	// it; empty is the whole host.
	Interface string
	// RuntimeDir is where Selvage's edges have their sockets.
	RuntimeDir string
}

// UnknownInterfaceError says that there is no such interface.
type UnknownInterfaceError struct {
	Name string
	Have []string
}

func (e *UnknownInterfaceError) Error() string {
	return fmt.Sprintf("there is no interface %q here; there are: %s", e.Name, strings.Join(e.Have, ", "))
}

// patience bounds an examination. Each source has a smaller bound of its own.
const patience = 30 * time.Second

// Examine reads this host and says what it finds.
func Examine(ctx context.Context, o Options) (r Report, err error) {
	err = read(ctx, o, func(_ Sources, inv Inventory) error {
		r = Diagnose(inv)
		return nil
	})
	return r, err
}

// Examination is what was found at a host, and the facts by which it is compared with others.
type Examination struct {
	Report Report     `json:"report"`
	Facts  facts.Host `json:"facts"`
}

// ExamineHost reads this host, says what it finds, and describes it.
func ExamineHost(ctx context.Context, o Options) (e Examination, err error) {
	err = read(ctx, o, func(s Sources, inv Inventory) (err error) {
		e.Report = Diagnose(inv)
		e.Facts, err = Describe(s, inv)
		return err
	})
	return e, err
}

// read takes an inventory of this host and hands it over with its sources, which are closed then.
func read(ctx context.Context, o Options, use func(Sources, Inventory) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sources, err := open(o.RuntimeDir)
	if err != nil {
		return err
	}
	defer sources.close()
	inventory, err := Read(ctx, sources.Sources, o.Interface)
	if err != nil {
		return err
	}
	return use(sources.Sources, inventory)
}

// check looks at one concern of an inventory.
type check func(*Inventory) []Finding

// checks are all concerns, in the order of the report within a severity.
func checks() []check {
	return []check{
		checkRemotes, checkMTU, checkPorts, checkHeadroom, checkShaping, checkOffloads, checkJoining, checkChecksums, checkUDPPorts,
		checkEntropy, checkHashing, checkQueues, checkInterrupts, checkRings, checkPause, checkDrops, checkSoftnet,
		checkEdges, checkOthers, checkPods, checkThreads, checkGovernor, checkLocality, checkBonds, checkPCIe, checkCapacity,
	}
}

// Diagnose draws findings from an inventory.
func Diagnose(inventory Inventory) Report {
	report := Report{Findings: []Finding{}, Unknown: inventory.Unknown, Inventory: inventory}
	for _, c := range checks() {
		report.Findings = append(report.Findings, c(&inventory)...)
	}
	slices.SortStableFunc(report.Findings, func(a, b Finding) int { return cmp.Compare(a.Severity.rank(), b.Severity.rank()) })
	if report.Unknown == nil {
		report.Unknown = []Unknown{}
	}
	return report
}

// good is a finding of something that is as it should be.
func good(check, subject, format string, args ...any) Finding {
	return Finding{Check: check, Severity: OK, Subject: subject, What: fmt.Sprintf(format, args...)}
}
