package redact

import (
	"bytes"
	"maps"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/lab/result"
)

// secrets are what planted plants, by where it stands.
func secrets() map[string]string {
	return map[string]string{
		"host of a place": "db7.acme.example", "what a host says of itself": "acmedb7", "what a gateway says of itself": "acmegw3", "a source address": "203.0.113.77", "user": "alice", "namespace": "acme-prod",
		"IPv4": "198.51.100.77", "IPv4 in an error": "198.51.100.78", "IPv6": "2001:db8:77::1", "IPv6 with a port": "2001:db8:78::1", "IPv4 of a path": "198.51.100.79",
		"MAC": "02:00:5e:10:77:01", "MAC of Cisco": "0200.5e10.7702", "MAC with dashes": "02-00-5E-10-77-03",
		"file": "/srv/acme/selvage", "file at home": "~/acme/notes", "node": "acme-fw01", "target": "acme-wan", "told": "Coyote", "interface of a guest": "tap-acme-erp", "vendor": "AcmeServers", "host of a mail": "mx.acme.example",
	}
}

// planted is a result that has them all.
func planted() result.Result {
	s := secrets()
	return result.Result{
		Schema: result.Schema, Experiment: "paths",
		Command: []string{"selvage", "lab", "paths", "--client", "ssh:" + s["user"] + "@" + s["host of a place"] + ":2222"},
		Parameters: result.Parameters{
			"client": result.Words("ssh:" + s["user"] + "@" + s["host of a place"] + ":2222"), "client ssh:" + s["user"] + "@" + s["host of a place"]: result.Words(s["what a host says of itself"] + ", Linux 6.18.5, amd64, 4 cores"),
			"gateway ssh:gw": result.Words(s["what a gateway says of itself"] + ", Linux 6.18.5, amd64, 2 cores"), "source_" + s["target"]: result.Of(result.Texts{s["a source address"] + " of the gateway"}),
			"watch": result.Of(result.Texts{"ns:" + s["namespace"]}), "program_old": result.Words(s["file"]), "program_new": result.Words("new").Explained("%s", s["file at home"]), "owner": result.Words("root@" + s["host of a mail"]), "note": result.Words("for " + s["told"] + ", at 07:01:59"),
		},
		Environment: result.Environment{
			Kernel: "6.18.5", CPU: "x", Versions: map[string]string{"ovs": "3.1.0"},
			Offloads: map[string]map[string]bool{s["what a host says of itself"] + ":eth0": {"rx-gro": true}}, MTU: map[string]int{s["target"]: 1500},
		},
		Topology: result.Topology{
			Nodes: []result.Node{{Name: "client", Addrs: []string{s["IPv4"] + "/24", s["IPv6"], s["MAC"]}}, {Name: s["node"], Addrs: []string{s["MAC of Cisco"], s["MAC with dashes"]}}},
			Links: []result.Link{{A: "client", B: s["node"]}},
		},
		Targets: []result.Target{{Name: "plain"}, {Name: s["target"], Description: "by " + s["what a gateway says of itself"] + " to " + s["IPv4 of a path"] + " by " + s["what a host says of itself"]}},
		Summary: []result.Row{{Target: s["target"], Case: "tcp", Metric: "m", Baseline: s["node"] + ":tcp"}},
		Causes: []result.Cause{{
			Setting: "offload", Object: "client:eth0", Why: s["IPv4"] + " at " + s["what a host says of itself"], Target: s["target"], Against: "plain", Commands: []string{"ip route get " + s["IPv6"]},
		}},
		Places: []result.Place{{Role: "client", Name: "ssh:" + s["user"] + "@" + s["host of a place"], Host: s["what a host says of itself"]}},
		Preflight: result.Preflight{{
			Place: "ssh:" + s["user"] + "@" + s["host of a place"], Name: s["what a host says of itself"], Machine: facts.Machine{Kernel: "6.18.5", Vendor: s["vendor"]},
			Interfaces: []facts.Interface{{Name: "eth0", Driver: "mlx5_core", Addrs: []netip.Prefix{netip.MustParsePrefix(s["IPv4"] + "/24")}}, {Name: s["interface of a guest"], Kind: "tun"}},
		}},
		Samples: []result.Sample{
			{Target: "plain", Case: "tcp", Round: 1, Metrics: map[string]float64{"m": 1}},
			{Target: s["target"], Case: "tcp", Round: 1, Series: map[string][]float64{"from " + s["node"]: {1}}, Error: "dial " + s["IPv4 in an error"] + ":5300 and [" + s["IPv6 with a port"] + "]:5300 on " + s["what a host says of itself"] + ": timeout"},
		},
	}
}

