package why

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/lab/turns"
	"github.com/selvage/selvage/test/places"
)

var (
	proof      = flag.Bool("proof", false, "run TestProof, which wants the machine for itself for up to two hours")
	proofCases = flag.Int("proof-cases", 100, "planted cases")
	proofSeed  = flag.Uint64("proof-seed", 1, "of the first case")
	proofOnly  = flag.String("proof-only", "", "the one kind of case")
)

// What TestProof wants.
const (
	proofRight    = 95 // per cent of the cases
	proofCovered  = 90 // per cent of the shares
	proofCaseTime = time.Minute
	beside        = "x1" // a second overlay between the machines, on which nothing is planted
)

// proofCase is what slows the overlay.
type proofCase struct {
	kind        string
	plant, undo []string // of machine and command
	settings    []string // that are to be proved, in any order
	proposed    string   // what is to be proposed, and cannot be flipped
}

// proofKinds are drawn from; without a cause twice, so that a hundred cases have twenty of it at least.
var proofKinds = []string{"none", "checksum", "segmentation", "hole", "rules", "none", "limit", "loss", "bridge", "two"}

// linearRules are a chain that drops nothing, for what comes by the overlay.
func linearRules(hook, device string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "table inet planted {\n\tchain base { type filter hook %s priority 0; iifname \"%s\" jump long; }\n\tchain long {\n", hook, device)
	for i := range n {
		fmt.Fprintf(&b, "\t\tip saddr 203.0.%d.%d drop\n", i>>8, i&0xff)
	}
	return b.String() + "\t}\n}\n"
}

// dropped are tunnel packets of the overlay that match, on their way in.
func dropped(match string) string {
	return "nft 'table netdev planted { chain in { type filter hook ingress device " + places.Data + " priority 0; udp dport 4789 @th,96,24 7 " + match + " counter drop; }; }'"
}

const removeRules = "nft delete table inet planted"

func plantedCase(kind string, rng *rand.Rand, gbits float64) proofCase {
	rules := "b:nft -f - <<'E'\n" + linearRules("input", places.Overlay, 800+rng.IntN(700)) + "E"
	ethtool := func(feature, state string) string {
		return "a:ethtool -K " + places.Overlay + " " + feature + " " + state
	}
	switch kind {
	case "checksum": // in software, as around projectcalico/calico#11435, which segments in software too
		return proofCase{kind, []string{ethtool("tx-checksum-ip-generic", "off")}, []string{ethtool("tx-checksum-ip-generic", "on")}, []string{"offload"}, ""}
	case "segmentation":
		return proofCase{kind, []string{ethtool("tso", "off"), ethtool("gso", "off")}, []string{ethtool("gso", "on"), ethtool("tso", "on")}, []string{"offload"}, ""}
	case "hole": // of which the sender hears nothing
		return proofCase{
			kind, []string{
				"a:ethtool -K " + places.Data + " tx-udp_tnl-segmentation off tx-udp_tnl-csum-segmentation off", "a:sysctl -qw net.ipv4.tcp_mtu_probing=1",
				"b:" + dropped(fmt.Sprintf("meta length gt %d", 1340+rng.IntN(120))),
			},
			[]string{
				"b:nft delete table netdev planted", "a:sysctl -qw net.ipv4.tcp_mtu_probing=0",
				"a:ethtool -K " + places.Data + " tx-udp_tnl-segmentation on tx-udp_tnl-csum-segmentation on", "a:ip tcp_metrics flush all",
			},
			[]string{"mtu"}, "",
		}
	case "rules":
		return proofCase{kind, []string{rules}, []string{"b:" + removeRules}, []string{"netfilter"}, ""}
	case "limit":
		rate := fmt.Sprintf("%dmbit", int(gbits*1e3*(0.7+0.1*rng.Float64())))
		return proofCase{kind, []string{"a:tc qdisc add dev " + places.Overlay + " root tbf rate " + rate + " burst 256kb limit 2mb"}, []string{"a:tc qdisc del dev " + places.Overlay + " root"}, []string{"qdisc"}, ""}
	case "loss":
		return proofCase{kind, []string{"b:" + dropped(fmt.Sprintf("numgen random mod %d == 0", 5000+rng.IntN(5001)))}, []string{"b:nft delete table netdev planted"}, nil, "loss"}
	case "bridge":
		forward := "b:nft -f - <<'E'\n" + linearRules("forward", "br0", 800+rng.IntN(700)) + "E"
		return proofCase{
			kind,
			[]string{
				"b:ip addr flush dev " + places.Overlay + "; ip link add br0 type bridge && ip link set " + places.Overlay + " master br0 && ip link add v0 type veth peer name v1 && ip link set v0 mtu 1450 master br0 up" +
					" && ip link set v1 mtu 1450 up && ip link set br0 up && ip addr add 10.11.0.2/24 dev v1 && sysctl -qw net.bridge.bridge-nf-call-iptables=1",
				forward, "a:ip neigh flush dev " + places.Overlay,
			},
			[]string{"b:" + removeRules, "b:sysctl -qw net.bridge.bridge-nf-call-iptables=0; ip link del v0; ip link del br0; ip addr add 10.11.0.2/24 dev " + places.Overlay, "a:ip neigh flush dev " + places.Overlay},
			[]string{"bridge-netfilter"}, "",
		}
	case "two":
		return proofCase{kind, []string{rules, ethtool("tso", "off"), ethtool("gso", "off")}, []string{"b:" + removeRules, ethtool("gso", "on"), ethtool("tso", "on")}, []string{"netfilter", "offload"}, ""}
	}
	return proofCase{kind: kind}
}

