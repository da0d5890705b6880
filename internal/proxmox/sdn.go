package proxmox

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// sdn is the network of a cluster, as its files say it.
type sdn struct {
	controllers, zones, vnets []section
	subnets                   []subnet
}

// subnet is a network of a VNet.
type subnet struct {
	section
	prefix  netip.Prefix
	gateway netip.Addr
}

// knows is what properties were written down from; testdata/api.txt records the names.
const knows = "libpve-network-perl 0.11 to 1.3 and the API of Proxmox VE 9 as of May 2026"

// properties of each kind of section, of Proxmox VE 8 and 9.
var properties = map[string][]string{
	"zone evpn": {
		"nodes", "vrf-vxlan", "controller", "secondary-controllers", "exitnodes", "exitnodes-local-routing", "exitnodes-primary", "advertise-subnets",
		"disable-arp-nd-suppression", "bridge-disable-mac-learning", "rt-import", "vxlan-port", "mtu", "mac", "dns", "reversedns", "dnszone", "ipam", "dhcp",
	},
	"zone vxlan":      {"nodes", "peers", "vxlan-port", "mtu", "dns", "reversedns", "dnszone", "ipam", "fabric", "dhcp"},
	"controller evpn": {"asn", "peers", "fabric", "nodes", "peer-group-name", "bgp-mode", "ebgp-multihop", "route-map-in", "route-map-out"},
	"controller bgp":  {"node", "asn", "peers", "bgp-multipath-as-path-relax", "ebgp", "ebgp-multihop", "loopback", "route-map-in", "route-map-out"},
	"vnet vnet":       {"zone", "tag", "alias", "vlanaware", "isolate-ports", "type"},
	"subnet subnet":   {"vnet", "gateway", "snat", "dnszoneprefix", "dhcp-range", "dhcp-dns-server"},
}

// kinds that have no tunnel, or none that concerns an edge: they are not carried.
var otherKinds = map[string][]string{"zone": {"simple", "vlan", "qinq", "faucet"}, "controller": {"isis", "faucet"}}

// load reads the four files.
func load(dir string) (*sdn, error) {
	n := &sdn{}
	for _, f := range []struct {
		name, what string
		into       *[]section
	}{{"controllers.cfg", "controller", &n.controllers}, {"zones.cfg", "zone", &n.zones}, {"vnets.cfg", "vnet", &n.vnets}} {
		sections, err := read(dir, f.name)
		if err != nil {
			return nil, err
		}
		for _, s := range sections {
			if err := check(f.what, s); err != nil {
				return nil, err
			}
		}
		*f.into = sections
	}
	if len(n.zones) == 0 {
		return nil, fmt.Errorf("%s: there is no zone: name the directory of zones.cfg, which is /etc/pve/sdn on a node", dir)
	}
	subnets, err := read(dir, "subnets.cfg")
	if err != nil {
		return nil, err
	}
	for _, s := range subnets {
		if err := check("subnet", s); err != nil {
			return nil, err
		}
		parsed, err := parseSubnet(s)
		if err != nil {
			return nil, err
		}
		n.subnets = append(n.subnets, parsed)
	}
	return n, n.refer()
}

// idPattern is what Proxmox calls a zone or a VNet.
var idPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{1,7}$`)

func check(what string, s section) error {
	if (what == "zone" || what == "vnet") && !idPattern.MatchString(s.id) {
		return fmt.Errorf("%s:%d: %q is no name of a %s: it has two to eight letters and digits", s.file, s.line, s.id, what)
	}
	known, is := properties[what+" "+s.kind]
	if !is {
		if slices.Contains(otherKinds[what], s.kind) {
			return nil
		}
		return fmt.Errorf("%s:%d: a %s of type %q is unknown, and so what an edge has to do for it: this import knows %s", s.file, s.line, what, s.kind, knows)
	}
	return s.known(known...)
}

// refer checks that what names something names what is there.
func (n *sdn) refer() error {
	for _, v := range n.vnets {
		if _, is := find(n.zones, v.get("zone")); !is {
			return v.wrong("zone", "there is no zone %q", v.get("zone"))
		}
	}
	for _, s := range n.subnets {
		if _, is := find(n.vnets, s.get("vnet")); !is {
			return s.wrong("vnet", "there is no VNet %q", s.get("vnet"))
		}
	}
	return nil
}

func find(all []section, id string) (section, bool) {
	i := slices.IndexFunc(all, func(s section) bool { return s.id == id })
	if i < 0 {
		return section{}, false
	}
	return all[i], true
}

// parseSubnet reads "ZONE-10.0.0.0-24", or a plain prefix as older versions wrote it.
func parseSubnet(s section) (n subnet, err error) {
	n = subnet{section: s}
	text := s.id
	if !strings.Contains(text, "/") {
		parts := strings.Split(text, "-")
		if len(parts) != 3 {
			return n, s.wrong("", "it is not ZONE-ADDRESS-LENGTH")
		}
		text = parts[1] + "/" + parts[2]
	}
	if n.prefix, err = netip.ParsePrefix(text); err != nil {
		return n, s.wrong("", "%v", err)
	}
	if gateway := s.get("gateway"); gateway != "" {
		if n.gateway, err = netip.ParseAddr(gateway); err != nil {
			return n, s.wrong("gateway", "%v", err)
		}
		if !n.prefix.Contains(n.gateway) {
			return n, s.wrong("gateway", "%s is not in %s", gateway, n.prefix)
		}
	}
	return n, nil
}

// number is an integer of a property within limits; it has to be there.
func (s section) number(name string, least, most uint64) (uint64, error) {
	text := s.get(name)
	if text == "" {
		return 0, s.wrong(name, "it has no %s", name)
	}
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil || value < least || value > most {
		return 0, s.wrong(name, "%s %q is not a number from %d to %d", name, text, least, most)
	}
	return value, nil
}

// addresses are the IP addresses of a property.
func (s section) addresses(name string) (all []netip.Addr, err error) {
	for _, text := range s.list(name) {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return nil, s.wrong(name, "%v", err)
		}
		all = append(all, addr)
	}
	return all, nil
}

// mac is the MAC address of a property, "" without, as the configuration writes it.
func (s section) mac(name string) (string, error) {
	text := s.get(name)
	if text == "" {
		return "", nil
	}
	mac, err := net.ParseMAC(text)
	if err != nil || len(mac) != 6 {
		return "", s.wrong(name, "%q is not a MAC address", text)
	}
	return mac.String(), nil
}