func text(t *testing.T, r result.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := result.Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Nothing that names anybody is left; each has the same pseudonym wherever it stands.
func TestNothingIsLeft(t *testing.T) {
	original := text(t, planted())
	r := New(secrets()["told"])
	got := text(t, r.Result(planted()))
	for what, secret := range secrets() {
		if !strings.Contains(original, secret) {
			t.Errorf("%s is not planted", what)
		}
		if strings.Contains(strings.ToLower(got), strings.ToLower(secret)) {
			t.Errorf("%s is left: %s in\n%s", what, secret, got)
		}
	}
	for _, kept := range []string{`"client"`, `"plain"`, "6.18.5", "3.1.0", "07:01:59", "rx-gro", "eth0", "4 cores", "amd64", "mlx5_core", ":5300", "/24"} {
		if !strings.Contains(got, kept) {
			t.Errorf("%s is gone", kept)
		}
	}
	host := r.of("host", secrets()["what a host says of itself"])
	if n := strings.Count(got, host); n != strings.Count(original, secrets()["what a host says of itself"]) || n < 4 {
		t.Errorf("%s stands there %d times", host, n)
	}
	for pseudonym, original := range r.Originals() {
		if r.of("", original) != pseudonym {
			t.Errorf("%s is said to be %s", pseudonym, original)
		}
	}
	if again := text(t, New(secrets()["told"]).Result(planted())); again != got {
		t.Errorf("another time it is another text:\n%s", cmp.Diff(got, again))
	}
	if twice := text(t, r.Result(r.Result(planted()))); strings.Contains(twice, "acme") {
		t.Error(twice)
	}
}

// Two results of one redactor have common pseudonyms.
func TestAcrossResults(t *testing.T) {
	r := New()
	a, b := planted(), planted()
	b.Topology.Nodes = []result.Node{{Name: "other", Addrs: []string{"203.0.113.9"}}, b.Topology.Nodes[1]}
	first, second := r.Result(a), r.Result(b)
	if first.Topology.Nodes[1].Name != second.Topology.Nodes[1].Name || first.Topology.Nodes[0].Addrs[0] == second.Topology.Nodes[0].Addrs[0] {
		t.Errorf("%+v\n%+v", first.Topology, second.Topology)
	}
}

// Of recorded results all addresses go, and all figures stay.
func TestRecorded(t *testing.T) {
	files, err := filepath.Glob("../experiment/*/testdata/*.json.gz")
	files = append(files, "../experiment/egress/places/testdata/egress-places.json.gz")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d recorded results, %v", len(files), err)
	}
	for _, file := range files {
		original, err := result.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := New().Result(original)
		for i, s := range r.Samples {
			was := original.Samples[i]
			if !maps.Equal(s.Metrics, was.Metrics) || len(s.Series) != len(was.Series) || s.Target != was.Target || s.Case != was.Case {
				t.Fatalf("%s: sample %d is %+v, was %+v", file, i, s, was)
			}
		}
		got := text(t, r)
		isEdge := func(c rune) bool { return strings.ContainsRune(" \"',;()[]=@\n", c) }
		for _, word := range strings.FieldsFunc(got, isEdge) {
			addr, _, _ := strings.Cut(word, "/")
			if a, err := netip.ParseAddr(addr); err == nil {
				t.Errorf("%s: %s is left", file, a)
			}
		}
		if len(original.Command) > 0 && (len(r.Command) != 1 || !strings.HasPrefix(r.Command[0], "command-")) {
			t.Errorf("%s: the command is %q", file, r.Command)
		}
		for _, node := range original.Topology.Nodes {
			if !slices.ContainsFunc(r.Topology.Nodes, func(n result.Node) bool { return n.Name == node.Name }) {
				t.Errorf("%s: the lab's own node %s has a pseudonym", file, node.Name)
			}
		}
	}
}

// A result gets no field that nobody decided about: what is here is redacted, or names nobody. Add a
// new one to Result, or leave it out of bundles, and then add it here.
func TestFieldsAreKnown(t *testing.T) {
	for of, want := range map[reflect.Type]string{
		reflect.TypeFor[result.Result]():      "Schema Experiment Started Duration Command Parameters Environment Preflight Topology Targets Samples Summary Verdict Causes Places Profiles Devices",
		reflect.TypeFor[result.Environment](): "Kernel CPU Cores MemoryBytes Versions Offloads MTU Sysctls",
		reflect.TypeFor[result.Cause]():       "Setting Object Why Target Against Share Lo Hi Proved Commands",
		reflect.TypeFor[result.Node]():        "Name Role Addrs",
		reflect.TypeFor[result.Link]():        "A B Role MTU",
		reflect.TypeFor[result.Target]():      "Name Description InnerMTU HeaderTax",
		reflect.TypeFor[result.Sample]():      "Target Case Round Start Duration Metrics Series CPU Uses Latency Error",
		reflect.TypeFor[result.Row]():         "Target Case Metric Unit Median Lo Hi N Baseline Ratio RatioLo RatioHi Distinguishable Difference SmallestEffect",
	} {
		var names []string
		for i := range of.NumField() {
			names = append(names, of.Field(i).Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s has the fields %s, and those that are known are %s", of, got, want)
		}
	}
}

// Paths of lab egress stay egress paths, and the gateway's own way to one stays its.
func TestEgressPaths(t *testing.T) {
	r := New()
	for name, want := range map[string]string{"direct": "direct", "egress": "egress", "gateway-egress6": "gateway-egress6", "egress-acme": "egress-target-1", "gateway-egress-acme": "gateway-egress-target-1"} {
		if got := r.target(name); got != want || r.target(got) != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := r.text("over egress-acme, as gateway-egress-acme"); got != "over egress-target-1, as gateway-egress-target-1" {
		t.Error(got)
	}
}

// Targets of lab why are those of their path under its pseudonym, also twice.
func TestFlippedTargets(t *testing.T) {
	run := result.Result{
		Schema: result.Schema, Targets: []result.Target{{Name: "acme"}, {Name: "acme-lan"}, {Name: "acme-1"}, {Name: "acme-1-2"}},
		Causes: []result.Cause{{Target: "acme-1-2", Against: "acme-1"}, {}},
	}
	for range 2 {
		run = New().Result(run)
		var names []string
		for _, target := range run.Targets {
			names = append(names, target.Name)
		}
		c := run.Causes[0]
		if want := []string{names[0], names[1], names[0] + "-1", names[0] + "-1-2"}; !slices.Equal(names, want) || strings.Contains(names[1], "acme") || c.Target != want[3] || c.Against != want[2] {
			t.Errorf("%q, %+v", names, run.Causes)
		}
	}
}
