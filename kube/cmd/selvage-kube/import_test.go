package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/kube/internal/commandline"
)

const testdata = "../../internal/importing/testdata/"

func try(t *testing.T, stdin string, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e strings.Builder
	status = self.Run(t.Context(), &commands{}, append([]string{"import"}, args...), &commandline.Streams{In: strings.NewReader(stdin), Out: &o, Err: &e})
	return status, o.String(), e.String()
}

func TestImport(t *testing.T) {
	want, err := os.ReadFile(testdata + "cilium/out.yaml")
	if err != nil {
		t.Fatal(err)
	}
	flags := []string{"-f", testdata + "cilium/in", "--uplink-interface", "eth1", "--next-hop", "203.0.113.1", "--next-hop", "203.0.113.2@bank", "--next-hop", "203.0.113.1@bank", "--address", "203.0.113.64@by-interface"}
	status, out, errs := try(t, "", flags...)
	if status != commandline.ExitOK || !strings.Contains(errs, "Cilium: while Cilium routes packets") {
		t.Errorf("status %d:\n%s", status, errs)
	}
	// Hops of a named gateway come in the order of the flags.
	if out != strings.Replace(string(want), "    - 203.0.113.1\n", "    - 203.0.113.2\n    - 203.0.113.1\n", 1) {
		t.Errorf("the output is\n%s", out)
	}

	file, report := filepath.Join(t.TempDir(), "out.yaml"), filepath.Join(t.TempDir(), "report.json")
	status, out, errs = try(t, "", append(flags, "-o", file, "--report", report, "--report-format", "json")...)
	if status != commandline.ExitOK || out != "" || errs != "" {
		t.Errorf("status %d:\n%s%s", status, out, errs)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Read, Ignored, Written map[string]int
		Notes                  []struct{ Kind, Object, Field, Value, Reason, Do string }
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if r.Read["cilium.io CiliumEgressGatewayPolicy"] != 4 || r.Written["ClusterEgressPolicy"] != 3 || len(r.Notes) == 0 || r.Notes[0].Object == "" {
		t.Errorf("%s", text)
	}
}

func TestImportFailures(t *testing.T) {
	in := testdata + "cilium/in"
	for _, c := range []struct {
		name, stdin, want string
		args              []string
	}{
		{"what is needed", "", "selvage-kube:   --next-hop ADDR@by-interface: the routers behind that interface\n", []string{"-f", in, "--uplink-interface", "eth1"}},
		{"no such gateway", "", "selvage-kube: eth1@x: there is no gateway \"x\"; there are bank, bots, by-interface\n", []string{"-f", in, "--uplink-interface", "eth1@x"}},
		{"interface", "", "a name has 1 to 15 bytes", []string{"-f", in, "--uplink-interface", "sixteen-byte-nam"}},
		{"VLAN", "", "VLAN \"4095\": it is from 1 to 4094", []string{"-f", in, "--vlan", "4095"}},
		{"next hop", "", "next hop \"x\": it is no IPv4 or IPv6 address", []string{"-f", in, "--next-hop", "x"}},
		{"nodes", "", "nodes \"a=b=c\"", []string{"-f", in, "--nodes", "a=b=c@bank"}},
		{"address", "", "address \"1-2\"", []string{"-f", in, "--address", "1-2@bank"}},
		{"exception", "", "exception \"x\"", []string{"-f", in, "--except", "x"}},
		{"no object", "kind: Pod\napiVersion: v1", "there is no egress object of a kind that is read", []string{"-f", "-"}},
		{"no YAML", "a: b: c", "stdin: document 1:", []string{"-f", "-"}},
		{"files and a cluster", "", "--kubeconfig and --context are for a cluster", []string{"-f", in, "--context", "a"}},
		{"unknown flag", "", "unknown flag --colour", []string{"--colour"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if status, out, errs := try(t, c.stdin, c.args...); status != commandline.ExitUsage || out != "" || !strings.Contains(errs, c.want) {
				t.Errorf("status %d:\n%s%s", status, out, errs)
			}
		})
	}
}
