package layout

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/selvage/selvage/"

// Tools that ask an edge, and packages that are pure, link none of what an edge is made of; the program of
// edges links nothing of the lab, nor the lab's the daemon.
func TestImportGraph(t *testing.T) {
	bgp, bpf, netlink := "github.com/osrg/gobgp", "github.com/cilium/ebpf", "github.com/vishvananda/netlink"
	daemon, dataPath := module+"internal/edge", module+"internal/datapath"
	for pkg, never := range map[string][]string{
		"internal/api":               {bgp, bpf, daemon, dataPath},
		"internal/doctor":            {bgp, bpf, daemon, dataPath},
		"internal/observe":           {bgp, bpf, daemon, dataPath},
		"internal/plan":              {bgp, bpf, daemon, dataPath},
		"internal/fib":               {bgp, bpf, netlink, daemon, dataPath, module + "internal/host"},
		"internal/policy":            {bgp, bpf, netlink, daemon, dataPath, module + "internal/host"},
		"internal/evpn":              {bgp, bpf, netlink, daemon, dataPath, module + "internal/host"},
		"internal/rib":               {bgp, bpf, netlink, daemon, dataPath, module + "internal/host"},
		"internal/bgp":               {bpf, daemon, dataPath, module + "internal/plan"},
		"internal/apiserver":         {bgp, daemon},
		"internal/alarm":             {bgp, daemon},
		"internal/prove/proof":       {bgp, daemon},
		"internal/writer":            {bgp, daemon},
		"internal/failover":          {bgp, daemon},
		"internal/liveness":          {bgp, bpf, daemon, dataPath},
		"internal/loop":              {bgp, daemon},
		"internal/pathmtu/discovery": {bgp, daemon},
		"internal/transaction":       {bgp, daemon},
		"internal/fault":             {bgp, bpf, netlink, daemon, dataPath},
		"internal/background":        {bgp, bpf, netlink, daemon, dataPath},
		"internal/program":           {bgp, bpf, netlink, daemon, dataPath},
		"cmd/selvage":                {module + "lab"},
		"cmd/selvage-lab":            {bgp, daemon, module + "internal/cli", module + "internal/bgp", module + "internal/apiserver"},
	} {
		for _, dep := range list(t, "-deps", module+pkg) {
			if slices.ContainsFunc(never, func(n string) bool { return dep == n || strings.HasPrefix(dep, n+"/") }) {
				t.Errorf("%s links %s", pkg, dep)
			}
		}
	}
}

// An experiment is one folder, with folders of its own: it links no other, and what experiments share links none.
func TestExperimentsApart(t *testing.T) {
	const folder = module + "lab/experiment/"
	shared := []string{
		"lab/stats", "lab/chart", "lab/topo", "lab/dut", "lab/dut/evpn", "lab/dut/router", "lab/measure", "lab/diagnose", "lab/experiment", "lab/experiment/experimenttest",
		"lab/transit", "lab/inject", "lab/turns",
	}
	below := slices.DeleteFunc(list(t, folder+"..."), func(pkg string) bool {
		return slices.Contains(shared, strings.TrimPrefix(pkg, module))
	})
	// experimentOf is the name of a package's experiment, "" for others.
	experimentOf := func(pkg string) string {
		rest, _ := strings.CutPrefix(pkg, folder)
		name, _, _ := strings.Cut(rest, "/")
		if !slices.Contains(below, folder+name) {
			return ""
		}
		return name
	}
	experiments := slices.DeleteFunc(slices.Clone(below), func(pkg string) bool { return pkg != folder+experimentOf(pkg) })
	if len(experiments) < 10 {
		t.Fatalf("only %d experiments below %s: %v", len(experiments), folder, experiments)
	}
	packages := append(slices.Clone(below), module+"lab/experiments")
	for _, pkg := range shared {
		packages = append(packages, module+pkg)
	}
	for _, line := range lines(t, append([]string{"-f", `{{.ImportPath}} {{join .Deps " "}}`}, packages...)...) {
		pkg, rest, _ := strings.Cut(line, " ")
		deps := strings.Fields(rest)
		if pkg == module+"lab/experiments" {
			for _, e := range experiments {
				if !slices.Contains(deps, e) {
					t.Errorf("lab/experiments does not list %s", e)
				}
			}
			continue
		}
		for _, dep := range deps {
			if of := experimentOf(dep); of != "" && of != experimentOf(pkg) {
				t.Errorf("%s links %s of the experiment %s", pkg, dep, of)
			}
		}
	}
}

// list is what go list prints, by word; lines is the same by line.
func list(t *testing.T, args ...string) []string {
	t.Helper()
	return strings.Fields(strings.Join(lines(t, args...), " "))
}

func lines(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list"}, args...)...).Output()
	if err != nil {
		t.Fatalf("go list %s: %v", strings.Join(args, " "), err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}
