package agent

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/testlab"
)

// Rules of jumps count once, and maps as one rule.
func TestChains(t *testing.T) {
	const ruleset = `{"nftables": [
		{"metainfo": {"version": "1.0.6"}},
		{"table": {"family": "ip", "name": "filter", "handle": 1}},
		{"chain": {"family": "ip", "table": "filter", "name": "INPUT", "handle": 1, "type": "filter", "hook": "input", "prio": 0, "policy": "accept"}},
		{"chain": {"family": "ip", "table": "filter", "name": "user", "handle": 2}},
		{"chain": {"family": "ip", "table": "filter", "name": "OUTPUT", "handle": 3, "type": "filter", "hook": "output", "prio": 0, "policy": "accept"}},
		{"rule": {"family": "ip", "table": "filter", "chain": "INPUT", "handle": 4, "expr": [{"match": {}}, {"jump": {"target": "user"}}]}},
		{"rule": {"family": "ip", "table": "filter", "chain": "INPUT", "handle": 5, "expr": [{"goto": {"target": "user"}}]}},
		{"rule": {"family": "ip", "table": "filter", "chain": "user", "handle": 6, "expr": [{"drop": null}]}},
		{"rule": {"family": "ip", "table": "filter", "chain": "user", "handle": 7, "expr": [{"jump": {"target": "user"}}, {"vmap": {"key": {}, "data": "@m"}}]}}
	]}`
	got, err := chainsOf([]byte(ruleset))
	want := []Chain{{"ip", "filter", "INPUT", "input", 4}, {"ip", "filter", "OUTPUT", "output", 0}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := chainsOf([]byte("{")); err == nil {
		t.Error("half a ruleset is no error")
	}
}

// What is read of a namespace is what is there, and what the settings of a token bucket filter say makes it again.
func TestReadEvidence(t *testing.T) {
	t.Parallel()
	lab := testlab.New(t)
	a, err := lab.Host("a")
	if err != nil {
		t.Fatal(err)
	}
	b, err := lab.Host("b")
	if err != nil {
		t.Fatal(err)
	}
	if err := lab.Link(t.Context(), topo.LinkEnd{Host: a, Name: "eth0"}, topo.LinkEnd{Host: b, Name: "eth0"}, 1500); err != nil {
		t.Fatal(err)
	}
	run := func(argv ...string) string {
		t.Helper()
		out, err := a.Output(t.Context(), argv...)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	run("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "123mbit", "burst", "20kb", "limit", "300kb")
	run("nft", "add table inet f; add chain inet f in { type filter hook input priority 0; }; add rule inet f in tcp dport 1 drop; add rule inet f in tcp dport 2 drop")
	before := run("tc", "qdisc", "show", "dev", "eth0")
	var e Evidence
	if err := a.Do(func() error { e = readEvidence(t.Context()); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(e.Qdiscs) != 1 || e.Qdiscs[0].TBF == nil || e.Qdiscs[0].Interface != "eth0" {
		t.Fatalf("%+v", e)
	}
	if want := (Chain{"inet", "f", "in", "input", 2}); !slices.Contains(e.Chains, want) {
		t.Errorf("%+v", e.Chains)
	}
	run("tc", "qdisc", "del", "dev", "eth0", "root")
	run("sh", "-c", "tc qdisc replace dev eth0 root "+e.Qdiscs[0].TBF.Args())
	handle := func(s string) string { _, rest, _ := strings.Cut(s, " root "); return rest }
	if after := run("tc", "qdisc", "show", "dev", "eth0"); handle(after) != handle(before) {
		t.Errorf("it was %q, and is %q", before, after)
	}
	if _, err := exec.LookPath("nft"); err == nil && len(e.Unknown) > 0 {
		t.Errorf("unknown: %q", e.Unknown)
	}
}
