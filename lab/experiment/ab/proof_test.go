package ab

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/plant"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/lab/transit"
	"github.com/selvage/selvage/test/tier"
)

var (
	proof          = flag.Bool("proof", false, "run TestProof, which wants the machine for itself for up to two hours")
	proofWindows   = flag.Int("proof-windows", 40, "windows of the recording, each as long as a run")
	proofRecording = flag.String("proof-recording", "", "a file to read the recording from, or to write it to if there is none")
)

// Targets of the proof: two equal builds, and a third that is harmed.
const (
	same, again, harmed = "same", "again", "harmed"
	// planted is what the harm costs a row's figure, and lossOneOf the share of UDP packets that
	// is dropped.
	planted   = 0.03
	lossOneOf = 10_000
)

// proofRow is a figure that the proof judges.
type proofRow struct {
	caseName, metric string
	higher           bool
}

func proofRows() []proofRow {
	return []proofRow{
		{stats.DecisiveCase, stats.Decisive, true}, {"tcp", measure.CPUPerGB, false}, {"rr-1", measure.RRP50, false},
		{"udp", measure.UDPRate, true}, {TransitEncap, transit.NDR, true},
	}
}

// TestProof records equal builds and a harmed one, and cuts the recording into windows. Equal
// builds show no difference in 95 % of them, in each row; 3 % are found in 90 %, and so
// is a loss of 1 in 10,000. (With neighbours, docs/reference/experiments.md says, bulk transfers miss that.)
func TestProof(t *testing.T) {
	if !*proof {
		t.Skip("part of make test-long, by itself: TestSlicedComparisonIsHonest draws the same from a model")
	}
	tier.Root(t)
	r := recorded(t)
	windows := Windows(r, new(proofRun).rounds())
	if len(windows) != *proofWindows {
		t.Fatalf("%d windows, want %d", len(windows), *proofWindows)
	}
	whole := summarise(r)
	t.Logf("%-12s %-16s %9s %9s %9s %8s %8s", "row", "", "equal", "planted", "measured", "sees", "n")
	for _, row := range proofRows() {
		equal, found, sees := 0, 0, []float64{}
		for _, w := range windows {
			if of(t, w.Summary, again, row).Distinguishable {
				equal++
			}
			if stats.ChangeOf(of(t, w.Summary, harmed, row), row.higher) == stats.Worse {
				found++
			}
			sees = append(sees, of(t, w.Summary, again, row).SmallestEffect)
		}
		all := of(t, whole, harmed, row)
		t.Logf("%-12s %-16s %6d/%d %6d/%d %8.4f× %7.2f%% %8d", row.caseName, row.metric, len(windows)-equal, len(windows), found, len(windows),
			all.Ratio, 100*stats.Median(sees).Median, all.N)
		if 20*equal > len(windows) {
			t.Errorf("%s %s: equal builds differ in %d of %d windows", row.caseName, row.metric, equal, len(windows))
		}
		if 10*found < 9*len(windows) {
			t.Errorf("%s %s: a planted %.0f %% (measured: %.4f ×) is found in %d of %d windows", row.caseName, row.metric, 100*planted, all.Ratio, found, len(windows))
		}
	}
	checkLoss(t, windows)
}

// checkLoss looks for the loss, which is too little for a rate.
func checkLoss(t *testing.T, windows []result.Result) {
	t.Helper()
	row := proofRow{"udp", measure.UDPLossPPM, false}
	equal, found := 0, 0
	for _, w := range windows {
		if of(t, w.Summary, again, row).Distinguishable {
			equal++
		}
		if stats.ChangeOf(of(t, w.Summary, harmed, row), false) == stats.Worse {
			found++
		}
	}
	t.Logf("a loss of 1 in %d: %d of %d windows see it, %d of the equal builds'", lossOneOf, found, len(windows), equal)
	if 10*found < 9*len(windows) || 20*equal > len(windows) {
		t.Errorf("a loss of 1 in %d is seen in %d of %d windows, one of equal builds in %d", lossOneOf, found, len(windows), equal)
	}
}

func of(t *testing.T, rows []result.Row, target string, row proofRow) result.Row {
	t.Helper()
	found, ok := stats.Find(rows, target, row.caseName, row.metric)
	if !ok {
		t.Fatalf("no row %s %s of %s", row.caseName, row.metric, target)
	}
	return found
}

