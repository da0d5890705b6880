package monitoring

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// notPlanted are alerts for which no fault is planted here, and why. In deploy/prometheus each has its cases.
var notPlanted = map[string]string{
	"SelvageEdgeHangs":            "a loop that hangs takes a fault in the program",
	"SelvageApplyFails":           "writing of tables fails where the kernel has no memory",
	"SelvageLogLost":              "the log is a file here, which takes everything",
	"SelvageBFDFlaps":             "a path that failed is held back for longer each time",
	"SelvageFlowCacheThrashes":    "needs two intervals of 10 s",
	"SelvageReplicationBehind":    "sessions are told faster than they are scraped",
	"SelvageReplicationConflicts": "two gateways would have to serve one source",
	"SelvageFirewallAlarm":        "needs a thousand connections, which end",
	"SelvageBGPFlaps":             "a session that is lost four times takes longer",
	"SelvageBGPOverflows":         "needs a neighbour that tells of a hundred thousand routes",
	"SelvageBGPMalformed":         "FRR tells nothing malformed",
	"SelvageBGPNoRoom":            "needs more routes than the smallest table",
	"SelvageBGPProblemRoutes":     "both edges are configured alike",
	"SelvageBGPSlow":              "routes come faster",
}

// A Prometheus scrapes edges in which faults are planted: alerts fire for them, and no panel of a dashboard is empty.
func TestAlertsAndDashboards(t *testing.T) {
	t.Parallel()
	out, l := outside(t)
	bgp, leaves := fabric(t)
	names := map[string]string{} // of edges, by instance
	var targets []target
	for _, h := range []string{"edge1", "edge2", "edge3"} {
		targets, names[h] = append(targets, bySocket(h, out.Edges[h])), out.Edges[h].Name
	}
	for i, e := range leaves.Edges {
		instance := []string{"leaf1", "leaf2"}[i]
		targets, names[instance] = append(targets, bySocket(instance, e.Edge)), e.Edge.Name
	}
	targets[0].dial, targets[0].more = l.from(out.Hosts[0]), l.scrape()
	s := startPrometheus(out.Network, targets...)
	s.scraped(len(targets))
	s.edgesCanBeChosen(names)
	// Gateways have just come; files of the lab may be read by all users; an address cannot be had; the certificate ends soon.
	s.quiet("SelvageFailover", "SelvageGatewayFlaps", "SelvageEdgeDegraded", "SelvageCertificateEnds", "SelvageCertificateEndsNow", "SelvageListenerDown")

	want := slices.Concat([]string{"SelvageListenerDown edge1"}, guestsMisbehave(out), configurationsAreWrong(out), gatewayIsLost(out), l.strangers(out),
		hostIsRestless(bgp, leaves), reflectorIsLost(bgp, leaves), edgeRestarts(bgp, leaves, s))
	s.fires(30*time.Second, want...)
	s.everyPanelHasData()
	allArePlanted(t, want)
}

// allArePlanted: of every alert there is a fault, or a reason why not.
func allArePlanted(t *testing.T, planted []string) {
	t.Helper()
	rules, err := os.ReadFile("../../../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`(?m)^ *- alert: (\w+)$`).FindAllStringSubmatch(string(rules), -1) {
		is := slices.ContainsFunc(planted, func(p string) bool { return strings.Fields(p)[0] == found[1] })
		if is == (notPlanted[found[1]] != "") {
			t.Errorf("%s: planted is %t, and the reason why not is %q", found[1], is, notPlanted[found[1]])
		}
	}
}
