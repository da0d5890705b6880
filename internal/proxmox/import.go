package proxmox

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"
)

// Options say which edge of the cluster's network is wanted.
type Options struct {
	Name      string     // of the edge; as an exit node it may be a node's in zones.cfg
	TEP       netip.Addr // of the edge, one of the controller's peers
	Interface string     // of the underlay
	Zones     []string   // of the cluster; none is all
	Peers     []netip.Addr
	// Exit has the edge be an exit node of its one zone.
	Exit *Exit
}

// Exit is the way out of an exit node.
type Exit struct {
	Interface string
	Addresses []netip.Prefix
	Gateways  []netip.Addr
}

// Result is a configuration, and what of the files it does not have and why.
type Result struct {
	YAML  string
	Notes []string
}

// Import reads the files of a directory and writes the configuration of an edge.
func Import(dir string, o Options) (Result, error) {
	n, err := load(dir)
	if err != nil {
		return Result{}, err
	}
	i := &importer{sdn: n, Options: o}
	if err := i.choose(); err != nil {
		return Result{}, err
	}
	if err := i.read(); err != nil {
		return Result{}, err
	}
	return Result{YAML: i.yaml(dir), Notes: i.notes}, nil
}

// importer holds what has been read of the chosen zones.
type importer struct {
	*sdn
	Options
	chosen   []section
	notes    []string
	peers    []netip.Addr // of the EVPN controller, without this edge
	as       uint64
	speaker  section // the EVPN controller that peers and as are from
	segments []segment
	routers  []router
}

type segment struct {
	name, router, mac string
	vni, port         uint64
	gateways          []netip.Prefix
	remotes           []netip.Addr // of a VXLAN zone
	suppress, tagged  bool
}

type router struct {
	name      string
	vni, port uint64
	imports   []string
	advertise []string
	exit      bool
	backup    bool           // another exit node is the primary one
	nat       bool           // a subnet has snat
	plain     []section      // subnets that do not have it
	apart     []netip.Prefix // networks of other zones, to which an exit node does not route
}

// note remembers what is not carried.
func (i *importer) note(s section, format string, args ...any) {
	text := fmt.Sprintf("%s %s: %s", s.kind, s.id, fmt.Sprintf(format, args...))
	if !slices.Contains(i.notes, text) {
		i.notes = append(i.notes, text)
	}
}

// choose selects the zones.
func (i *importer) choose() error {
	for _, name := range i.Zones {
		zone, is := find(i.zones, name)
		if !is {
			return fmt.Errorf("there is no zone %q; there are %s", name, strings.Join(names(i.zones), ", "))
		}
		if zone.kind != "evpn" && zone.kind != "vxlan" {
			return zone.wrong("", "a zone without tunnels stays with its node: choose one of type evpn or vxlan")
		}
		i.chosen = append(i.chosen, zone)
	}
	for _, zone := range i.zones {
		switch {
		case len(i.Zones) > 0:
		case zone.kind == "evpn", zone.kind == "vxlan":
			i.chosen = append(i.chosen, zone)
		default:
			i.note(zone, "a zone without tunnels stays with its node")
		}
	}
	switch evpn := slices.DeleteFunc(slices.Clone(i.chosen), func(s section) bool { return s.kind != "evpn" }); {
	case len(i.chosen) == 0:
		return errors.New("there is no zone of type evpn or vxlan")
	case i.Exit != nil && (len(evpn) != 1 || len(i.chosen) != 1):
		return errors.New("an exit node has an uplink for each zone: choose one zone of type evpn by --zone, and add the others by hand")
	}
	return nil
}

func names(all []section) (names []string) {
	for _, s := range all {
		names = append(names, s.id)
	}
	return names
}

// read reads the chosen zones.
func (i *importer) read() error {
	for _, zone := range i.chosen {
		read := i.evpnZone
		if zone.kind == "vxlan" {
			read = i.vxlanZone
		}
		if err := read(zone); err != nil {
			return err
		}
		for _, v := range i.vnets {
			if v.get("zone") != zone.id {
				continue
			}
			if err := i.vnet(zone, v); err != nil {
				return err
			}
		}
	}
	if len(i.segments) == 0 {
		return errors.New("the chosen zones have no VNet")
	}
	for _, r := range i.routers {
		for _, s := range r.plain {
			if r.nat {
				i.note(s, "it has no snat and others of the zone do: masquerade of the uplink translates this one too; an egress policy chooses by source")
			}
		}
	}
	return nil
}

// always are properties of zones that have no meaning for an edge.
func (i *importer) always(zone section) {
	for _, p := range []struct{ name, why string }{
		{"mtu", "an edge takes the MTU of the underlay; give ports the MTU of the zone"},
		{"ipam", "addresses are given by Proxmox alone: give ports theirs by allowed"},
		{"dns", "names are registered by Proxmox alone"},
		{"nodes", "it says which nodes of the cluster have the zone"},
		{"dhcp", "a node serves DHCP to its own guests alone"},
	} {
		if value := zone.get(p.name); value != "" && (p.name != "ipam" || value != "pve") {
			i.note(zone, "%s %s is not carried: %s", p.name, value, p.why)
		}
	}
}

