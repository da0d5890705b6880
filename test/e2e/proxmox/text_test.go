package proxmox

import (
	"fmt"
	"net/netip"
	"strings"
)

// Numbers of deploy/proxmox/sdn: a zone with two VNets.
const (
	zone    = "tenant"
	zoneVNI = 10000
	as      = 65000
	zoneMAC = "bc:24:11:5a:00:01"
	between = "10.255.255." // the network between an exit node and its VRF
)

var vnets = []vnet{{"web", 10010, 0}, {"db", 10020, 1}}

// vnet is a VNet with its subnets 10.S.0.0/24 and fd00:S::/64.
type vnet struct {
	name   string
	vni    uint32
	subnet int
}

// role is what a node is in the zone.
type role struct {
	exit, primary, advertiseSubnets bool
	localRouting                    bool // of an exit node
	as                              int  // of a BGP controller of the node, 0 without
}

// frrText is /etc/frr/frr.conf as libpve-network 0.11 (Proxmox VE 8) and 1.3 (9) write it for a node. They differ in
// the version that the first line names.
func frrText(own netip.Addr, peers []netip.Addr, r role) string {
	var b strings.Builder
	number := as
	if r.as != 0 {
		number = r.as
	}
	b.WriteString("frr version 8.5.2\nfrr defaults datacenter\nhostname node\nlog syslog informational\nservice integrated-vtysh-config\n!\n!\n")
	fmt.Fprintf(&b, "vrf vrf_%s\n vni %d\nexit-vrf\n!\n", zone, zoneVNI)
	fmt.Fprintf(&b, "router bgp %d\n bgp router-id %s\n no bgp hard-administrative-reset\n no bgp default ipv4-unicast\n coalesce-time 1000\n"+
		" no bgp graceful-restart notification\n neighbor VTEP peer-group\n neighbor VTEP remote-as %s\n neighbor VTEP bfd\n", number, own, remoteAS(r))
	for _, peer := range peers {
		fmt.Fprintf(&b, " neighbor %s peer-group VTEP\n", peer)
	}
	if r.exit && !r.localRouting {
		for _, family := range []string{"ipv4", "ipv6"} {
			fmt.Fprintf(&b, " !\n address-family %s unicast\n  import vrf vrf_%s\n exit-address-family\n", family, zone)
		}
	}
	b.WriteString(" !\n address-family l2vpn evpn\n  neighbor VTEP activate\n  neighbor VTEP route-map MAP_VTEP_IN in\n" +
		"  neighbor VTEP route-map MAP_VTEP_OUT out\n  advertise-all-vni\n exit-address-family\nexit\n!\n")
	fmt.Fprintf(&b, "router bgp %d vrf vrf_%s\n bgp router-id %s\n no bgp hard-administrative-reset\n no bgp graceful-restart notification\n", number, zone, own)
	b.WriteString(r.vrfFamilies())
	b.WriteString("exit\n!\n")
	b.WriteString(r.maps())
	if r.localRouting {
		for _, v := range vnets {
			fmt.Fprintf(&b, "ip route %s %s2 xvrf_%s\n", v.network(4), between, zone)
		}
		b.WriteString("!\n")
	}
	b.WriteString("line vty\n!\n")
	return b.String()
}

func remoteAS(r role) string {
	if r.as != 0 {
		return "external"
	}
	return fmt.Sprint(as)
}

// vrfFamilies is what the zone's router exchanges.
func (r role) vrfFamilies() string {
	var b strings.Builder
	if r.advertiseSubnets && !r.exit || r.exit && !r.localRouting {
		b.WriteString(" !\n address-family ipv4 unicast\n  redistribute connected\n exit-address-family\n" +
			" !\n address-family ipv6 unicast\n  redistribute connected\n exit-address-family\n")
	}
	var lines []string
	if r.as != 0 { // the targets of the controller's AS
		lines = append(lines, fmt.Sprintf("route-target import %d:%d", as, zoneVNI), fmt.Sprintf("route-target export %d:%d", as, zoneVNI))
	}
	switch {
	case r.exit:
		lines = append(lines, "default-originate ipv4", "default-originate ipv6")
	case r.advertiseSubnets:
		lines = append(lines, "advertise ipv4 unicast", "advertise ipv6 unicast")
	}
	if len(lines) > 0 {
		b.WriteString(" !\n address-family l2vpn evpn\n  " + strings.Join(lines, "\n  ") + "\n exit-address-family\n")
	}
	return b.String()
}

