package doctor

import (
	"slices"
	"strings"
)

// studies are where figures of others are from: what findings call them, and title, author and year.
var studies = [][2]string{
	{"NSX edge study", "VMware NSX Bare Metal Edge Performance, VMware, of NSX 4.1 (nsx.techzone.vmware.com)"},
	{"FortiGate study", "VXLAN Performance on a FortiGate 70F: The Software Switching Tax, Nate, 2026 (natebent.com)"},
	{"EgressGateway study", "Egress Performance Test Report, DaoCloud, of EgressGateway (docs.daocloud.io)"},
	{"QLogic study", "Accelerating Network Virtualization Overlays with QLogic Intelligent Ethernet Adapters, Jack Poller, ESG Lab, 2016"},
}

// StudiesText names the studies that findings cite, each once; "" when they cite none.
func StudiesText(findings []Finding) string {
	var b strings.Builder
	title := "\nSTUDIES\n"
	for _, s := range studies {
		if slices.ContainsFunc(findings, func(f Finding) bool { return strings.Contains(f.Why+f.Evidence, s[0]) }) {
			b.WriteString(title)
			title = ""
			paragraph(&b, "  ", s[0]+": "+s[1])
		}
	}
	return b.String()
}
