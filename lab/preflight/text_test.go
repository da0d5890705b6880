package preflight

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/doctor"
	"github.com/selvage/selvage/internal/doctor/compare"
	"github.com/selvage/selvage/internal/doctor/fix"
)

// An offload that one host alone has off stands between the hosts, and not at that host again.
func TestOffloadOnce(t *testing.T) {
	turn := func(iface, feature string) []fix.Fix {
		return []fix.Fix{{Interface: iface, Do: fix.Run("ethtool", "-K", iface, feature, "on")}}
	}
	r := Report{Hosts: []Host{{Place: "ssh:a"}, {Place: "ssh:b"}}}
	r.Hosts[1].Report.Findings = []doctor.Finding{
		{Check: "offloads", Severity: doctor.Warning, What: "it is off, as between them", Fixes: turn("eth0", "tx")},
		{Check: "offloads", Severity: doctor.Warning, What: "it is off here too", Fixes: turn("eth1", "tx"), Why: "The QLogic study: much."},
	}
	r.Between.Findings = []compare.Finding{{At: "ssh:b", Finding: doctor.Finding{Check: "offloads", Severity: doctor.Warning, Fixes: turn("eth0", "tx-checksum-ip-generic")}}}
	text := r.text()
	if strings.Contains(text, "as between them") || !strings.Contains(text, "off here too") || !strings.Contains(text, "\nSTUDIES\n  QLogic study: ") {
		t.Error(text)
	}
}
