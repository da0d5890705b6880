package doctor

import "github.com/selvage/selvage/internal/cilium"

// PodLink is the interface by which selvage-kube leads packets of pods to the edge of their node.
const PodLink = "selvage0"

// checkPods looks for a CNI plugin that forwards past the host's stack.
func checkPods(inv *Inventory) []Finding {
	switch inv.HostRouting {
	case "":
		return nil
	case cilium.Legacy:
		return []Finding{good("pod-routing", "host", "Cilium has the host route packets of pods (legacy host routing)")}
	}
	f := Finding{
		Check: "pod-routing", Severity: Note, Subject: "host",
		What:     "Cilium has packets of pods go past the host's routing (BPF host routing)",
		Evidence: "GET /v1/healthz at " + cilium.Socket + ": host routing " + string(inv.HostRouting),
		Why: "Routes, rules and netfilter of the host do not see these packets (Cilium since 1.9, on Linux 5.10 and newer), so nothing that steers by them " +
			"works for pods: selvage-kube cannot lead them to an egress gateway. Cilium is faster this way; measure what legacy host routing costs.",
		Measure: []string{"kubectl -n kube-system exec ds/cilium -- cilium-dbg status  # Routing, or Host Routing", iperf},
	}
	if _, steers := inv.link(PodLink); steers {
		f.Severity = Fault
		f.What += ", and selvage-kube runs here: no egress policy holds for pods of this node"
		f.Change = []string{
			"helm upgrade cilium cilium/cilium --namespace kube-system --reuse-values --set bpf.hostLegacyRouting=true",
			"kubectl -n kube-system rollout restart daemonset/cilium",
		}
	}
	return []Finding{f}
}