// vxlanZone: its peers are remotes of each VNet. There is no BGP.
func (i *importer) vxlanZone(zone section) error {
	i.always(zone)
	if zone.get("fabric") != "" && len(i.Options.Peers) == 0 {
		return zone.wrong("fabric", "its nodes are those of a fabric, which is in another file: name their addresses by --peer")
	}
	return nil
}

// evpnZone makes a router of a zone.
func (i *importer) evpnZone(zone section) (err error) {
	i.always(zone)
	if err := i.controller(zone); err != nil {
		return err
	}
	r := router{name: zone.id, advertise: []string{}}
	if r.vni, err = zone.number("vrf-vxlan", 1, 1<<24-1); err != nil {
		return err
	}
	if r.port, err = i.port(zone); err != nil {
		return err
	}
	if imports := zone.list("rt-import"); len(imports) > 0 {
		r.imports = append([]string{fmt.Sprintf("%d:%d", i.as, r.vni)}, imports...)
	}
	if zone.on("advertise-subnets") {
		r.advertise = append(r.advertise, "connected")
	}
	if zone.on("bridge-disable-mac-learning") {
		i.note(zone, "bridge-disable-mac-learning is not carried: give ports allowed, which drops what has another MAC address")
	}
	primary := zone.get("exitnodes-primary")
	if i.Exit != nil {
		r.exit, r.advertise = true, append(r.advertise, "static")
		r.backup = primary != "" && primary != i.Name
		r.apart = i.otherNetworks(zone)
		if zone.on("exitnodes-local-routing") {
			i.note(zone, "exitnodes-local-routing is not carried: the host of an edge is not in the zone; give it an address behind a port")
		}
	} else if exits := zone.list("exitnodes"); slices.Contains(exits, i.Name) {
		i.note(zone, "%s is an exit node, and no uplink is given: it becomes a member; --uplink, --uplink-address and --uplink-gateway make it an exit node", i.Name)
	}
	i.routers = append(i.routers, r)
	return nil
}

// otherNetworks are networks of other zones: an exit node of Proxmox has null routes for them.
func (i *importer) otherNetworks(zone section) (all []netip.Prefix) {
	for _, s := range i.subnets {
		if v, _ := find(i.vnets, s.get("vnet")); v.get("zone") != zone.id {
			all = append(all, s.prefix.Masked())
		}
	}
	return all
}

// controller reads the BGP of a zone. Proxmox VE 9 may have several EVPN controllers, and an edge has one AS.
func (i *importer) controller(zone section) (err error) {
	c, is := find(i.controllers, zone.get("controller"))
	if !is || c.kind != "evpn" {
		return zone.wrong("controller", "there is no controller %q of type evpn", zone.get("controller"))
	}
	if i.speaker.id != "" && i.speaker.id != c.id {
		return zone.wrong("controller", "the controller %s is another than %s of the zones before, and an edge is of one: choose zones by --zone", c.id, i.speaker.id)
	}
	i.speaker = c
	if err := i.session(c); err != nil {
		return err
	}
	if err := i.secondary(zone); err != nil {
		return err
	}
	if i.as, err = c.number("asn", 1, 1<<32-2); err != nil {
		return err
	}
	peers := i.Options.Peers
	if len(peers) == 0 {
		if peers, err = c.addresses("peers"); err != nil {
			return err
		}
	}
	if len(peers) == 0 {
		return c.wrong("fabric", "its peers are the nodes of a fabric, which is in another file: name their addresses by --peer")
	}
	if i.peers = slices.DeleteFunc(slices.Clone(peers), func(a netip.Addr) bool { return a == i.TEP }); len(i.peers) == len(peers) {
		i.note(c, "%s is not among its peers: the nodes refuse a session until it is (Datacenter, SDN, Options, Controllers; then Apply)", i.TEP)
	}
	if len(i.peers) == 0 {
		return c.wrong("peers", "there is no peer besides %s", i.TEP)
	}
	i.others(c)
	return nil
}

// others notes what the controllers of nodes mean beside an EVPN controller.
func (i *importer) others(c section) {
	for _, other := range i.controllers {
		switch {
		case other.kind == "bgp" && other.get("asn") != c.get("asn"):
			i.note(other, "node %s has AS %s: set as %[2]s of the neighbour that it is", other.get("node"), other.get("asn"))
		case other.kind == "bgp":
			i.note(other, "sessions of node %s with routers of the underlay stay there; those of an edge are neighbours with an uplink", other.get("node"))
		case other.kind != "evpn":
			i.note(other, "the routing of the underlay is the host's own")
		}
	}
}

