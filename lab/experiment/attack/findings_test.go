package attack

import (
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/result"
)

// attacksRun is one round of two attacks, of which the kernel loses one; change bends it for a case.
func attacksRun(change func(*result.Result)) result.Result {
	r := result.Result{Experiment: Name, Parameters: result.Parameters{"ageing": result.Time(5 * time.Second), "bare": result.Of(result.Bool(false))}}
	for _, name := range []string{"kernel", "selvage"} {
		r.Targets = append(r.Targets, result.Target{Name: name})
		for _, caseName := range []string{"forged-icmp", "bfd-forgery"} {
			m := map[string]float64{
				Crossed: 0, Sent: 1000, KeptTCP + "_same": 1, KeptRR + "_same": 1, KeptConnections + "_same": 1, LostConnections: 0, Recovered: 0,
			}
			switch name + " " + caseName {
			case "kernel forged-icmp":
				m[KeptTCP+"_same"], m[Crossed] = 0.1, 1234
			case "kernel bfd-forgery":
				m = map[string]float64{NotApplicable: 1}
			}
			r.Samples = append(r.Samples, result.Sample{Target: name, Case: caseName, Round: 1, Metrics: m})
		}
	}
	if change != nil {
		change(&r)
	}
	return r
}

func TestAttackVerdict(t *testing.T) {
	v := verdict(attacksRun(nil))
	if v.Refused || v.String() != "Selvage withstands 2 of 2 attacks; the kernel's vxlan 0 of 1." {
		t.Errorf("%+v", v)
	}
	if len(v.Findings) != 1 || !strings.HasPrefix(v.Findings[0].String(), "forged-icmp: The kernel's vxlan: 1,234 packets crossed; TCP keeps 0.100 ×. Linux believes") {
		t.Errorf("%q", v.Findings)
	}
	v = verdict(attacksRun(func(r *result.Result) { r.Samples[2].Metrics[KeptRR+"_same"] = 3 }))
	if !strings.HasSuffix(v.String(), "Selvage loses by forged-icmp (round trips take 3.00 ×).") {
		t.Error(v.String())
	}
	v = verdict(attacksRun(func(r *result.Result) { r.Samples[3].Error = "no route" }))
	if !v.Refused || !strings.Contains(v.String(), "no route") {
		t.Errorf("%+v", v)
	}
	if v := verdict(result.Result{Experiment: Name}); !v.Refused {
		t.Errorf("%+v", v)
	}
}

// Each attack that a hardened target may lose by has words on why.
func TestAttackAdvice(t *testing.T) {
	for _, caseName := range []string{"mac-flood", "bum-storm", "arp-nd-spoof"} {
		for _, name := range []string{"kernel", "ovs", "selvage"} {
			r := attacksRun(func(r *result.Result) {
				for i := range r.Samples {
					r.Samples[i].Target, r.Samples[i].Case = name, caseName
					r.Samples[i].Metrics = map[string]float64{Crossed: 5}
				}
			})
			v := verdict(r)
			if len(v.Findings) == 0 || len(strings.Fields(v.Findings[0].String())) < 10 {
				t.Errorf("%s of %s: %q", caseName, name, v.Findings)
			}
		}
	}
}
