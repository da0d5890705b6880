package datapath

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
	"github.com/selvage/selvage/test/tier"
)

// evaluating runs bpf/firewall/classify.h alone, by bpf/maint/classify_test.bpf.c.
type evaluating struct {
	Evaluate *ebpf.Program `ebpf:"classify_all"`
	Policy   *ebpf.Map     `ebpf:"policy"`
	Queries  *ebpf.Map     `ebpf:"queries"`
	Matches  *ebpf.Map     `ebpf:"matches"`
}

const maxQueries = 4096 // MAX_OPENINGS

func newEvaluating(t testing.TB) *evaluating {
	t.Helper()
	tier.Root(t)
	must(t, rlimit.RemoveMemlock())
	j := &evaluating{}
	if err := loadClassifyTestObjects(j, nil); err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() {
		j.Evaluate.Close()
		j.Policy.Close()
		j.Queries.Close()
		j.Matches.Close()
	})
	return j
}

// load puts an image where the data path finds it.
func (j *evaluating) load(t testing.TB, compiled policy.Compiled) {
	t.Helper()
	inner, err := newPolicyMap(kernel.Host().Loader, compiled)
	must(t, err)
	defer inner.Close()
	must(t, j.Policy.Put(uint32(0), kernel.HostMap(inner)))
}

// ask judges openings repeat times, and returns the judgements and the time of a turn in ns.
func (j *evaluating) ask(t testing.TB, queries []bpfRuleQuery, repeat int) ([]classifyTestClassifyResult, float64) {
	t.Helper()
	putArray(t, j.Queries, queries)
	session := classifyTestClassifyRun{Count: uint32(len(queries)), Repeat: uint32(repeat)}
	if _, err := j.Evaluate.Run(&ebpf.RunOptions{Context: session, ContextOut: &session}); err != nil {
		t.Fatal(err)
	}
	lines := make([]classifyTestClassifyResult, len(queries))
	for i := range lines {
		must(t, j.Matches.Lookup(uint32(i), &lines[i]))
	}
	return lines, float64(session.Ns) / float64(repeat)
}

// putArray writes values into an array, from its beginning.
func putArray[V any](t testing.TB, m *ebpf.Map, values []V) {
	t.Helper()
	keys := make([]uint32, len(values))
	for i := range keys {
		keys[i] = uint32(i)
	}
	if _, err := m.BatchUpdate(keys, values, nil); err != nil {
		t.Fatal(err)
	}
}

// numbered are numbers that are not equal to the indices of what they are of.
func numbered(p *policy.Policy, places []policy.Place, segments []string) policy.Numbers {
	n := policy.Numbers{Policy: 77, Vports: map[string]uint16{}, Segments: map[string]uint16{}}
	for i, place := range places {
		n.Vports[place.Name] = uint16(3 + 2*i)
	}
	for i, name := range segments {
		n.Segments[name] = uint16(9 + 3*i)
	}
	for i := range p.Rules() {
		n.Rules = append(n.Rules, ruleNumber(i))
	}
	return n
}

// ruleNumber keeps the order of rules no more than the data path does.
func ruleNumber(index int) uint32 { return uint32(1 + (index*7919+13)%131071) }

// inNumbers is an opening as the data path has it.
func inNumbers(o policy.Query, n policy.Numbers) bpfRuleQuery {
	out := bpfRuleQuery{Smac: o.SrcMAC, Dmac: o.DstMAC, SrcVport: n.Vports[o.SrcPlace], DstVport: n.Vports[o.DstPlace],
		SrcSegment: n.Segments[o.SrcSegment], DstSegment: n.Segments[o.DstSegment], Vport: n.Vports[o.Place],
		Sport: o.SrcPort, Dport: o.DstPort, Proto: o.Protocol, Ported: o.Ported}
	if o.Direction == overlay.Out {
		out.Direction = 1
	}
	out.Src.W, out.Dst.W = wireAddr(o.Src), wireAddr(o.Dst)
	return out
}

// sameMatch compares what the data path says with what it should.
func sameMatch(t testing.TB, name string, got classifyTestClassifyResult, want policy.Match, n policy.Numbers) bool {
	t.Helper()
	logOnly := uint32(0)
	if want.LogOnly >= 0 {
		logOnly = n.Rules[want.LogOnly]
	}
	j := got.Match
	if got.Reason != 0 || j.Rule != n.Rules[want.Rule] || j.LogOnly != logOnly || j.Policy != n.Policy ||
		verdicts[bpfVerdict(j.Verdict)] != want.Verdict || j.Log != want.Log {
		t.Errorf("%s: reason %d, rule %d, on trial %d, verdict %d, log %v; want %+v: rule %d, on trial %d",
			name, got.Reason, j.Rule, j.LogOnly, j.Verdict, j.Log, want, n.Rules[want.Rule], logOnly)
		return false
	}
	return true
}