// TestProof plants what slows an overlay, or nothing, and asks why it is slow: nearly always the answer is right, and the
// share of a cause that is alone, which is all of the loss, is within its interval.
func TestProof(t *testing.T) {
	if !*proof {
		t.Skip("part of make test-long, by itself: TestCoverage draws the same from a model")
	}
	testbed := places.New(t)
	ends := []*places.Machine{testbed.A, testbed.B}
	for i, m := range ends {
		err := m.Host.VXLAN(t.Context(), beside, topo.VXLAN{VNI: 8, Local: m.Underlay, Remotes: []netip.Addr{ends[1-i].Underlay}, MTU: 1450})
		if err := errors.Join(err, m.Host.AddAddr(beside, netip.MustParsePrefix(fmt.Sprintf("10.14.0.%d/24", i+1)))); err != nil {
			t.Fatal(err)
		}
	}
	p := prover{T: t, testbed: testbed, gbits: 5}
	for i := range *proofCases {
		seed := *proofSeed + uint64(i)
		kind := proofKinds[seed%uint64(len(proofKinds))]
		if *proofOnly != "" {
			kind = *proofOnly
		}
		p.one(seed, kind)
	}
	t.Logf("%d of %d answers are right, %d of %d shares within their interval, the longest run took %s", p.right, p.cases, p.covered, p.shares, p.longest.Round(time.Second))
	if p.right*100 < p.cases*proofRight || p.covered*100 < p.shares*proofCovered || p.wrong > 0 {
		t.Errorf("%d had a false cause without one", p.wrong)
	}
}

type prover struct {
	*testing.T
	testbed         *places.Testbed
	gbits           float64 // that the overlay carries with nothing planted
	cases, right    int
	shares, covered int
	wrong           int // causes where there is none
	longest         time.Duration
}

// do runs commands at machines.
func (p *prover) do(commands []string) {
	p.Helper()
	for _, command := range commands {
		machine, line, _ := strings.Cut(command, ":")
		m := p.testbed.A
		if machine == "b" {
			m = p.testbed.B
		}
		if out, err := m.Host.Output(context.WithoutCancel(p.Context()), "sh", "-c", line); err != nil {
			p.Fatalf("%.80s: %v: %s", line, err, out)
		}
	}
}

func (p *prover) one(seed uint64, kind string) {
	c := plantedCase(kind, rand.New(rand.NewPCG(seed, 7)), p.gbits)
	p.do(c.plant)
	defer p.do(c.undo)
	began := time.Now()
	r, log := p.ask()
	took := time.Since(began)
	p.longest = max(p.longest, took)
	p.cases++
	var proved, proposed []string
	for _, found := range r.Causes {
		if found.Proved {
			proved = append(proved, found.Setting)
		} else if found.Target == "" {
			proposed = append(proposed, found.Setting)
		}
	}
	want := slices.Clone(c.settings)
	slices.Sort(want)
	got := slices.Clone(proved)
	slices.Sort(got)
	right := slices.Equal(got, want) && (c.proposed == "" || slices.Contains(proposed, c.proposed))
	if right {
		p.right++
	}
	if len(proved) > 0 && len(c.settings) == 0 {
		p.wrong++
	}
	if len(c.settings) == 1 && len(proved) > 0 && proved[0] == c.settings[0] {
		p.shares++
		if found := r.Causes[0]; found.Lo <= 1 && 1 <= found.Hi {
			p.covered++
		}
	}
	for _, row := range r.Summary {
		if row.Target == "beside" && row.Metric == measure.TCPThroughput {
			p.gbits = row.Median
		}
	}
	p.Logf("%d %s: right %t, in %s: %s", seed, kind, right, took.Round(time.Second), r.Verdict.Headline)
	if !right {
		for _, found := range r.Causes {
			p.Logf("  %s %s: share %.2f [%.2f, %.2f], proved %t: %s", found.Setting, found.Object, found.Share, found.Lo, found.Hi, found.Proved, found.Why)
		}
		for _, row := range r.Summary {
			p.Logf("  %s %.4g %s [%.4g, %.4g]", row.Target, row.Median, row.Unit, row.Lo, row.Hi)
		}
		p.Logf("  %v\n%s", r.Parameters, log)
	}
}

// ask runs the experiment, as a user who lets it flip all.
func (p *prover) ask() (r result.Result, log string) {
	c := &Command{
		Client: place.Place{Kind: place.SSH, Host: "a"}, Server: place.Place{Kind: place.SSH, Host: "b"}, Rounds: 8, Streams: 1, Settle: 20 * time.Millisecond,
		Path: []turns.Path{{Name: "overlay", Addr: p.testbed.B.Overlay}, {Name: "beside", Addr: netip.MustParseAddr("10.14.0.2")}},
		May:  strings.Split(settingNames(), ", "), Destination: experiment.Destination{Output: "json", Results: p.TempDir()},
		Flags: turns.Flags{Port: 5300, Slice: turns.LeastSlice, MaxTime: proofCaseTime, Connection: place.Connection{SSH: strings.Join(p.testbed.SSH, " ")}},
	}
	var out, err bytes.Buffer
	if failed := errors.Join(c.Validate(), c.Run(p.Context(), &experiment.Console{Out: &out, Err: &err, Version: version})); failed != nil {
		p.Errorf("%v\n%s", failed, err.String())
		return r, err.String()
	}
	r, failed := result.Read(&out)
	if failed != nil {
		p.Fatal(failed)
	}
	return r, err.String()
}
