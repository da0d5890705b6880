package offload

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/host"
)

// trialOf is a sound one of a mode with bursts of so many Gbit/s.
func trialOf(mode string, gigabits ...float64) Trial {
	t := Trial{Mode: Mode{Name: mode}, Sent: 1000}
	if mode != AsIs {
		t.Mode.Changes = []Change{{tunnelSegmentation, false}}
	}
	for _, g := range gigabits {
		t.Speeds = append(t.Speeds, g*1e9)
	}
	return t
}

func with(t Trial, change func(*Trial)) Trial {
	change(&t)
	return t
}

func TestDecide(t *testing.T) {
	damaged := func(t *Trial) { t.Corrupt = 3 }
	lossy := func(t *Trial) { t.Missing = 11 }
	slow, fast := []float64{2, 2.1, 1.9}, []float64{8, 8.1, 7.9}
	for name, c := range map[string]struct {
		trials []Trial
		mode   string
		why    string
		wrong  bool
	}{
		"as it is is fastest": {[]Trial{trialOf(AsIs, fast...), trialOf(None, slow...)}, AsIs, "none is slower, 2 Gbit/s", false},
		"another is faster":   {[]Trial{trialOf(AsIs, slow...), trialOf(None, fast...)}, None, "8 Gbit/s instead of 2 Gbit/s", false},
		"within the noise":    {[]Trial{trialOf(AsIs, 2, 8, 3), trialOf(None, 7, 9, 10)}, AsIs, "not distinguishably", false},
		"hardly faster":       {[]Trial{trialOf(AsIs, 8, 8, 8), trialOf(None, 8.1, 8.2, 8.3)}, AsIs, "not distinguishably", false},
		"the fast one is wrong": {
			[]Trial{trialOf(AsIs, slow...), with(trialOf(NoChecksum, fast...), damaged)}, AsIs, "no-checksum is wrong: 3 frames arrived damaged", false,
		},
		"as it is is wrong": {
			[]Trial{with(trialOf(AsIs, fast...), damaged), trialOf(None, slow...)}, None, "as it is 3 frames arrived damaged", false,
		},
		"equals behind a wrong one": {
			[]Trial{with(trialOf(AsIs, fast...), lossy), trialOf(NoTunnelSegmentation, 2, 3, 4), trialOf(NoChecksum, 3, 4, 5)},
			NoTunnelSegmentation, "11 of 1000 packets did not arrive", false,
		},
		"a little loss": {
			[]Trial{with(trialOf(AsIs, fast...), func(t *Trial) { t.Missing, t.Duplicates = 10, 10 }), trialOf(None, slow...)}, AsIs, "right at", false,
		},
		"duplicates": {
			[]Trial{with(trialOf(AsIs, fast...), func(t *Trial) { t.Duplicates = 11 }), trialOf(None, slow...)}, None, "twice", false,
		},
		"all are wrong": {
			[]Trial{with(trialOf(AsIs, fast...), lossy), with(trialOf(None, slow...), damaged)}, AsIs, "no other mode is right", true,
		},
		"there is but one":            {[]Trial{trialOf(AsIs, slow...)}, AsIs, "can be changed", false},
		"there is but one, and wrong": {[]Trial{with(trialOf(AsIs, slow...), damaged)}, AsIs, "can be changed", true},
		"never timed":                 {[]Trial{trialOf(AsIs), trialOf(None, slow...)}, None, "not timed", false},
	} {
		t.Run(name, func(t *testing.T) {
			mode, why, wrong := Decide(c.trials)
			if mode.Name != c.mode || wrong != c.wrong || !strings.Contains(why, c.why) {
				t.Errorf("chose %s (wrong: %v): %s\nwant %s (wrong: %v): … %s …", mode.Name, wrong, why, c.mode, c.wrong, c.why)
			}
		})
	}
}

// resultOf has trials of modes that are all right but those of wrong.
func resultOf(advice string, wrong ...string) Result {
	r := Result{Mode: Mode{Name: advice}}
	for _, name := range order {
		trial := trialOf(name, 1)
		for _, w := range wrong {
			if w == name {
				trial.Corrupt = 1
			}
		}
		r.Trials = append(r.Trials, trial)
	}
	return r
}

func TestUnite(t *testing.T) {
	nowhere := resultOf(AsIs, order...)
	nowhere.Wrong = true
	for name, c := range map[string]struct {
		results []Result
		mode    string
	}{
		"none":                      {nil, AsIs},
		"agreed":                    {[]Result{resultOf(None), resultOf(None)}, None},
		"most":                      {[]Result{resultOf(AsIs), resultOf(None), resultOf(None)}, None},
		"a draw":                    {[]Result{resultOf(None), resultOf(NoChecksum)}, NoChecksum},
		"most want what breaks one": {[]Result{resultOf(AsIs), resultOf(AsIs), resultOf(None, AsIs)}, None},
		"each breaks the other":     {[]Result{resultOf(NoChecksum, None), resultOf(None, NoChecksum)}, AsIs},
		"a path where nothing is":   {[]Result{nowhere, resultOf(None)}, None},
	} {
		if got := Unite(c.results).Name; got != c.mode {
			t.Errorf("%s: %s, want %s", name, got, c.mode)
		}
	}
}

func TestModes(t *testing.T) {
	on, off, fixed := host.Feature{On: true}, host.Feature{}, host.Feature{On: true, Fixed: true}
	names := func(features map[string]host.Feature) (list []string) {
		for _, m := range Modes(features) {
			list = append(list, m.Name)
		}
		return list
	}
	for name, c := range map[string]struct {
		features map[string]host.Feature
		want     string
	}{
		"all on":            {map[string]host.Feature{tunnelSegmentation: on, checksums[0]: on}, "as-is no-tunnel-segmentation no-checksum none"},
		"all off":           {map[string]host.Feature{tunnelSegmentation: off, checksums[0]: off}, "as-is all no-tunnel-segmentation no-checksum"},
		"mixed":             {map[string]host.Feature{tunnelSegmentation: on, tunnelSumSegmentation: off}, "as-is all no-tunnel-segmentation"},
		"checksums fixed":   {map[string]host.Feature{tunnelSegmentation: on, checksums[0]: fixed}, "as-is no-tunnel-segmentation"},
		"nothing to change": {map[string]host.Feature{"tx-scatter-gather": on}, "as-is"},
	} {
		if got := strings.Join(names(c.features), " "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
