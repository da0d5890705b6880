package preflight

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/doctor"
	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/internal/host"
)

// at is a host with an interface that is up for each address.
func at(place string, addrs ...string) *Host {
	h := &Host{Place: place}
	for _, text := range addrs {
		h.Facts.Interfaces = append(h.Facts.Interfaces, facts.Interface{Name: "i" + text, Up: true, MTU: 1500, Addrs: []netip.Prefix{netip.MustParsePrefix(text)}})
	}
	return h
}

func TestTargets(t *testing.T) {
	a := at("ssh:a", "10.0.0.1/24", "10.255.0.1/32", "172.17.0.1/16", "fe80::1/64")
	b := at("ssh:b", "10.0.0.2/24", "10.255.0.2/32", "172.17.0.1/16", "fe80::2/64", "10.9.0.2/24")
	a.Report.Inventory.Tunnels = []doctor.Tunnel{{Tunnel: host.Tunnel{Remotes: []netip.Addr{netip.MustParseAddr("10.255.0.2"), netip.MustParseAddr("10.255.0.3")}}}}
	texts := func(addrs []netip.Addr) string {
		var all []string
		for _, addr := range addrs {
			all = append(all, addr.String())
		}
		return strings.Join(all, " ")
	}
	for _, c := range []struct {
		from, to     *Host
		wanted, want string
	}{
		{a, b, "", "10.0.0.2 10.255.0.2"}, {b, a, "", "10.0.0.1"}, {a, b, "10.9.0.2", "10.9.0.2"}, {b, a, "10.9.0.2", ""},
	} {
		var wanted []netip.Addr
		if c.wanted != "" {
			wanted = []netip.Addr{netip.MustParseAddr(c.wanted)}
		}
		if diff := cmp.Diff(c.want, texts(targets(c.from, c.to, wanted))); diff != "" {
			t.Errorf("%s to %s, --probe %s (-want +got):\n%s", c.from.Place, c.to.Place, c.wanted, diff)
		}
	}
	b.Facts.Interfaces[0].Up = false
	if got := texts(targets(a, b, nil)); got != "10.255.0.2" {
		t.Errorf("with an interface that is down: %s", got)
	}
	_, err := probe(t.Context(), nil, []Host{*a, *b}, doctor.HostFlags{Probe: []netip.Addr{netip.MustParseAddr("192.0.2.9")}}, t.Output())
	if err == nil || !strings.Contains(err.Error(), "none of the hosts has the address 192.0.2.9") {
		t.Errorf("an address of nobody: %v", err)
	}
}
