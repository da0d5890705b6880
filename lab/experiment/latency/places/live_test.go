package places

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	tier.SideBySide(3)
	os.Exit(m.Run())
}

// The switch of the tests: a policy in nftables on machine b that is searched in order, and a log
// of the commands.
const (
	onCommand = `echo on >>/mnt/log; { echo "add table inet t; add chain inet t in { type filter hook input priority 0; }"; ` +
		`for i in $(seq 3000); do echo "add rule inet t in ip saddr 203.0.113.1 tcp dport $i drop"; done; } | nft -f -`
	offCommand = `echo off >>/mnt/log; nft delete table inet t 2>/dev/null || true`
)

// command is one as the command line makes it.
func command(testbed *places.Testbed) *Command {
	return &Command{
		Client: place.Place{Kind: place.SSH, Host: "a"}, Server: place.Place{Kind: place.SSH, Host: "b"},
		Path: []turns.Path{{Name: "underlay", Addr: testbed.B.Underlay}, {Name: "overlay", Addr: testbed.B.Overlay}},
		On:   onCommand, Off: offCommand, Settle: 10 * time.Millisecond,
		Flags: turns.Flags{Port: 5300, Slice: 300 * time.Millisecond, MaxTime: time.Minute, Connection: place.Connection{SSH: strings.Join(testbed.SSH, " ")}},
	}
}

// measured is the result of a run.
func measured(ctx context.Context, t *testing.T, c *Command, rounds int) (r result.Result, log string, err error) {
	t.Helper()
	if err := c.Check(rounds); err != nil {
		t.Fatal(err)
	}
	var out, errors bytes.Buffer
	err = c.Run(ctx, &experiment.Console{Out: &out, Err: &errors, Version: version}, rounds, experiment.Destination{Output: "json", Results: t.TempDir()})
	if out.Len() > 0 {
		if r, err := result.Read(bytes.NewReader(out.Bytes())); err == nil {
			return r, errors.String(), nil
		}
	}
	return r, errors.String() + out.String(), err
}

// commandsRun are the lines that the commands wrote.
func commandsRun(testbed *places.Testbed) []string {
	data, _ := os.ReadFile(filepath.Join(testbed.Dir, "log"))
	return strings.Fields(string(data))
}

// A whole run: both states take turns, every figure is there, and off is the last command.
func TestRun(t *testing.T) {
	tier.Slow(t)
	testbed := places.New(t)
	c := command(testbed)
	c.Path = c.Path[1:]
	r, log, err := measured(t.Context(), t, c, 2)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, log, places.Picture)
	}
	if len(r.Samples) != 2*2*len(instruments) {
		t.Errorf("%d samples", len(r.Samples))
	}
	if len(r.Places) != len(r.Preflight) || len(r.Places) != 2 || slices.ContainsFunc(r.Places, func(p result.Place) bool { return result.Host(r, p) == nil }) {
		t.Errorf("places: %+v", r.Places)
	}
	for _, s := range r.Samples {
		if s.Error != "" {
			t.Errorf("%s of %s: %s", s.Case, s.Target, s.Error)
		}
	}
	for _, m := range append(metrics(), rowMetrics()...) {
		if strings.Contains(m.Name, firewall) { // which is the server's place
			continue
		}
		if !slices.ContainsFunc(r.Summary, func(row result.Row) bool { return row.Metric == m.Name && row.Case == on }) {
			t.Errorf("no row of %s", m.Name)
		}
	}
	if r.Samples[0].Case != off || r.Samples[len(r.Samples)-1].Case != off {
		t.Errorf("states are not balanced: the first sample is %s, the last %s", r.Samples[0].Case, r.Samples[len(r.Samples)-1].Case)
	}
	// Two and one more for the trial, a turn on and off; and the undo.
	if got := strings.Join(commandsRun(testbed), " "); got != "off off on off on off off" {
		t.Errorf("commands: %s", got)
	}
	if out, err := testbed.B.Host.Output(t.Context(), "nft", "list", "tables"); err != nil || bytes.Contains(out, []byte("inet t")) {
		t.Errorf("the firewall is on: %v %s", err, out)
	}
}

// What cannot be switched is not measured, and switched off.
func TestCommandsThatFail(t *testing.T) {
	tier.Root(t)
	for name, c := range map[string]struct{ on, off, want string }{
		"on":            {"echo on >>/mnt/log; echo no such chain; exit 3", "echo off >>/mnt/log", "no such chain"},
		"off":           {"true", "echo it is off already; false", "--off: "},
		"off, if it is": {"echo >/mnt/state", "rm /mnt/state", "--off: "},
	} {
		t.Run(name, func(t *testing.T) {
			testbed := places.New(t)
			cmd := command(testbed)
			cmd.On, cmd.Off = c.on, c.off
			r, log, err := measured(t.Context(), t, cmd, 1)
			if err == nil || !strings.Contains(err.Error(), c.want) || len(r.Samples) > 0 {
				t.Errorf("%v, %d samples\n%s", err, len(r.Samples), log)
			}
			if lines := commandsRun(testbed); name == "on" && (len(lines) == 0 || lines[len(lines)-1] != "off") {
				t.Errorf("commands: %q", lines)
			}
		})
	}
}

func TestDryRun(t *testing.T) {
	testbed := places.New(t)
	c := command(testbed)
	c.DryRun = true
	_, log, err := measured(t.Context(), t, c, 1)
	if err != nil || !strings.Contains(log, "ssh:b: would run") || len(commandsRun(testbed)) > 0 {
		t.Errorf("%v, commands %q\n%s", err, commandsRun(testbed), log)
	}
}

// Whatever is killed while the firewall is on, it is off afterwards.
func TestKilled(t *testing.T) {
	tier.Slow(t)
	for name, kill := range map[string]func(*testing.T, *places.Testbed, context.CancelFunc){
		"agent": func(t *testing.T, b *places.Testbed, _ context.CancelFunc) { places.Kill(t, b.B.Host, places.IsAgent) },
		"ssh": func(t *testing.T, b *places.Testbed, _ context.CancelFunc) {
			places.Kill(t, b.Client, func(command string) bool { return strings.HasPrefix(command, "ssh ") })
		},
		"interrupt": func(_ *testing.T, _ *places.Testbed, cancel context.CancelFunc) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			testbed := places.New(t)
			c := command(testbed)
			c.Slice, c.On, c.Off = 5*time.Second, "echo on >>/mnt/log", "echo off >>/mnt/log"
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() {
				_, log, err := measured(ctx, t, c, 2)
				if err != nil {
					err = fmt.Errorf("%w\n%s", err, log)
				}
				done <- err
			}()
			turned := func() error {
				select {
				case err := <-done:
					cancel()
					done <- err
					return err
				default:
				}
				if lines := commandsRun(testbed); len(lines) < 3 || lines[2] != on {
					return errors.New("it was not switched on")
				}
				return nil
			}
			if err := await.Within(ctx, time.Minute, "the firewall on", turned); err != nil {
				t.Fatal(err)
			}
			kill(t, testbed, cancel)
			if err := <-done; err == nil {
				t.Error("a run that was killed is no error")
			}
			at := len(commandsRun(testbed))
			err := await.Within(t.Context(), 20*time.Second, "the firewall off", func() error {
				lines := commandsRun(testbed)
				if lines[len(lines)-1] != off || at < 3 {
					return errors.New(strings.Join(lines, " "))
				}
				if left, _ := filepath.Glob(testbed.B.Root("/tmp/" + agent.DirPrefix + "*")); len(left) > 0 {
					return errors.New("left behind: " + strings.Join(left, ", "))
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