// maps are the filters of default routes: a primary exit node takes none, another one advertises its own behind that.
func (r role) maps() string {
	lists := "ip prefix-list only_default seq 1 permit 0.0.0.0/0\n!\nipv6 prefix-list only_default_v6 seq 1 permit ::/0\n!\n"
	match := func(name, action string, set string) string {
		return fmt.Sprintf("route-map %[1]s %[2]s 1\n match ip address prefix-list only_default\n%[3]sexit\n!\n"+
			"route-map %[1]s %[2]s 2\n match ipv6 address prefix-list only_default_v6\n%[3]sexit\n!\n", name, action, set)
	}
	all := func(name string, number int) string {
		return fmt.Sprintf("route-map %s permit %d\nexit\n!\n", name, number)
	}
	switch {
	case r.exit && r.primary:
		return lists + match("MAP_VTEP_IN", "deny", "") + all("MAP_VTEP_IN", 3) + all("MAP_VTEP_OUT", 1)
	case r.exit:
		return lists + all("MAP_VTEP_IN", 1) + match("MAP_VTEP_OUT", "permit", " set metric 200\n") + all("MAP_VTEP_OUT", 3)
	}
	return all("MAP_VTEP_IN", 1) + all("MAP_VTEP_OUT", 1)
}

// network is the VNet's of a family.
func (v vnet) network(family int) netip.Prefix { return v.gateway(family).Masked() }

// gateway is the address of the VNet's bridge on every node.
func (v vnet) gateway(family int) netip.Prefix {
	if family == 4 {
		return netip.MustParsePrefix(fmt.Sprintf("10.%d.0.254/24", v.subnet))
	}
	return netip.MustParsePrefix(fmt.Sprintf("fd00:%x::fe/64", v.subnet))
}

// interfacesText is /etc/network/interfaces.d/sdn, as the same versions write it. An exit node without
// exitnodes-local-routing has the default route of its VRF go, so that the main table is asked, and translates.
func interfacesText(own netip.Addr, r role, out string, outAddr netip.Addr) string {
	var b strings.Builder
	b.WriteString("#version:1\n")
	stanza := func(name string, lines ...string) {
		fmt.Fprintf(&b, "\nauto %s\niface %[1]s\n", name)
		for _, line := range lines {
			fmt.Fprintf(&b, "\t%s\n", line)
		}
	}
	for _, v := range vnets {
		var lines []string
		for _, family := range []int{4, 6} {
			lines = append(lines, "address "+v.gateway(family).String())
			if r.exit && family == 4 {
				for _, way := range []string{"post-up iptables -t nat -A", "post-down iptables -t nat -D"} {
					lines = append(lines, fmt.Sprintf("%s POSTROUTING -s '%s' -o %s -j SNAT --to-source %s", way, v.network(4), out, outAddr))
				}
			}
		}
		stanza(v.name, append(lines, "hwaddress "+strings.ToUpper(zoneMAC), "bridge_ports vxlan_"+v.name, "bridge_stp off", "bridge_fd 0", "mtu 1450",
			"ip-forward on", "ip6-forward on", "arp-accept on", "vrf vrf_"+zone)...)
	}
	way := "add"
	if r.exit {
		way = "del"
	}
	stanza("vrf_"+zone, "vrf-table auto", fmt.Sprintf("post-up ip route %s vrf vrf_%s unreachable default metric 4278198272", way, zone))
	stanza("vrfbr_"+zone, "bridge-ports vrfvx_"+zone, "bridge_stp off", "bridge_fd 0", "mtu 1450", "vrf vrf_"+zone)
	tunnel := func(name string, vni uint32) {
		stanza(name, fmt.Sprintf("vxlan-id %d", vni), fmt.Sprintf("vxlan-local-tunnelip %s", own), "bridge-learning off", "bridge-arp-nd-suppress on", "mtu 1450")
	}
	tunnel("vrfvx_"+zone, zoneVNI)
	for _, v := range vnets {
		tunnel("vxlan_"+v.name, v.vni)
	}
	return b.String()
}
