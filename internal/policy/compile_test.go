package policy_test

import (
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
	"github.com/selvage/selvage/internal/policy/policytest"
)

// What cannot be compiled is named.
func TestCompileRefuses(t *testing.T) {
	addr := netip.MustParseAddr
	ok := overlay.Rule{Section: "s", Name: "r", Verdict: overlay.Allow, Direction: overlay.Both}
	with := func(change func(*overlay.Rule)) overlay.Firewall {
		rule := ok
		change(&rule)
		return overlay.Firewall{Default: overlay.Drop, Rules: []overlay.Rule{ok, rule}}
	}
	from := func(m overlay.Member) overlay.Firewall {
		return with(func(r *overlay.Rule) { r.From = []overlay.Member{m} })
	}
	service := func(s overlay.Service) overlay.Firewall {
		return with(func(r *overlay.Rule) { r.Services = []overlay.Service{s} })
	}
	for _, c := range []struct {
		name string
		fw   overlay.Firewall
		want string
	}{
		{"a group that is not there", from(overlay.Member{Group: "web"}), "rule s/r: from: member 1: there is no group web"},
		{"an empty member", from(overlay.Member{}), "a member is one of"},
		{"a member that is two things", from(overlay.Member{Port: "p0", Segment: "red"}), "this one has 2"},
		{"a range backwards", from(overlay.Member{Range: overlay.AddrRange{First: addr("10.0.0.2"), Last: addr("10.0.0.1")}}), "ends before it begins"},
		{"a range of two families", from(overlay.Member{Range: overlay.AddrRange{First: addr("10.0.0.2"), Last: addr("::1")}}), "not of one family"},
		{"a range without an end", from(overlay.Member{Range: overlay.AddrRange{First: addr("10.0.0.2")}}), "not of one family"},
		{"IPv4 written as IPv6", from(overlay.Member{Prefix: netip.MustParsePrefix("::ffff:10.0.0.0/104")}), "write it as IPv4"},
		{"a zone", from(overlay.Member{Range: overlay.AddrRange{First: addr("fe80::1%eth0"), Last: addr("fe80::2")}}), "zone"},
		{"an address in applied-to", with(func(r *overlay.Rule) { r.AppliedTo = []overlay.Member{{Prefix: netip.MustParsePrefix("10.0.0.0/8")}} }), "applied to: an address or MAC says nothing"},
		{"all addresses in applied-to", with(func(r *overlay.Rule) { r.AppliedTo = []overlay.Member{{Prefix: netip.MustParsePrefix("::/0")}} }), "applied to: an address or MAC says nothing"},
		{"a MAC in applied-to", with(func(r *overlay.Rule) { r.AppliedTo = []overlay.Member{{MAC: &overlay.MAC{2}}} }), "applied to: an address or MAC says nothing"},
		{"no direction", with(func(r *overlay.Rule) { r.Direction = "" }), "direction"},
		{"an unknown verdict", with(func(r *overlay.Rule) { r.Verdict = "maybe" }), "verdict"},
		{"a default on trial", overlay.Firewall{Default: overlay.LogOnly}, "default of edge"},
		{"a segment's default on trial", overlay.Firewall{Default: overlay.Drop, Defaults: map[string]overlay.Verdict{"red": overlay.LogOnly}}, "default of red"},
		{"ports without a protocol", service(overlay.Service{Protocol: -1, Ports: []overlay.PortRange{{First: 1, Last: 2}}}), "ports need a protocol"},
		{"ports of a protocol without", service(overlay.Service{Protocol: 47, Ports: []overlay.PortRange{{First: 1, Last: 2}}}), "has no ports"},
		{"ports backwards", service(overlay.Service{Protocol: 6, Ports: []overlay.PortRange{{First: 2, Last: 1}}}), "ends before it begins"},
		{"source ports backwards", service(overlay.Service{Protocol: 6, SourcePorts: []overlay.PortRange{{First: 2, Last: 1}}}), "ends before it begins"},
		{"a protocol that is none", service(overlay.Service{Protocol: 256}), "no IP protocol 256"},
		{"an ICMP code without a type", service(overlay.Service{Protocol: 1, ICMPType: -1, ICMPCode: 3}), "needs a type"},
		{"an ICMP type that is none", service(overlay.Service{Protocol: 1, ICMPType: 256, ICMPCode: -1}), "end at 255"},
		{"a group in itself", overlay.Firewall{Default: overlay.Drop, Groups: []overlay.Group{{Name: "a", Members: []overlay.Member{{Group: "b"}}}, {Name: "b", Members: []overlay.Member{{Group: "a"}}}}}, "member of itself"},
		{"two groups of a name", overlay.Firewall{Default: overlay.Drop, Groups: []overlay.Group{{Name: "a"}, {Name: "a"}}}, "group a is there twice"},
		{"too many rules", overlay.Firewall{Default: overlay.Drop, Rules: make([]overlay.Rule, policy.MaxRules)}, "at most 131072 fit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := policy.Compile(c.fw, policytest.Places); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}

// A policy that would take more memory than there may be is refused, with a way out:
// ranges of IPv6 that all overlap on both sides, and begin and end anywhere.
func TestCompileRefusesTheBoundless(t *testing.T) {
	r := policytest.NewRand(8)
	member := func() []overlay.Member {
		var vports [2]netip.Addr
		for i := range vports {
			a := netip.MustParseAddr("2001:db8::").As16()
			a[4] = byte(100 * i)
			for k := 5; k < 16; k++ {
				a[k] = byte(r.IntN(256))
			}
			vports[i] = netip.AddrFrom16(a)
		}
		return []overlay.Member{{Range: overlay.AddrRange{First: vports[0], Last: vports[1]}}}
	}
	fw := overlay.Firewall{Default: overlay.Drop}
	for i := range 600 {
		fw.Rules = append(fw.Rules, overlay.Rule{Name: fmt.Sprint("r", i), Verdict: overlay.Allow, Direction: overlay.Both, From: member(), To: member()})
	}
	if _, err := policy.Compile(fw, policytest.Places); err == nil || !strings.Contains(err.Error(), "overlap") || !strings.Contains(err.Error(), "use fewer") {
		t.Errorf("error %v does not say what to do", err)
	}
}

// Numbers that do not belong to the policy are refused; a place without one is not there.
func TestCompiledNumbers(t *testing.T) {
	p, err := policy.Compile(policytest.Tables()[0].Firewall(), policytest.Places)
	if err != nil {
		t.Fatal(err)
	}
	rules := make([]uint32, len(p.Rules()))
	for i := range rules {
		rules[i] = uint32(i + 1)
	}
	bad := append([]uint32{0}, rules[1:]...)
	for _, c := range []struct {
		name string
		n    policy.Numbers
		want string
	}{
		{"too few", policy.Numbers{Rules: rules[1:]}, "numbers are given"},
		{"rule 0", policy.Numbers{Rules: bad}, "number 0"},
		{"two places at one end", policy.Numbers{Rules: rules, Vports: map[string]uint16{"p0": 3, "p1": 3}}, "which another one has"},
		{"no places at all", policy.Numbers{Rules: rules}, ""},
	} {
		compiled, err := p.Compiled(c.n)
		if c.want == "" && (err != nil || len(compiled) == 0) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// The numbers that bpf/firewall/policy_image.h shares with this package.
func TestSameAsClassify(t *testing.T) {
	defined := map[string]uint64{}
	for _, file := range []string{"firewall/policy_image.h", "abi/conntrack.h", "abi/nat.h", "abi/routing.h", "abi/forwarding.h"} {
		text, err := os.ReadFile("../../bpf/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^#define (\w+) \(?(0x[0-9a-f]+|[0-9]+)[UL]*( << ([0-9]+)\))?`).FindAllStringSubmatch(string(text), -1) {
			n, err := strconv.ParseUint(m[2], 0, 64)
			if err != nil {
				t.Fatal(err)
			}
			if m[4] != "" {
				shift, err := strconv.Atoi(m[4])
				if err != nil {
					t.Fatal(err)
				}
				n <<= shift
			}
			defined[m[1]] = n
		}
	}
	for name, want := range policy.Shared() {
		if defined[name] != want {
			t.Errorf("%s is %d there and %d here", name, defined[name], want)
		}
	}
}

// What it takes to compile, in wall and CPU time.
//
//	go test -run - -bench Compile -benchtime 5x ./internal/policy
func BenchmarkCompile(b *testing.B) {
	for _, shape := range policytest.Shapes {
		for _, n := range []int{10, 100, 1000, 10000, 100000} {
			b.Run(fmt.Sprintf("%s/%d", shape.Name, n), func(b *testing.B) {
				fw, places := shape.Large(n), policytest.ManyPlaces()
				var p *policy.Policy
				begin := cpu(b)
				for b.Loop() {
					var err error
					if p, err = policy.Compile(fw, places); err != nil {
						b.Skip(err)
					}
				}
				b.ReportMetric(float64((cpu(b)-begin)/time.Microsecond)/1000/float64(b.N), "cpu-ms")
				b.ReportMetric(float64(policy.Size(p))/1024, "KiB")
			})
		}
	}
}

// cpu is the time that the process has had.
func cpu(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// Large policies of each shape say what they should, in Go.
func TestLargeIsEvaluate(t *testing.T) {
	for _, shape := range policytest.Shapes {
		t.Run(shape.Name, func(t *testing.T) {
			t.Parallel()
			fw, places := shape.Large(2000), policytest.ManyPlaces()
			p, err := policy.Compile(fw, places)
			if err != nil {
				t.Fatal(err)
			}
			decided := 0
			for _, o := range policytest.Openings(fw, places, policytest.NewRand(9), 300) {
				got, want := p.Evaluate(o), policy.Evaluate(fw, places, o)
				if got != want {
					t.Fatalf("%+v is judged %+v, want %+v", o, got, want)
				}
				if want.Rule < len(fw.Rules) {
					decided++
				}
			}
			if decided < 100 {
				t.Errorf("rules decide about %d of 300: too few to say anything", decided)
			}
		})
	}
}
