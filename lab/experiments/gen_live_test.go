package experiments_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

type genOutcome struct {
	Sent     gen.Sent
	Received *gen.Report
	Lost     *uint64
}

func readOutcome(t *testing.T, p *program) genOutcome {
	t.Helper()
	var o genOutcome
	if err := json.Unmarshal(p.stdout.Bytes(), &o); err != nil {
		t.Fatalf("%v:\n%s%s", err, &p.stdout, &p.stderr)
	}
	return o
}

// The generator's own loop, of plain and of tunnel frames, leaves nothing behind.
func TestGenLoop(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"", "--encap geneve --family 6 --remote 2001:db8::2 --local 2001:db8::1", "--imix 64:7,594:4,1518:1 --rate 50kpps"} {
		p := start(t, append([]string{"lab", "gen", "-o", "json", "--frames", "5000", "--duration", "10s"}, strings.Fields(args)...)...)
		if code := p.end(); code != 0 {
			t.Fatalf("exit status %d:\n%s", code, &p.stderr)
		}
		p.checkGone()
		o := readOutcome(t, p)
		if o.Sent.Offered != 5000 || o.Received == nil || o.Received.Frames != o.Sent.Frames || *o.Lost != 0 || o.Received.Gaps != 0 {
			t.Errorf("%q: %s", args, &p.stdout)
		}
	}
}

// pair is two hosts of a lab, joined by a link: a0 ----- b0.
func pair(t *testing.T) (a, b *topo.Host) {
	t.Helper()
	tier.Root(t)
	lab, err := topo.New(t.Context(), "gen-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	if a, err = lab.Host("a"); err != nil {
		t.Fatal(err)
	}
	if b, err = lab.Host("b"); err != nil {
		t.Fatal(err)
	}
	if err := lab.Link(t.Context(), topo.LinkEnd{Host: a, Name: "a0"}, topo.LinkEnd{Host: b, Name: "b0"}, 1500); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// frames is how many an interface has taken in.
func frames(t *testing.T, h *topo.Host, name string) (n uint64) {
	t.Helper()
	if err := h.Do(func() error {
		dev, err := netlink.LinkByName(name)
		if err == nil {
			n = dev.Attrs().Statistics.RxPackets
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// awaitFrames waits until an interface has taken in more than before.
func awaitFrames(t *testing.T, h *topo.Host, name string, before uint64) {
	t.Helper()
	err := await.That(t.Context(), "frames at "+name, func() error {
		if n := frames(t, h, name); n <= before {
			return fmt.Errorf("there are %d, as before", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Frames from one interface to another, and a run that is interrupted says what it sent.
func TestGenBetween(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	args := []string{"lab", "gen", "--interface", "a0", "--netns", a.Namespace, "--sink", "b0@" + b.Namespace, "--rate", "20kpps", "-o", "json"}
	p := start(t, append(args, "--frames", "2000")...)
	if code := p.end(); code != 0 {
		t.Fatalf("exit status %d:\n%s", code, &p.stderr)
	}
	if o := readOutcome(t, p); o.Sent.Offered != 2000 || o.Received.Frames != o.Sent.Frames || o.Received.Flows != int(min(1280, o.Sent.Frames)) || *o.Lost != 0 {
		t.Errorf("%s", &p.stdout)
	}
	before := frames(t, b, "b0")
	p = start(t, append(args, "--duration", "1m")...)
	awaitFrames(t, b, "b0", before)
	_ = p.cmd.Process.Signal(os.Interrupt)
	if code := p.end(); code != 1 || !strings.HasSuffix(p.stderr.String(), "selvage: interrupted\n") {
		t.Errorf("exit status %d:\n%s", code, &p.stderr)
	}
	if o := readOutcome(t, p); o.Sent.Frames == 0 || o.Received.Frames != o.Sent.Frames {
		t.Errorf("interrupted: %s", &p.stdout)
	}
	p = start(t, "lab", "gen", "--interface", "nobody", "--netns", a.Namespace, "--dst-mac", "02:00:00:00:00:01")
	if code := p.end(); code != 1 || !strings.Contains(p.stderr.String(), "--interface: interface nobody") {
		t.Errorf("exit status %d:\n%s", code, &p.stderr)
	}
}
