package places

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/turns"
	"github.com/selvage/selvage/test/places"
	"github.com/selvage/selvage/test/tier"
)

const version = "of-the-test"

func TestMain(m *testing.M) {
	measure.RunInstrument(os.Args[1:])
	agent.Run(os.Args[1:], version, nil)
	tier.SideBySide(3)
	os.Exit(m.Run())
}

// command is one as the command line makes it.
func command(testbed *places.Testbed) *Command {
	return &Command{
		Client: place.Place{Kind: place.SSH, Host: "a"}, Server: place.Place{Kind: place.SSH, Host: "b"},
		Path:  []turns.Path{{Name: "underlay", Addr: testbed.B.Underlay}, {Name: "overlay", Addr: testbed.B.Overlay}},
		Flags: turns.Flags{Port: 5300, Slice: 500 * time.Millisecond, MaxTime: time.Minute, Connection: place.Connection{SSH: strings.Join(testbed.SSH, " ")}},
	}
}

// measured is the result of a run, or else what it printed.
func measured(t *testing.T, c *Command, rounds int) (r result.Result, log string) {
	t.Helper()
	if err := c.Check(rounds); err != nil {
		t.Fatal(err)
	}
	var out, errors bytes.Buffer
	err := c.Run(t.Context(), &experiment.Console{Out: &out, Err: &errors, Version: version}, rounds, experiment.Destination{Output: "json", Results: t.TempDir()})
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, errors.String(), places.Picture)
	}
	if c.DryRun {
		return r, out.String()
	}
	if r, err = result.Read(&out); err != nil {
		t.Fatal(err)
	}
	return r, errors.String()
}

// Paths of both families say what they carry, and TCP's segments follow an MTU that is changed by
// turns, and is in the end as it was.
func TestRun(t *testing.T) {
	tier.Slow(t)
	testbed := places.New(t)
	c := command(testbed)
	c.Path = append(c.Path, turns.Path{Name: "six", Addr: testbed.B.Underlay6})
	c.Inner, c.InnerMTU = []Inner{{Client: true, Server: true, Interface: places.Overlay}}, []int{1300}
	r, log := measured(t, c, 1)
	for path, want := range map[string]float64{"underlay": 1500, "overlay": 1450, "six": 1500} {
		for _, w := range waysOf(r, path) {
			if !w.searched || w.least != want || w.best != want || w.believed != want || w.transfers != 1 || w.hole() || w.silent() {
				t.Errorf("%s: %+v\n%s", path, w, log)
			}
		}
	}
	for caseName, want := range map[string]float64{tcp: 1450 - 52, "mtu-1300": 1300 - 52} {
		if row, ok := stats.Find(r.Summary, "overlay", caseName, measure.MSS); !ok || row.Median != want {
			t.Errorf("MSS of %s: %+v", caseName, row)
		}
	}
	if r.Verdict.Refused || !strings.HasPrefix(r.Verdict.String(), "No black hole: underlay carries") {
		t.Error(r.Verdict.String())
	}
	for _, m := range []*places.Machine{testbed.A, testbed.B} {
		if out, err := m.Host.Output(t.Context(), "ip", "-o", "link", "show", places.Overlay); err != nil || !bytes.Contains(out, []byte("mtu 1450")) {
			t.Errorf("%s: %v %s", m.Host.Name, err, out)
		}
	}
}

// Of packets that the server's side drops without a word, TCP stalls to it, and back it does not.
func TestHole(t *testing.T) {
	tier.Slow(t)
	testbed := places.New(t)
	for _, words := range [][]string{
		{"add", "table", "inet", "hole"},
		{"add", "chain", "inet", "hole", "in", "{ type filter hook input priority 0; }"},
		{"add", "rule", "inet", "hole", "in", "iifname", places.Overlay, "meta", "length", ">", "1400", "drop"},
	} {
		if out, err := testbed.B.Host.Output(t.Context(), append([]string{"nft"}, words...)...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	// Segments of a wire's size: the rule sees what was coalesced else.
	if _, err := testbed.A.Host.SetFeatures(places.Overlay, map[string]bool{"tx-tcp-segmentation": false, "tx-generic-segmentation": false}); err != nil {
		t.Fatal(err)
	}
	r, log := measured(t, command(testbed), 1)
	ways := waysOf(r, "overlay")
	if !ways[0].hole() || !ways[0].silent() || ways[0].least != 1400 || ways[1].hole() {
		t.Errorf("%+v\n%s", ways, log)
	}
	if !strings.HasPrefix(r.Verdict.String(), "An MTU black hole: over overlay, client to server, 1 of 1 transfers stall with an MSS of 1,398 bytes, as 1,400 bytes arrive where the sender believes in 1,450 and no ICMP error tells it") {
		t.Error(r.Verdict.String())
	}
	if !slices.ContainsFunc(r.Verdict.Findings, func(f result.Finding) bool { return strings.Contains(f.Text, "maxseg size set 1360") }) {
		t.Errorf("%+v", r.Verdict.Findings)
	}
}

func TestDryRun(t *testing.T) {
	testbed := places.New(t)
	c := command(testbed)
	c.DryRun, c.Inner, c.InnerMTU = true, []Inner{{Server: true, Interface: places.Overlay}}, []int{1300}
	if _, out := measured(t, c, 1); !strings.Contains(out, "ssh:b: would set x0:mtu=1300 (is 1450)") {
		t.Error(out)
	}
}

// The interface that carries the SSH session is refused, before anything is measured.
func TestCarrier(t *testing.T) {
	testbed := places.New(t)
	c := command(testbed)
	c.Inner, c.InnerMTU = []Inner{{Client: true, Interface: places.Management}}, []int{1300}
	var out bytes.Buffer
	err := c.Run(t.Context(), &experiment.Console{Out: &out, Err: &out, Version: version}, 1, experiment.Destination{Output: "table", Results: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "carries this SSH session") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
