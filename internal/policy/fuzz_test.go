package policy_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
	"github.com/selvage/selvage/internal/policy/policytest"
)

// chosen is a source of randomness that the fuzzer chooses, and then a plain one.
type chosen struct {
	data []byte
	rest rand.Source
}

func (c *chosen) Uint64() uint64 {
	if len(c.data) < 4 {
		return c.rest.Uint64()
	}
	v := uint64(binary.LittleEndian.Uint32(c.data))
	c.data = c.data[4:]
	return v<<32 | v
}

// FuzzCompile: no firewall, however wrong, brings Compile down, and what it accepts is
// judged as the reference does.
func FuzzCompile(f *testing.F) {
	f.Add([]byte{}, uint64(1))
	f.Add([]byte{}, uint64(2))
	f.Add([]byte("a policy may be anything at all, of any length"), uint64(3))
	f.Add(make([]byte, 400), uint64(4))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		r := rand.New(&chosen{data, rand.NewPCG(seed, 0)})
		fw := policytest.Random(r, 12)
		if r.IntN(3) == 0 {
			spoil(r, &fw)
		}
		p, err := policy.Compile(fw, policytest.Places)
		if err != nil {
			return
		}
		for range 10 {
			o := policytest.RandomQuery(r)
			if got, want := p.Evaluate(o), policy.Evaluate(fw, policytest.Places, o); got != want {
				t.Fatalf("%+v is judged %+v, want %+v, by %+v", o, got, want, fw)
			}
		}
		p.Shadowed()
		n := policy.Numbers{Rules: make([]uint32, len(p.Rules()))}
		for i := range n.Rules {
			n.Rules[i] = uint32(i + 1)
		}
		if compiled, err := p.Compiled(n); err != nil || len(compiled)%policy.LineWords != 0 {
			t.Fatalf("image of %d words: %v", len(compiled), err)
		}
	})
}

// spoil makes something in the firewall wrong, or at least odd.
func spoil(r *rand.Rand, fw *overlay.Firewall) {
	odd := overlay.Rule{Name: "odd", Verdict: overlay.Allow, Direction: overlay.Both}
	addr := netip.MustParseAddr
	mapped := overlay.Member{Prefix: netip.MustParsePrefix("::ffff:10.0.0.0/104")}
	switch r.IntN(12) {
	case 0:
		fw.Groups = append(fw.Groups, overlay.Group{Name: "loop", Members: []overlay.Member{{Group: "loop"}}})
	case 1:
		odd.From = []overlay.Member{{Group: "nobody knows it"}}
	case 2:
		odd.From = []overlay.Member{{}}
	case 3:
		odd.To = []overlay.Member{{Range: overlay.AddrRange{First: addr("10.0.0.2"), Last: addr("10.0.0.1")}}}
	case 4:
		odd.To = []overlay.Member{{Range: overlay.AddrRange{First: addr("10.0.0.2"), Last: addr("::1")}}}
	case 5:
		odd.To = []overlay.Member{{Range: overlay.AddrRange{Last: addr("10.0.0.1")}}}
	case 6:
		odd.AppliedTo = []overlay.Member{{Prefix: netip.MustParsePrefix("0.0.0.0/0")}}
	case 7:
		odd.Services = []overlay.Service{{Protocol: r.IntN(400) - 40, Ports: []overlay.PortRange{{First: 2, Last: 1}}, ICMPType: r.IntN(300), ICMPCode: -1}}
	case 8:
		odd.Verdict = "perhaps"
	case 9:
		odd.Direction = "sideways"
	case 10:
		odd.From = []overlay.Member{mapped}
	case 11:
		odd.From = []overlay.Member{{Port: "p0", Segment: "red"}}
	}
	fw.Rules = append(fw.Rules, odd)
}