// secondary looks at the other controllers of a zone: routes of sessions in one AS are not passed on.
func (i *importer) secondary(zone section) error {
	for _, id := range zone.list("secondary-controllers") {
		if other, is := find(i.controllers, id); !is || other.get("bgp-mode") != "external" {
			return zone.wrong("secondary-controllers", "sessions of %s are not of bgp-mode external, so that nodes do not pass on its routes: write its peers as bgp.neighbours by hand, "+
				"and import a copy of the directory without the line", id)
		}
		i.note(zone, "secondary-controllers %s is not carried: the nodes that have its sessions pass on its routes", id)
	}
	return nil
}

// session says what properties of a controller, which are newer than Proxmox VE 9.1, mean for sessions with the edge.
func (i *importer) session(c section) error {
	if c.get("bgp-mode") == "external" {
		return c.wrong("bgp-mode", "bgp-mode external has the nodes take sessions from another AS alone, and which one the edge has is not in these files: write bgp by hand, "+
			"with as and ebgpMultihop of each neighbour, and import a copy of the directory without the line")
	}
	for _, name := range []string{"route-map-in", "route-map-out"} {
		if c.get(name) != "" {
			return c.wrong(name, "%s %s chooses the routes of the overlay, and its entries are in another file: write it as bgp.policies, and import a copy of the directory without the line", name, c.get(name))
		}
	}
	for _, p := range []struct{ name, why string }{
		{"nodes", "it says which nodes of the cluster have the sessions; peers are the edge's neighbours, whichever they are"},
		{"peer-group-name", "it is a name in the nodes' FRR"},
		{"ebgp-multihop", "it counts with bgp-mode external alone"},
	} {
		if c.get(p.name) != "" {
			i.note(c, "%s %s is not carried: %s", p.name, c.get(p.name), p.why)
		}
	}
	return nil
}

// port is the UDP port of a zone, 0 for the default.
func (i *importer) port(zone section) (uint64, error) {
	if zone.get("vxlan-port") == "" {
		return 0, nil
	}
	return zone.number("vxlan-port", 1, 65535)
}

// vnet makes a segment of a VNet.
func (i *importer) vnet(zone, v section) (err error) {
	s := segment{name: v.id, suppress: !zone.on("disable-arp-nd-suppression"), tagged: v.on("vlanaware")}
	if s.vni, err = v.number("tag", 1, 1<<24-1); err != nil {
		return err
	}
	if s.port, err = i.port(zone); err != nil {
		return err
	}
	if v.on("isolate-ports") {
		i.note(v, "isolate-ports is not carried: a firewall rule from the segment to itself that drops does the same")
	}
	if zone.kind == "vxlan" {
		if err := i.vxlanRemotes(zone, &s); err != nil {
			return err
		}
	} else {
		s.router = zone.id
		if s.mac, err = zone.mac("mac"); err != nil {
			return err
		}
	}
	for _, sub := range i.subnets {
		if sub.get("vnet") == v.id {
			i.subnet(zone, sub, &s)
		}
	}
	if zone.kind == "evpn" && s.mac == "" && len(s.gateways) > 0 {
		i.note(zone, "it has no mac: its nodes have a gateway with a MAC address of each node, so guests that move lose theirs; set mac of the zone")
	}
	i.segments = append(i.segments, s)
	return nil
}

func (i *importer) vxlanRemotes(zone section, s *segment) (err error) {
	peers := i.Options.Peers
	if len(peers) == 0 {
		if peers, err = zone.addresses("peers"); err != nil {
			return err
		}
	}
	s.remotes = slices.DeleteFunc(slices.Clone(peers), func(a netip.Addr) bool { return a == i.TEP })
	if len(s.remotes) == len(peers) {
		i.note(zone, "%s is not among its peers: the nodes send it no broadcast until it is", i.TEP)
	}
	return nil
}

// subnet gives a segment a gateway.
func (i *importer) subnet(zone section, sub subnet, s *segment) {
	for _, name := range []string{"dhcp-range", "dhcp-dns-server", "dnszoneprefix"} {
		if sub.get(name) != "" {
			i.note(sub.section, "%s is not carried: an edge serves neither DHCP nor DNS", name)
		}
	}
	if zone.kind != "evpn" {
		if sub.gateway.IsValid() {
			i.note(sub.section, "the gateway is not carried: a zone of type vxlan does not route")
		}
		return
	}
	if sub.gateway.IsValid() {
		s.gateways = append(s.gateways, netip.PrefixFrom(sub.gateway, sub.prefix.Bits()))
	}
	if i.Exit == nil {
		return // exit nodes translate
	}
	if r := &i.routers[len(i.routers)-1]; sub.on("snat") {
		r.nat = true
	} else {
		r.plain = append(r.plain, sub.section)
	}
}

// routerMAC is of this edge alone: of its TEP.
func (i *importer) routerMAC() string {
	b := i.TEP.AsSlice()
	if i.TEP.Is6() {
		h := fnv.New32a()
		h.Write(b)
		b = h.Sum(nil)
	}
	return fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3])
}
