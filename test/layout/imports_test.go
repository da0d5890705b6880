package layout

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/selvage/selvage/"

// Tools that ask an edge, and packages that are pure, link none of what an edge is made of.
func TestImportGraph(t *testing.T) {
	bgp, bpf, netlink := "github.com/osrg/gobgp", "github.com/cilium/ebpf", "github.com/vishvananda/netlink"
	daemon, dataPath := module+"internal/edge", module+"internal/datapath"
	for pkg, never := range map[string][]string{
		"internal/api":              {bgp, bpf, daemon, dataPath},
		"internal/doctor":           {bgp, bpf, daemon, dataPath},
		"internal/observe":          {bgp, bpf, daemon, dataPath},
		"internal/plan":             {bgp, bpf, daemon, dataPath},
		"internal/fib":              {bgp, bpf, netlink, daemon, dataPath, module + "internal/host"},
		"internal/policy":           {bgp, bpf, netlink, daemon, dataPath, module + "internal/host"},
		"internal/evpn":             {bgp, bpf, netlink, daemon, dataPath, module + "internal/host"},
		"internal/rib":              {bgp, bpf, netlink, daemon, dataPath, module + "internal/host"},
		"internal/bgp":              {bpf, daemon, dataPath, module + "internal/plan"},
		"internal/apiserver":        {bgp, daemon},
		"internal/offload/schedule": {bgp, bpf, daemon, dataPath},
		"internal/alarm":            {bgp, daemon},
		"internal/prove/proof":      {bgp, daemon},
	} {
		out, err := exec.Command("go", "list", "-deps", module+pkg).Output()
		if err != nil {
			t.Fatalf("list what %s imports: %v", pkg, err)
		}
		for _, dep := range strings.Fields(string(out)) {
			if slices.ContainsFunc(never, func(n string) bool { return dep == n || strings.HasPrefix(dep, n+"/") }) {
				t.Errorf("%s links %s", pkg, dep)
			}
		}
	}
}
