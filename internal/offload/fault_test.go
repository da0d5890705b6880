package offload

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/test/tier"
)

// plant has the switch do something to the frames that come from a.
func (w *bench) plant(rule string) {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "fault.nft")
	rules := fmt.Sprintf("table netdev fault {\n chain in {\n type filter hook ingress device \"pa\" priority 0;\n %s\n }\n}\n", rule)
	w.must(os.WriteFile(file, []byte(rules), 0o600))
	_, err := w.m.Output(w.t.Context(), "nft", "-f", file)
	w.must(err)
}

// tunnels matches the frames of probes, large ones those that were not cut before.
const (
	tunnels = "udp dport 4789 "
	large   = tunnels + "meta length > 2000 "
	// damage changes a byte of the inner payload.
	damage = "@th,1600,8 set 0x5a"
)

// TestProbeFindsFaults plants what broken adapters and networks do to the large segments,
// so that as it is the path is wrong, and right when segments are cut before.
func TestProbeFindsFaults(t *testing.T) {
	for name, c := range map[string]struct{ rule, why string }{
		"damage":    {large + damage, "frames arrived damaged"},
		"loss":      {large + "drop", "did not arrive"},
		"duplicate": {large + `dup to "pb"`, "arrived twice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newBench(t, false)
			w.respond(w.path.Local)
			w.plant(c.rule)
			r := w.found()
			if r.Wrong || r.Mode.Name == AsIs || !strings.Contains(r.Why, c.why) {
				t.Errorf("want a mode that cuts segments, because as it is %s", c.why)
			}
			for _, trial := range r.Trials[1:] {
				if fault := trial.Fault(); fault != "" {
					t.Errorf("mode %s cuts segments and is right: %s", trial.Mode.Name, fault)
				}
			}
		})
	}
}

func TestProbeFindsPathThatDamagesEverything(t *testing.T) {
	t.Parallel()
	w := newBench(t, false)
	w.respond(w.path.Local)
	w.plant(tunnels + damage)
	if r := w.found(); !r.Wrong || r.Mode.Name != AsIs || !strings.Contains(r.Why, "damaged") {
		t.Errorf("no mode is right, so nothing is to be changed")
	}
}

// TestProbeFindsSlowMode has a queue of the switch let large segments through at 50 Mbit/s.
// What follows from speeds is TestDecide's: here they are as the machine is busy, and a mode
// is distinguishably faster on a quiet one only.
func TestProbeFindsSlowMode(t *testing.T) {
	w := newBench(t, false)
	w.respond(w.path.Local)
	for _, line := range []string{
		"qdisc add dev pb root handle 1: htb default 20",
		"class add dev pb parent 1: classid 1:10 htb rate 50mbit burst 128k cburst 128k quantum 60000",
		"class add dev pb parent 1: classid 1:20 htb rate 20gbit burst 4m cburst 4m quantum 60000",
	} {
		_, err := w.m.Output(t.Context(), append([]string{"tc"}, strings.Fields(line)...)...)
		w.must(err)
	}
	w.plant(large + "meta priority set 1:10")
	r := w.found()
	most := slices.Max(r.trial(AsIs).Speeds)
	if r.Wrong || most > 60e6 {
		t.Errorf("as it is 50 Mbit/s is all, a burst had %.0f", most/1e6)
	}
	for _, trial := range r.Trials[1:] {
		if fast := slices.Max(trial.Speeds); fast < 2*most {
			t.Errorf("mode %s cuts segments, and its fastest burst had %.0f Mbit/s", trial.Mode.Name, fast/1e6)
		}
	}
	if tier.IsLong() && r.Mode.Name == AsIs {
		t.Errorf("want a mode that cuts segments: as it is 50 Mbit/s is all")
	}
}

func TestProbeUnanswered(t *testing.T) {
	t.Parallel()
	w := newBench(t, false)
	if _, err := w.probe(); err == nil || !strings.Contains(err.Error(), "offloadProbe") {
		t.Errorf("nothing listens there: want an error that says what to configure, got %v", err)
	}
	stranger := netip.MustParseAddr("192.0.2.77")
	r := w.respond(stranger)
	if _, err := w.probe(); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("the responder does not know this edge: want no answer, got %v", err)
	}
	r.Set([]netip.Addr{w.path.Local})
	if !r.turn.mu.TryLock() {
		t.Fatal("nobody has the responder's turn")
	}
	if _, err := w.probe(); !errors.Is(err, ErrBusy) {
		t.Errorf("the responder's edge probes itself: want ErrBusy, got %v", err)
	}
	r.turn.mu.Unlock()
}
