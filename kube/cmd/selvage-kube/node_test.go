package main

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/kube/internal/commandline"
)

// Flags of adoption that no gateway could have end the controller before it asks a cluster.
func TestAdoptFlags(t *testing.T) {
	for flags, want := range map[string]string{
		"--adopt-next-hop=198.51.100.1":                       "flags of --adopt are for --adopt-egressgateway: give it, too",
		"--adopt-egressgateway --adopt-next-hop=router@a":     `next hop "router": it is no IPv4 or IPv6 address`,
		"--adopt-egressgateway --adopt-vlan=4095":             `VLAN "4095": it is from 1 to 4094`,
		"--adopt-egressgateway --adopt-except=all":            `exception "all"`,
		"--adopt-egressgateway --adopt-when-no-gateway=Never": "must be one of",
	} {
		var errs strings.Builder
		status := self.Run(t.Context(), &commands{}, append([]string{"controller"}, strings.Fields(flags)...), &commandline.Streams{Out: &errs, Err: &errs})
		if status != commandline.ExitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: status %d, %s, want %s", flags, status, errs.String(), want)
		}
	}
}
