package topo_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/testlab"
)

// Hosts are the same on machines that are not.
func TestOtherMachines(t *testing.T) {
	testlab.OnOtherMachines(t, "TestHostsAreAlike", "TestHostsAreAlike")
}

// A host has the sysctls that beds rest on, whatever the machine has, and so have its
// interfaces.
func TestHostsAreAlike(t *testing.T) {
	t.Parallel()
	n := testlab.TwoHosts(t, topo.TwoHostsOptions{})
	for _, dir := range []string{"all", "default", "lo", topo.EndName} {
		for _, want := range []string{
			"ipv4/forwarding=0", "ipv4/rp_filter=0", "ipv4/accept_redirects=1", "ipv4/send_redirects=1", "ipv4/proxy_arp=0",
			"ipv4/arp_ignore=0", "ipv4/arp_announce=0", "ipv4/arp_accept=0", "ipv4/drop_gratuitous_arp=0",
			"ipv4/ignore_routes_with_linkdown=0", "ipv4/promote_secondaries=0",
			"ipv6/forwarding=0", "ipv6/disable_ipv6=0", "ipv6/addr_gen_mode=0", "ipv6/accept_ra=0", "ipv6/accept_dad=0", "ipv6/autoconf=0",
		} {
			setting, value, _ := strings.Cut(want, "=")
			family, name := filepath.Split(setting)
			if got, err := n.Client.SysctlGet("net/" + family + "conf/" + dir + "/" + name); err != nil || got != value {
				t.Errorf("%s of %s is %q (%v), want %s", setting, dir, got, err, value)
			}
		}
	}
	for _, key := range topo.BridgeNetfilterSysctls() {
		if got, err := n.A.SysctlGet(key); got != "0" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is %q (%v), want 0", key, got, err)
		}
	}
}
