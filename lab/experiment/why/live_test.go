package why

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/turns"
	"github.com/selvage/selvage/test/places"
	"github.com/selvage/selvage/test/tier"
)

const version = "of-the-test"

func TestMain(m *testing.M) {
	measure.RunInstrument(os.Args[1:])
	agent.Run(os.Args[1:], version, nil)
	tier.SideBySide(2)
	os.Exit(m.Run())
}

// limited is a testbed whose overlay is limited to 100 Mbit/s at machine a, and a command that asks why.
func limited(t *testing.T) (*places.Testbed, *Command) {
	t.Helper()
	testbed := places.New(t)
	if _, err := testbed.A.Host.Output(t.Context(), "tc", "qdisc", "add", "dev", places.Overlay, "root", "tbf", "rate", "100mbit", "burst", "64kb", "limit", "1mb"); err != nil {
		t.Fatal(err)
	}
	// Ten rounds prove it where two slices stalled, as on a machine that other tests have too; eight do where none did.
	return testbed, &Command{
		Client: place.Place{Kind: place.SSH, Host: "a"}, Server: place.Place{Kind: place.SSH, Host: "b"},
		Path: []turns.Path{{Name: "overlay", Addr: testbed.B.Overlay}}, May: []string{"qdisc"}, Rounds: 10, Streams: 1, Settle: time.Millisecond,
		Destination: experiment.Destination{Output: "json", Results: t.TempDir()},
		Flags:       turns.Flags{Port: 5300, Slice: turns.LeastSlice, MaxTime: time.Minute, Connection: place.Connection{SSH: strings.Join(testbed.SSH, " ")}},
	}
}

// isLimited is an error unless the limit of 100 Mbit/s is there.
func isLimited(testbed *places.Testbed) error {
	out, err := testbed.A.Host.Output(context.Background(), "tc", "qdisc", "show", "dev", places.Overlay)
	if err == nil && !bytes.Contains(out, []byte("tbf")) {
		err = errors.New("there is no limit: " + string(out))
	} else if err == nil && !bytes.Contains(out, []byte("rate 100Mbit burst 64Kb")) {
		err = errors.New("it is another limit: " + string(out))
	}
	return err
}

// A planted rate limit is found, proved by flipping it, and there again afterwards.
func TestRun(t *testing.T) {
	tier.Slow(t)
	testbed, c := limited(t)
	var out, log bytes.Buffer
	if err := errors.Join(c.Validate(), c.Run(t.Context(), &experiment.Console{Out: &out, Err: &log, Version: version})); err != nil {
		t.Fatalf("%v\n%s\n%s", err, log.String(), places.Picture)
	}
	r, err := result.Read(&out)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Causes) == 0 {
		t.Fatal("no cause was found")
	}
	if cause := r.Causes[0]; cause.Setting != "qdisc" || cause.Object != "client:"+places.Overlay || !cause.Proved || cause.Lo <= 0.5 {
		t.Errorf("%+v\n%s", cause, log.String())
	}
	if want := "qdisc of client:" + places.Overlay + " explains 100 %"; !strings.HasPrefix(r.Verdict.Headline, want) {
		t.Errorf("%s, want %s", r.Verdict.Headline, want)
	}
	if err := isLimited(testbed); err != nil {
		t.Error(err)
	}
}

// What is flipped when a run is interrupted is as it was afterwards; what may not be flipped is proposed.
func TestInterrupted(t *testing.T) {
	tier.Slow(t)
	testbed, c := limited(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	var out, log bytes.Buffer
	go func() { done <- c.Run(ctx, &experiment.Console{Out: &out, Err: &log, Version: version}) }()
	err := await.Within(ctx, time.Minute, "the limit to be flipped", func() error {
		if err := isLimited(testbed); err != nil && strings.HasPrefix(err.Error(), "there is no limit") {
			return nil
		}
		return errors.New("it is there")
	})
	cancel()
	if run := <-done; err != nil || run == nil {
		t.Errorf("%v; the run: %v\n%s", err, run, log.String())
	}
	if err := await.Within(t.Context(), 20*time.Second, "the limit as it was", func() error { return isLimited(testbed) }); err != nil {
		t.Error(err)
	}
}

// A dry run says what it would flip.
func TestDryRun(t *testing.T) {
	tier.Slow(t)
	testbed, c := limited(t)
	c.DryRun, c.May = true, nil
	var out bytes.Buffer
	if err := c.Run(t.Context(), &experiment.Console{Out: &out, Err: &out, Version: version}); err != nil {
		t.Fatal(err)
	}
	if want := "qdisc client:" + places.Overlay + ": would not flip: client: tc qdisc del dev " + places.Overlay + " root"; !strings.Contains(out.String(), want) {
		t.Errorf("%s, want %s", out.String(), want)
	}
	if err := isLimited(testbed); err != nil {
		t.Error(err)
	}
}

func TestValidate(t *testing.T) {
	good := func() *Command {
		return &Command{
			Client: place.Place{Kind: place.SSH, Host: "a"}, Server: place.Place{Kind: place.SSH, Host: "b"}, Path: []turns.Path{{Name: "x"}}, May: []string{"mtu"}, Rounds: 8, Streams: 1,
			Flags: turns.Flags{Port: 1, Slice: time.Second, MaxTime: time.Minute},
		}
	}
	if err := good().Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Command){
		"--client: name a place":                                    func(c *Command) { c.Client = place.Place{} },
		"--server: nothing can run":                                 func(c *Command) { c.Server = place.Place{Kind: place.Address} },
		"--path: name at least one":                                 func(c *Command) { c.Path = nil },
		"--path: 3 are more":                                        func(c *Command) { c.Path = []turns.Path{{Name: "a"}, {Name: "b"}, {Name: "c"}} },
		"--may: there is no setting moon; choose from offload, gro": func(c *Command) { c.May = []string{"moon"} },
		"--rounds: 0":                                               func(c *Command) { c.Rounds = 0 },
		"--streams: 0":                                              func(c *Command) { c.Streams = 0 },
		"--settle: -1":                                              func(c *Command) { c.Settle = -1 },
	} {
		c := good()
		change(c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
