package ops

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//
// Somebody follows the events of the edge on hosta while links go and come, configurations are taken and refused, the level of
// the log changes, and the edge restarts.

// followed is what selvage events --follow -o json has printed so far.
type followed struct {
	mu     sync.Mutex
	text   []byte
	events []event.Event
	wrong  error
}

// Write takes what the command prints.
func (f *followed) Write(text []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text = append(f.text, text...)
	for {
		line, rest, whole := bytes.Cut(f.text, []byte("\n"))
		if !whole {
			return len(text), nil
		}
		f.text = rest
		var one api.FollowedEvent
		if err := json.Unmarshal(line, &one); err != nil || one.Event == nil {
			f.wrong = errors.Join(f.wrong, fmt.Errorf("line %s: %w", line, err))
		} else {
			f.events = append(f.events, *one.Event)
		}
	}
}

// check wants numbers without gaps.
func (f *followed) check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := 1; i < len(f.events); i++ {
		if f.events[i].Number != f.events[i-1].Number+1 {
			return fmt.Errorf("event %d follows %d", f.events[i].Number, f.events[i-1].Number)
		}
	}
	return f.wrong
}

// find is an error unless there is an event of a kind whose line has words.
func (f *followed) find(kind event.Kind, words ...string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var lines []string
	for _, e := range f.events {
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		lines = append(lines, string(text))
		if e.Kind == kind && missing(string(text), nil, words) == nil {
			return nil
		}
	}
	return fmt.Errorf("no %s with %q in\n%s", kind, words, strings.Join(lines, "\n"))
}

func TestEvents(t *testing.T) {
	t.Parallel()
	n := harness.NewTwoHosts(t, topo.TwoHostsOptions{})
	n.BuildRecorded(n.SelvageHalf(), n.SelvageHalf())
	n.Resolved("hosta")
	n.StopCaptures()
	name := n.Edges["hosta"].Name
	var f followed
	cmd := n.A.Command(n.Ctx, harness.Program, "events", "--follow", "-o", "json", "--edge", name)
	cmd.Stdout = &f
	n.Must(cmd.Start())
	defer cmd.Kill()
	seen := func(kind event.Kind, words ...string) {
		t.Helper()
		n.Fact(string(kind)+" is told", func() error { return f.find(kind, words...) })
	}
	link := func(argv ...string) {
		t.Helper()
		if _, err := n.A.Output(n.Ctx, argv...); err != nil {
			t.Fatal(err)
		}
	}
	seen(event.DataPathLoaded)
	seen(event.EdgeStarted, `"version"`)
	seen(event.PathUp, `"type":"remote"`, "192.0.2.2")

	link("ip", "link", "set", "p0", "down")
	seen(event.PortDown, `"name":"access"`, `"interface":"p0"`)
	link("ip", "link", "set", "p0", "up")
	seen(event.PortUp, `"name":"access"`)
	link("ip", "link", "set", topo.UnderlayName, "down")
	seen(event.LinkDown, `"name":"`+topo.UnderlayName+`"`)
	link("ip", "link", "set", topo.UnderlayName, "up")
	seen(event.LinkUp, `"name":"`+topo.UnderlayName+`"`)

	if _, err := says(n, "log", "level", "bgp=debug", "paths=warn"); err != nil {
		t.Error(err)
	}
	seen(event.LogLevel, `"name":"paths"`, `"user":"root"`, `"how":"socket"`, `"pid":`)
	n.Fact("the levels are shown", func() error {
		text, err := says(n, "log", "level")
		return missing(strings.Join(strings.Fields(text), " "), err, []string{"bgp debug info 0", "paths warn info 0", "edge info info 0"})
	})
	if _, err := says(n, "log", "level", "nothing=debug"); err == nil {
		t.Error("a subsystem that there is none of has a level")
	}

	config := n.Config("hosta")
	write := func(text string) { n.Must(os.WriteFile(n.Edges["hosta"].Config, []byte(text), 0o600)) }
	write(strings.Replace(config, "  flowCache:\n", "  flowCache:\n    size: 8192\n", 1))
	if out, err := n.A.Output(n.Ctx, harness.Program, "apply", n.Edges["hosta"].Config); err != nil {
		t.Errorf("apply: %v: %s", err, out)
	}
	seen(event.ConfigApplied, `"user":"root"`, `"what":"apply"`)
	seen(event.TableResized, `"name":"flowCache.size"`, `"to":8192`)
	seen(event.DataPathReplaced)
	n.Must(n.Reload("hosta", "nonsense: true\n"))
	seen(event.ConfigRefused, `"how":"signal"`)
	seen(event.ProblemRaised, "reload the configuration")

	write(config)
	n.Edges["hosta"].Kill()
	n.Fact("events of a dead edge are read", func() error {
		text, err := says(n, "events", "--kind", "config,link", "--limit", "5")
		return missing(text, err, []string{"config-refused", "by signal"})
	})
	n.Start(n.A, name, config)
	seen(event.DataPathAdopted)
	n.Once("the numbers have no gaps", f.check)
}
