package datapath

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
	"github.com/selvage/selvage/internal/policy/policytest"
)

// What a classification takes in BPF, of openings that are all different and that mostly
// match some rule: ns/opening is the median of the turns over all of them, so the memory
// that they read has to come from where it is. To write the tables of
// docs/decisions/0012-classification.md:
//
//	go test -run - -bench Classify -benchtime 21x ./internal/datapath
func BenchmarkClassify(b *testing.B) {
	j := newEvaluating(b)
	for _, shape := range policytest.Shapes {
		for _, n := range []int{10, 100, 1000, 10000, 100000} {
			b.Run(fmt.Sprintf("%s/%d", shape.Name, n), func(b *testing.B) {
				fw, places := shape.Large(n), policytest.ManyPlaces()
				p, err := policy.Compile(fw, places)
				if err != nil {
					b.Skip(err)
				}
				numbers := numbered(p, places, policytest.Segments)
				compiled, err := p.Compiled(numbers)
				if err != nil {
					b.Fatal(err)
				}
				j.load(b, compiled)
				queries := someQueries(fw, places, numbers)
				turns := make([]float64, 0, b.N)
				for b.Loop() {
					_, ns := j.ask(b, queries, 1)
					turns = append(turns, ns/float64(len(queries)))
				}
				report(b, turns)
				b.ReportMetric(float64(len(compiled)*4)/1024, "KiB")
			})
		}
	}
}

func someQueries(fw overlay.Firewall, places []policy.Place, n policy.Numbers) []bpfRuleQuery {
	r := rand.New(rand.NewPCG(3, 3))
	queries := make([]bpfRuleQuery, maxQueries)
	for i, o := range policytest.Openings(fw, places, r, maxQueries) {
		queries[i] = inNumbers(o, n)
	}
	return queries
}

func report(b *testing.B, turns []float64) {
	slices.Sort(turns)
	b.ReportMetric(turns[len(turns)/2], "ns/opening")
	b.ReportMetric(turns[0], "ns/opening-least")
	b.ReportMetric(turns[len(turns)-1], "ns/opening-most")
	b.ReportMetric(0, "ns/op")
}

// The same rules, one after the other.
func BenchmarkScan(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000, 100000} {
		b.Run(fmt.Sprintf("hosts/%d", n), func(b *testing.B) {
			fw, places := policytest.Shapes[1].Large(n), policytest.ManyPlaces()
			j := newEvaluating(b)
			plain := j.plainRules(b, fw)
			p, err := policy.Compile(fw, places)
			if err != nil {
				b.Fatal(err)
			}
			queries := someQueries(fw, places, numbered(p, places, policytest.Segments))[:min(maxQueries, 10000000/n)]
			putArray(b, j.Queries, queries)
			turns := make([]float64, 0, b.N)
			for b.Loop() {
				session := classifyTestClassifyRun{Count: uint32(len(queries)), Rules: uint32(n)}
				if _, err := plain.Run(&ebpf.RunOptions{Context: session, ContextOut: &session}); err != nil {
					b.Fatal(err)
				}
				turns = append(turns, float64(session.Ns)/float64(len(queries)))
			}
			report(b, turns)
		})
	}
}

// plainRules loads the program that scans, with the firewall's rules.
func (j *evaluating) plainRules(b *testing.B, fw overlay.Firewall) *ebpf.Program {
	spec, err := loadClassifyTest()
	if err != nil {
		b.Fatal(err)
	}
	spec.Maps["plain_rules"].MaxEntries = uint32(len(fw.Rules))
	var objs struct {
		Scan  *ebpf.Program `ebpf:"scan"`
		Rules *ebpf.Map     `ebpf:"plain_rules"`
	}
	if err := spec.LoadAndAssign(&objs, &ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{"openings": j.Queries}}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		objs.Scan.Close()
		objs.Rules.Close()
	})
	rules := make([]classifyTestPlainRule, len(fw.Rules))
	for i, r := range fw.Rules {
		rules[i] = plainRule(r)
	}
	putArray(b, objs.Rules, rules)
	return objs.Scan
}

func plainRule(r overlay.Rule) classifyTestPlainRule {
	out := classifyTestPlainRule{}
	out.Src, out.SrcMask = prefixWords(r.From[0].Prefix)
	out.Dst, out.DstMask = prefixWords(r.To[0].Prefix)
	key := uint32(r.Services[0].Protocol)<<17 | 1<<16
	out.First, out.Last = key|uint32(r.Services[0].Ports[0].First), key|uint32(r.Services[0].Ports[0].Last)
	return out
}

func prefixWords(p netip.Prefix) (words, mask [4]uint32) {
	bytes, bits := p.Addr().As16(), p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	for i := range words {
		words[i] = binary.BigEndian.Uint32(bytes[4*i:])
		mask[i] = ^uint32(0) << (32 - min(32, max(0, bits-32*i)))
	}
	return words, mask
}
