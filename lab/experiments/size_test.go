package experiments

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/rfc2544"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/sizing"
	"github.com/selvage/selvage/lab/transit"
)

// size runs the command as a user does.
func size(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var c Size
	parser, err := kong.New(&c, kong.Exit(func(int) { t.Fatal("exit") }))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(args); err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = c.Run(&experiment.Console{Out: &out, Err: &out})
	return out.String(), err
}

func TestSize(t *testing.T) {
	r := result.Result{Schema: result.Schema, Experiment: rfc2544.Name}
	for caseName, mpps := range map[string]float64{"encap-64": 1.5, "encap-1518": 0.75} {
		r.Samples = append(r.Samples, result.Sample{Target: "selvage", Case: caseName, Round: 1, Metrics: map[string]float64{transit.MppsPerCore: mpps}})
	}
	name := filepath.Join(t.TempDir(), "result.json")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := result.Write(f, r); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		want []string
	}{
		{"--gbps 100 --mpps-per-core 1.2", []string{"edges 3 1 of them spare; limited by: cores", "packets 23.5 Mpps", "(--mpps-per-core)", "half the cores are for the data path", "(the NSX edge study)"}},
		{"--gbps 100 --from " + name, []string{"measured: encap of selvage, between 64 and 1518 bytes", "in the tunnel 562 bytes a frame (vxlan on IPv4), 109 Gbit/s"}},
		{"--gbps 40 --mpps-per-core 1 --encap nvgre --family 6", []string{"in the tunnel 574 bytes a frame (nvgre on IPv6)"}},
		{"--gbps 900 --frame 64 --mpps-per-core 2 --load 100", []string{"limited by: cluster rule", "divide the destinations among"}},
		{"--gbps 90 --mpps-per-core 9 --pcie gen3x8", []string{"limited by: PCIe"}},
	} {
		out, err := size(t, strings.Fields(c.args)...)
		flat := strings.Join(strings.Fields(out), " ")
		for _, want := range c.want {
			if err != nil || !strings.Contains(flat, want) {
				t.Errorf("%s: %v, no %q in\n%s", c.args, err, want, out)
			}
		}
	}
	out, err := size(t, "--gbps", "100", "--mpps-per-core", "1.2", "-o", "json")
	var plan sizing.Plan
	if err != nil || json.Unmarshal([]byte(out), &plan) != nil || plan.Edges != 3 || len(plan.Rules) == 0 {
		t.Errorf("%v, %s", err, out)
	}
}

func TestSizeErrors(t *testing.T) {
	for args, want := range map[string]string{
		"--mpps-per-core 1": "--gbps",
		"--gbps 100":        "one is needed",
		"--gbps 100 --from size.go --mpps-per-core 1":      "give one of them",
		"--gbps 100 --from size.go":                        "not a JSON document",
		"--gbps 100 --from /nonexistent.json":              "no such file",
		"--gbps 100 --mpps-per-core 1 --pcie gen9x9":       `--pcie: no PCIe slot is named "gen9x9"`,
		"--gbps 100 --mpps-per-core 1 --cores-per-host 7":  "7 cores a host are not within 8 … 64",
		"--gbps 100 --mpps-per-core 1 --frame 9300":        "not within 64 … 9216",
		"--gbps 100 --mpps-per-core 1 --load 0":            "planning with 0",
		"--gbps 100 --mpps-per-core=-1":                    "-1 Mpps a core is not above 0",
		"--gbps 100 --mpps-per-core 1 --ports 2 --slots 4": "4 PCIe slots for 2 ports",
		"--gbps 100 --mpps-per-core 1 --encap gre":         "--encap must be one of",
	} {
		if _, err := size(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
}
