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
	"github.com/selvage/selvage/lab/gate"
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
	g := testbed.Gateway
	host := func(name string) place.Place { return place.Place{Kind: place.SSH, Host: name} }
	return &Command{
		Node: host("a"), Gateway: host("g"), Target: host("b"),
		Path:  []turns.Path{{Name: "direct", Addr: testbed.B.Underlay}, {Name: "egress", Addr: g.Target}, {Name: "egress6", Addr: g.Target6}},
		Flags: turns.Flags{Port: 5300, Slice: 300 * time.Millisecond, MaxRate: 500e6, MaxTime: time.Minute, Connection: place.Connection{SSH: strings.Join(testbed.SSH, " ")}},
	}
}

// measured is what a run prints, its log and its error.
func measured(t *testing.T, c *Command, to experiment.Destination) (out, log bytes.Buffer, err error) {
	t.Helper()
	if err := c.Check(1); err != nil {
		t.Fatal(err)
	}
	to.Results = t.TempDir()
	err = c.Run(t.Context(), &experiment.Console{Out: &out, Err: &log, Version: version}, 1, to)
	return out, log, err
}

// resultOf is the result of a run that succeeds.
func resultOf(t *testing.T, c *Command) result.Result {
	t.Helper()
	out, log, err := measured(t, c, experiment.Destination{Output: "json"})
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, log.String(), places.Picture)
	}
	r, err := result.Read(&out)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A gateway that translates shows its addresses, of both families, and each figure is there from the
// node and from the gateway.
func TestRun(t *testing.T) {
	tier.Slow(t)
	testbed := places.NewWithGateway(t)
	r := resultOf(t, command(testbed))
	g := testbed.Gateway
	for path, want := range map[string]sources{
		"direct":  {asked: connections, node: connections, seen: []string{testbed.A.Underlay.String() + " of the node"}},
		"egress":  {asked: connections, gateway: connections, seen: []string{g.Addr.String() + " of the gateway"}},
		"egress6": {asked: connections, gateway: connections, seen: []string{g.Addr6.String() + " of the gateway"}},
	} {
		got := sourcesOf(r, path)
		if got.asked != want.asked || got.node != want.node || got.gateway != want.gateway || !slices.Equal(got.seen, want.seen) {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
	for _, name := range []string{"direct", "egress", "egress6", "gateway-egress", "gateway-egress6"} {
		for _, m := range metrics() {
			row, ok := stats.Find(r.Summary, name, m.Case, m.Name)
			if !ok || row.N != 1 || row.Median <= 0 && m.Name != measure.Retransmits && m.Unit != "cores" && m.Unit != "s/GB" {
				t.Errorf("%s %s %s: %+v", name, m.Case, m.Name, row)
			}
		}
	}
	if row, ok := stats.Find(r.Summary, "egress", source, leak); !ok || row.Median != 0 || row.N != connections {
		t.Errorf("leak: %+v", row)
	}
	if !r.Verdict.Refused || !strings.Contains(r.Verdict.String(), "n = 1; a difference needs at least 8 rounds") {
		t.Error(r.Verdict.String())
	}
}

// What the gateway does not translate is a leak, whatever there are of rounds, and a condition fails
// on it.
func TestLeak(t *testing.T) {
	testbed := places.NewWithGateway(t)
	// Every other connection of IPv4, as where a pool has run out.
	if err := testbed.Gateway.Host.Nft(t.Context(), "half", "flush ruleset\ntable inet egress {\n\tchain out {\n\t\ttype nat hook postrouting priority srcnat\n"+
		"\t\toifname \"w0\" meta nfproto ipv4 numgen inc mod 2 == 0 masquerade\n\t}\n}"); err != nil {
		t.Fatal(err)
	}
	c := command(testbed)
	c.Path = c.Path[1:]
	var leaks gate.Condition
	if err := leaks.UnmarshalText([]byte("egress/leak>0")); err != nil {
		t.Fatal(err)
	}
	out, log, err := measured(t, c, experiment.Destination{Output: "table", FailIf: []gate.Condition{leaks}})
	if err == nil || !strings.Contains(err.Error(), "egress/leak>0") {
		t.Errorf("%v\n%s", err, log.String())
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"A leak: over egress the target sees the node's own address in 4 of 8 connections (seen: 10.1", "; over egress6 the target sees the node's own address in 8 of 8 connections (seen: fd12::1 of the node).",
		"10.12.0.1 of the node", "10.13.0.254 of the gateway", "ports of the pool run out", "Nothing translates it",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, out.String())
		}
	}
}

// A target that does not answer on a path is told before anything is measured, and where the gateway
// does not get to itself is left out.
func TestUnreached(t *testing.T) {
	testbed := places.NewWithGateway(t)
	rules := "table inet shut {\n\tchain in {\n\t\ttype filter hook %s priority 0\n\t\ttcp dport 5300 reject with tcp reset\n\t}\n}"
	if err := testbed.Gateway.Host.Nft(t.Context(), "shut", strings.Replace(rules, "%s", "output", 1)); err != nil {
		t.Fatal(err)
	}
	c := command(testbed)
	c.Path = c.Path[1:2]
	r := resultOf(t, c)
	if names := stats.Names(r); !slices.Equal(names, []string{"egress"}) {
		t.Error(names)
	}
	if !slices.ContainsFunc(r.Verdict.Findings, func(f result.Finding) bool {
		return f.Topic == "Behind the gateway" && strings.Contains(f.Text, "connection refused")
	}) {
		t.Errorf("%+v", r.Verdict.Findings)
	}
	if err := testbed.B.Host.Nft(t.Context(), "shut", strings.Replace(rules, "%s", "input", 1)); err != nil {
		t.Fatal(err)
	}
	_, log, err := measured(t, c, experiment.Destination{Output: "json"})
	if err == nil || !strings.Contains(err.Error(), "--path egress: from ssh:a to 10.13.0.2 port 5300: ") || !strings.Contains(err.Error(), "is the port open on this path?") {
		t.Errorf("%v\n%s", err, log.String())
	}
}

// A dry run connects and changes nothing, and sends nothing to the target's port.
func TestDryRun(t *testing.T) {
	testbed := places.NewWithGateway(t)
	c := command(testbed)
	c.DryRun = true
	before, err := testbed.B.Host.Output(t.Context(), "nft", "list", "ruleset")
	if err != nil {
		t.Fatal(err)
	}
	out, log, err := measured(t, c, experiment.Destination{Output: "table"})
	if err != nil || strings.Count(out.String(), "would put the agent into") != 3 || strings.Contains(log.String(), "samples") {
		t.Errorf("%v\n%s\n%s", err, out.String(), log.String())
	}
	after, err := testbed.B.Host.Output(t.Context(), "nft", "list", "ruleset")
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("%v\n%s\n%s", err, before, after)
	}
}
