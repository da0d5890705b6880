package datapath

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
	"github.com/selvage/selvage/test/tier"
)

// judging runs bpf/firewall/classify.h alone, by bpf/maint/classify_test.bpf.c.
type judging struct {
	Judge      *ebpf.Program `ebpf:"judge"`
	Policy     *ebpf.Map     `ebpf:"policy"`
	Openings   *ebpf.Map     `ebpf:"openings"`
	Judgements *ebpf.Map     `ebpf:"judgements"`
}

const maxOpenings = 4096 // MAX_OPENINGS

func newJudging(t testing.TB) *judging {
	t.Helper()
	tier.Root(t)
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	j := &judging{}
	if err := loadJudgeObjects(j, nil); err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() {
		j.Judge.Close()
		j.Policy.Close()
		j.Openings.Close()
		j.Judgements.Close()
	})
	return j
}

// load puts an image where the data path finds it.
func (j *judging) load(t testing.TB, image policy.Image) {
	t.Helper()
	inner, err := newPolicyMap(image)
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	if err := j.Policy.Put(uint32(0), inner); err != nil {
		t.Fatal(err)
	}
}

// ask judges openings repeat times, and returns the judgements and the time of a turn in ns.
func (j *judging) ask(t testing.TB, openings []judgeOpening, repeat int) ([]judgeVerdictLine, float64) {
	t.Helper()
	putArray(t, j.Openings, openings)
	session := judgeSession{Count: uint32(len(openings)), Repeat: uint32(repeat)}
	if _, err := j.Judge.Run(&ebpf.RunOptions{Context: session, ContextOut: &session}); err != nil {
		t.Fatal(err)
	}
	lines := make([]judgeVerdictLine, len(openings))
	for i := range lines {
		if err := j.Judgements.Lookup(uint32(i), &lines[i]); err != nil {
			t.Fatal(err)
		}
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
	n := policy.Numbers{Policy: 77, Ends: map[string]uint16{}, Segments: map[string]uint16{}}
	for i, place := range places {
		n.Ends[place.Name] = uint16(3 + 2*i)
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
func inNumbers(o policy.Opening, n policy.Numbers) judgeOpening {
	out := judgeOpening{Smac: o.SrcMAC, Dmac: o.DstMAC, SrcEnd: n.Ends[o.SrcPlace], DstEnd: n.Ends[o.DstPlace],
		SrcSegment: n.Segments[o.SrcSegment], DstSegment: n.Segments[o.DstSegment], End: n.Ends[o.Place],
		Sport: o.SrcPort, Dport: o.DstPort, Proto: o.Protocol, Ported: o.Ported}
	if o.Direction == overlay.Out {
		out.Direction = 1
	}
	out.Src.W, out.Dst.W = wireAddr(o.Src), wireAddr(o.Dst)
	return out
}

// sameJudgement compares what the data path says with what it should.
func sameJudgement(t testing.TB, name string, got judgeVerdictLine, want policy.Judgement, n policy.Numbers) bool {
	t.Helper()
	logOnly := uint32(0)
	if want.LogOnly >= 0 {
		logOnly = n.Rules[want.LogOnly]
	}
	j := got.Judgement
	if got.Reason != 0 || j.Rule != n.Rules[want.Rule] || j.LogOnly != logOnly || j.Policy != n.Policy ||
		verdicts[sweepVerdict(j.Verdict)] != want.Verdict || j.Log != want.Log {
		t.Errorf("%s: reason %d, rule %d, on trial %d, verdict %d, log %v; want %+v: rule %d, on trial %d",
			name, got.Reason, j.Rule, j.LogOnly, j.Verdict, j.Log, want, n.Rules[want.Rule], logOnly)
		return false
	}
	return true
}