// recorded reads the recording, or makes it.
func recorded(t *testing.T) result.Result {
	t.Helper()
	if *proofRecording != "" {
		switch r, err := result.ReadFile(*proofRecording); {
		case err == nil:
			return r
		case !errors.Is(err, os.ErrNotExist):
			t.Fatal(err)
		}
	}
	t.Setenv("SELVAGE_TEST_PROGRAM", t.Name()) // so this binary is the edges' program
	run := proofRun{t: t}
	harm := run.calibrate()
	t.Logf("harm for %.0f %%: %+v", 100*planted, harm)
	harm.OneOf = lossOneOf
	r := run.record(harm, *proofWindows*run.rounds())
	if lines := stats.Errors(r); len(lines) > 0 {
		t.Fatalf("%d samples failed; the first: %s", len(lines), lines[0])
	}
	if *proofRecording != "" {
		f, err := os.Create(*proofRecording)
		if err == nil {
			err = errors.Join(result.Write(f, r), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// proofHarm is a harm's size: turns of a loop by packet.
type proofHarm struct {
	plant.Harm
	transit uint32
}

type proofRun struct{ t *testing.T }

// rounds are those of a run of the default length.
func (proofRun) rounds() int { return defaultAb().Rounds }

func defaultAb() *Command {
	c := new(commands)
	if err := experimenttest.Parse(c, "ab", "--targets=plain"); err != nil {
		panic(err)
	}
	return &c.Ab
}

// calibrate measures what about ten times the harm costs, and makes a tenth of it: the time that
// a packet takes grows with the loop.
func (p proofRun) calibrate() proofHarm {
	p.t.Helper()
	const rounds = 8
	guess := proofHarm{Harm: plant.Harm{UDP: 250, SmallTCP: 400, BulkTCP: 1200}, transit: 300}
	r := p.record(guess, rounds)
	scaled := func(turns uint32, row proofRow) uint32 {
		longer := of(p.t, summarise(r), harmed, row).Ratio
		if row.higher {
			longer = 1 / longer
		}
		p.t.Logf("%d turns make %s %s %.1f %% longer", turns, row.caseName, row.metric, 100*(longer-1))
		if longer < 1+planted {
			p.t.Fatalf("the calibration of %s found no harm to scale: another program runs on this machine, or it is too noisy", row.metric)
		}
		return uint32(math.Round(float64(turns) * planted / (longer - 1)))
	}
	rows := proofRows()
	return proofHarm{transit: scaled(guess.transit, rows[4]), Harm: plant.Harm{
		BulkTCP: scaled(guess.BulkTCP, rows[0]), SmallTCP: scaled(guess.SmallTCP, rows[2]), UDP: scaled(guess.UDP, rows[3]),
	}}
}

// record measures so many rounds of equal builds and one that is harmed.
func (p proofRun) record(harm proofHarm, rounds int) result.Result {
	p.t.Helper()
	own, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	c := new(commands)
	err = experimenttest.Parse(c, "ab", "--targets", strings.Join([]string{same + "=" + own, again + "=" + own, harmed + "=" + own}, ","),
		"--cases", "tcp,rr,udp,transit", "--rounds", fmt.Sprint(rounds))
	if err != nil {
		p.t.Fatal(err)
	}
	ab := &c.Ab
	for _, row := range proofRows() {
		ab.only = append(ab.only, row.caseName)
	}
	var plants []*plant.Plant
	defer func() {
		for _, planted := range plants {
			_ = planted.Close() // its interface is gone
		}
	}()
	ab.harm = func(s *stand) error {
		if s.target != harmed {
			return nil
		}
		s.turns = harm.transit
		for _, host := range []*topo.Host{s.net.Net.Client, s.net.Net.Server} {
			planted, err := plantAt(host, harm.Harm)
			if err != nil {
				return err
			}
			plants = append(plants, planted)
		}
		return nil
	}
	console := &experiment.Console{Out: io.Discard, Err: io.Discard, Version: "proof"}
	if testing.Verbose() {
		console.Err = os.Stderr
	}
	r, err := ab.measure(p.t.Context(), console, time.Now())
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

func plantAt(host *topo.Host, harm plant.Harm) (planted *plant.Plant, err error) {
	index, err := host.Index(topo.EndName)
	if err != nil {
		return nil, err
	}
	err = host.Do(func() (err error) {
		planted, err = plant.At(index, harm)
		return err
	})
	return planted, err
}

// What the proof judges is what the experiment reports.
func TestProofRowsAreMetrics(t *testing.T) {
	for _, row := range append(proofRows(), proofRow{"udp", measure.UDPLossPPM, false}) {
		if !slices.ContainsFunc(Metrics(), func(m stats.Metric) bool {
			return m.Case == row.caseName && m.Name == row.metric && m.Higher == row.higher
		}) {
			t.Errorf("%+v is no metric of the A/B experiment", row)
		}
	}
}
