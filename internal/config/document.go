package config

// The shape of the file. These structs are all there is: the strict decoder and
// the JSON Schema both read them and their tags.
//
//	json                    the field's name; omitempty makes it optional
//	jsonschema              default, enum, minimum, maximum, minItems are obeyed
//	jsonschema_description  for editors, and the hint when the field is missing
//	hint                    the hint when a value is out of range

type document struct {
	APIVersion string   `json:"apiVersion" jsonschema:"enum=selvage.dev/v1alpha2" jsonschema_description:"version of this format: selvage.dev/v1alpha2"`
	Kind       string   `json:"kind" jsonschema:"enum=Edge" jsonschema_description:"what the file describes: Edge"`
	Metadata   metadata `json:"metadata" jsonschema_description:"who this edge is"`
	Spec       spec     `json:"spec" jsonschema_description:"what this edge does"`
}

type metadata struct {
	Name label `json:"name" jsonschema_description:"name of this edge on its host, a DNS label; it names the socket and the directory of pins"`
}

type spec struct {
	Underlay     underlay      `json:"underlay" jsonschema_description:"the plain IP network that carries the tunnels"`
	FlowCache    flowCache     `json:"flowCache,omitempty" jsonschema_description:"the cache of forwarding decisions"`
	FDB          fdb           `json:"fdb,omitempty" jsonschema_description:"the forwarding database that all segments share"`
	Tables       tables        `json:"tables,omitempty" jsonschema_description:"sizes of the tables that hold what is configured, and what BGP adds: it may fill four fifths of each"`
	Transit      transit       `json:"transit,omitempty" jsonschema_description:"how packets that only pass through are taken"`
	Remotes      []remote      `json:"remotes,omitempty" jsonschema_description:"other edges that shall have a name, or that have several tunnel endpoints"`
	Segments     []segment     `json:"segments,omitempty" jsonschema_description:"layer 2 broadcast domains, one VNI each"`
	Routers      []router      `json:"routers,omitempty" jsonschema_description:"virtual routers (VRFs), which join segments by their gateways"`
	Ports        []port        `json:"ports,omitempty" jsonschema_description:"local interfaces attached to segments"`
	PortPatterns []portPattern `json:"portPatterns,omitempty" jsonschema_description:"interfaces that become ports when they appear, by their names and aliases"`
	Limits       limits        `json:"limits,omitempty" jsonschema_description:"how much one port or segment may take of what all share"`
	Firewall     *firewall     `json:"firewall,omitempty" jsonschema_description:"policy that stands at every port; without it everything passes"`
	Egress       *egress       `json:"egress,omitempty" jsonschema_description:"how packets leave the overlay with other addresses than their own: gateways and policies"`
	BGP          *bgp          `json:"bgp,omitempty" jsonschema_description:"sessions by which this edge tells others of its hosts and prefixes, and learns of theirs (BGP, RFC 4271; EVPN, RFC 7432)"`
	HTTP         *httpServer   `json:"http,omitempty" jsonschema_description:"metrics, health and the API over TCP; without it only the unix socket answers"`
}

type underlay struct {
	Interfaces []interfaceName `json:"interfaces,omitempty" jsonschema:"minItems=1,uniqueItems=true,oneof_required=tep" jsonschema_description:"interfaces on which tunnels arrive and leave, as in [eth0]"`
	TEP        address         `json:"tep,omitempty" jsonschema:"oneof_required=tep" jsonschema_description:"address of this edge's tunnel endpoint, IPv4 or IPv6: one that this host has"`
	TEPs       []tep           `json:"teps,omitempty" jsonschema:"minItems=1,oneof_required=teps" jsonschema_description:"tunnel endpoints of this edge, the preferred first, instead of interfaces and tep; at most 8"`
	Teaming    string          `json:"teaming,omitempty" jsonschema:"default=flow,enum=flow,enum=source,enum=failover" jsonschema_description:"which of the live paths to a remote a packet takes: flow (hash of the inner addresses and ports) and source (of the port and source MAC address it came from) use all, failover the first"`
	ProbeMTU   bool            `json:"probeMTU,omitempty" jsonschema:"default=true" jsonschema_description:"find the path MTU to each remote with ICMP echo requests"`
	Liveness   *liveness       `json:"bfd,omitempty" jsonschema_description:"ask remotes whether they are alive (BFD, RFC 5880); not done when left out"`
}

type tep struct {
	Name      objectName    `json:"name" jsonschema_description:"name by which segments refer to this endpoint"`
	Address   address       `json:"address" jsonschema_description:"its address, one that this host has; all are IPv4 or all are IPv6"`
	Interface interfaceName `json:"interface" jsonschema_description:"interface on which its tunnels arrive and leave, as in eth0"`
}

type liveness struct {
	Interval   interval `json:"interval,omitempty" jsonschema:"default=50ms" jsonschema_description:"time between packets in each direction, 10ms to 10s; the slower end decides"`
	Multiplier uint16   `json:"multiplier,omitempty" jsonschema:"default=3,minimum=2,maximum=255" jsonschema_description:"so many intervals without a packet are a failure" hint:"3 is usual; 2 to 255"`
	Hops       hops     `json:"hops,omitempty" jsonschema:"default=auto" jsonschema_description:"links between two endpoints at most, 1 to 255: with 1 BFD is single-hop (RFC 5881), else multihop (RFC 5883); auto is single-hop where a remote is on the endpoint's own network. Both ends must agree"`
}

type transit struct {
	Mode string `json:"mode,omitempty" jsonschema:"default=auto,enum=auto,enum=native,enum=generic,enum=tc" jsonschema_description:"native and generic are XDP in and after the driver, tc takes packets later; auto is native on edges with uplinks where the driver can and the interface is no veth, else tc"`
}

type remote struct {
	Name      objectName `json:"name" jsonschema_description:"name by which segments and routes refer to this edge"`
	Addresses []address  `json:"addresses" jsonschema:"minItems=1,uniqueItems=true" jsonschema_description:"its tunnel endpoints, the preferred first; at most 8"`
}

type flowCache struct {
	Enabled bool   `json:"enabled,omitempty" jsonschema:"default=true" jsonschema_description:"false sends every packet through the slow path, for comparison only"`
	Size    uint32 `json:"size,omitempty" jsonschema:"default=262144,minimum=1024,maximum=4194304" jsonschema_description:"entries; one for each direction of a connection" hint:"two entries for each concurrent connection are enough"`
}

type fdb struct {
	Size   uint32   `json:"size,omitempty" jsonschema:"default=65536,minimum=16,maximum=4194304" jsonschema_description:"entries, one for each MAC address of each segment" hint:"one entry for each MAC address is enough"`
	Ageing duration `json:"ageing,omitempty" jsonschema:"default=300s" jsonschema_description:"how long a learned entry lives without traffic, as in 300s or 5m; 0 means forever"`

	Duplicates macDuplicates `json:"duplicates,omitempty" jsonschema_description:"when a learned MAC address that keeps moving is frozen where it was first (RFC 7432 section 15.1); of hosts that BGP advertises, spec.bgp.duplicates says when"`
}

// tables are sizes in entries. docs/internals/scaling.md says what an entry costs.
type tables struct {
	Vports         uint32 `json:"vports,omitempty" jsonschema:"default=8192,minimum=64,maximum=64512" jsonschema_description:"ports and paths to remotes, and one more" hint:"a remote takes an entry for each pair of its endpoints and this edge's"`
	SegmentMembers uint32 `json:"segmentMembers,omitempty" jsonschema:"default=1024,minimum=16,maximum=16384" jsonschema_description:"ports and remotes of one segment: what is flooded is copied to each" hint:"1024 is usual; a flood takes about a microsecond for each"`
	Members        uint32 `json:"members,omitempty" jsonschema:"default=131072,minimum=64,maximum=4194304" jsonschema_description:"ports and remotes of all segments: a remote of ten segments takes ten" hint:"one entry for each port, and each remote of each segment"`
	Remotes        uint32 `json:"remotes,omitempty" jsonschema:"default=65536,minimum=64,maximum=4194304" jsonschema_description:"addresses of remotes in all segments" hint:"one entry for each address of each remote of each segment"`
	Routes         uint32 `json:"routes,omitempty" jsonschema:"default=262144,minimum=64,maximum=16777216" jsonschema_description:"routes of all routers" hint:"a full Internet table is about 1200000 routes"`
	NextHops       uint32 `json:"nextHops,omitempty" jsonschema:"default=4096,minimum=64,maximum=65536" jsonschema_description:"different next hops of all routers, and one more" hint:"a next hop that several routes share takes one entry"`
	NextHopGroups  uint32 `json:"nextHopGroups,omitempty" jsonschema:"default=4096,minimum=64,maximum=65536" jsonschema_description:"different sets of next hops of all routers, and one more" hint:"a set that several routes share takes one entry"`
}

type macDuplicates struct {
	Moves  uint32   `json:"moves,omitempty" jsonschema:"default=5,minimum=0,maximum=200" jsonschema_description:"so many moves within the time freeze the address, 0 never does" hint:"5 is usual, 0 never freezes"`
	Within duration `json:"within,omitempty" jsonschema:"default=180s" jsonschema_description:"the time in which moves are counted"`
	Freeze duration `json:"freeze,omitempty" jsonschema:"default=10s" jsonschema_description:"how long an address stays frozen at first; each time again is twice as long, up to 300s"`
}

// overlayNetwork identifies a segment on the underlay, and says how its frames are wrapped.
type overlayNetwork struct {
	VNI           uint32       `json:"vni" jsonschema:"minimum=1,maximum=16777215" jsonschema_description:"virtual network identifier (VSID with nvgre), the same on every edge of the segment" hint:"a VNI has 24 bits, is the same on every edge of the segment, and 0 is not used"`
	Encapsulation string       `json:"encapsulation,omitempty" jsonschema:"default=vxlan,enum=vxlan,enum=geneve,enum=nvgre" jsonschema_description:"tunnel header: vxlan (RFC 7348), geneve (RFC 8926) or nvgre (RFC 7637)"`
	UDPPort       uint16       `json:"udpPort,omitempty" jsonschema:"minimum=1,maximum=65535" jsonschema_description:"UDP port of the tunnels, the same on every edge of the segment; 4789 with vxlan and 6081 with geneve when left out" hint:"4789 is VXLAN's own, 8472 what Linux used before it; 6081 is Geneve's"`
	UDPChecksum   bool         `json:"udpChecksum,omitempty" jsonschema:"default=false" jsonschema_description:"send outer UDP checksums, with vxlan on an IPv6 underlay only; both kinds are accepted (RFC 6935)"`
	Options       options      `json:"options,omitempty" jsonschema_description:"geneve options for every packet, in hex as on the wire (RFC 8926 section 3.5)"`
	Outer         outer        `json:"outer,omitempty" jsonschema_description:"fields of the outer IP header"`
	Remotes       []remoteRef  `json:"remotes,omitempty" jsonschema:"uniqueItems=true" jsonschema_description:"the other edges of the segment: a tunnel endpoint, or the name of one of spec.remotes"`
	TEPs          []objectName `json:"teps,omitempty" jsonschema:"minItems=1,uniqueItems=true" jsonschema_description:"names of the endpoints of this edge that the segment is pinned to: it uses the first live one; all, by spec.underlay.teaming, when left out"`
}

type outer struct {
	DSCP dscp   `json:"dscp,omitempty" jsonschema:"default=0" jsonschema_description:"differentiated services code point, 0 to 63, or inherit: that of the inner packet"`
	TTL  ttl    `json:"ttl,omitempty" jsonschema:"default=64" jsonschema_description:"TTL or hop limit, 1 to 255, or inherit: that of the inner packet"`
	DF   string `json:"df,omitempty" jsonschema:"default=set,enum=set,enum=unset,enum=inherit" jsonschema_description:"don't fragment, of IPv4: set, unset, or inherit: that of the inner packet"`
}

type segment struct {
	Name objectName `json:"name" jsonschema_description:"name by which ports and commands refer to this segment"`
	overlayNetwork
	KeepTags   bool          `json:"vlanTransparent,omitempty" jsonschema:"default=false" jsonschema_description:"let 802.1Q tags inside the tunnel pass (QinQ); otherwise tagged frames are dropped"`
	Wire       bool          `json:"wire,omitempty" jsonschema:"default=false" jsonschema_description:"forward frames for reserved group addresses too, as a cable does: spanning tree, LACP, LLDP, 802.1X, PAUSE, CDP; otherwise they are dropped, as bridges do"`
	Suppress   bool          `json:"suppress,omitempty" jsonschema:"default=true" jsonschema_description:"answer ARP and neighbour solicitations for known remote hosts here, instead of flooding them"`
	ClampMSS   bool          `json:"clampMSS,omitempty" jsonschema:"default=true" jsonschema_description:"lower the MSS of TCP connections to what tunnels and uplinks carry"`
	TooBigFrom []hostAddress `json:"icmpSources,omitempty" jsonschema_description:"source addresses of ICMP messages to senders of packets that do not fit, at most one a family; the gateway's when left out"`
	FDB        []staticMAC   `json:"fdb,omitempty" jsonschema_description:"forwarding entries that neither age nor move"`
	Neighbours []neighbour   `json:"neighbours,omitempty" jsonschema_description:"MAC addresses of hosts, known for ever"`
	Gateway    *gateway      `json:"gateway,omitempty" jsonschema_description:"makes the segment an interface of a router"`
	Firewall   string        `json:"firewall,omitempty" jsonschema:"enum=allow,enum=drop,enum=reject" jsonschema_description:"what becomes of packets of the segment's ports that no rule decides about; spec.firewall.default when left out"`
	Limits     *ownLimits    `json:"limits,omitempty" jsonschema_description:"how much the segment may take of what all share, instead of spec.limits.segment"`
	EVPN       *evpn         `json:"evpn,omitempty" jsonschema_description:"tell and learn the segment's hosts and edges by EVPN, besides what is configured; {} is all automatic"`
}

type staticMAC struct {
	MAC    macAddress `json:"mac" jsonschema_description:"unicast MAC address, as in \"02:00:00:00:00:01\""`
	Port   objectName `json:"port,omitempty" jsonschema:"oneof_required=port" jsonschema_description:"local port behind which it is; of a trunk with the VLAN, as in p0.10"`
	Remote remoteRef  `json:"remote,omitempty" jsonschema:"oneof_required=remote" jsonschema_description:"remote behind which it is"`
}

type neighbour struct {
	Address hostAddress `json:"address" jsonschema_description:"IP address of a host of the segment"`
	MAC     macAddress  `json:"mac" jsonschema_description:"its unicast MAC address"`
}

type gateway struct {
	Router    objectName        `json:"router" jsonschema_description:"name of the router"`
	MAC       macAddress        `json:"mac,omitempty" jsonschema:"default=02:00:5e:00:01:01" jsonschema_description:"MAC address of the gateway, the same on every edge of the segment (anycast)"`
	Addresses []interfacePrefix `json:"addresses" jsonschema:"minItems=1,uniqueItems=true" jsonschema_description:"addresses of the gateway with the prefix of the network, as in [10.0.0.254/24], the same on every edge"`
}

type router struct {
	Name      objectName    `json:"name" jsonschema_description:"name by which gateways and commands refer to this router"`
	L3        *l3           `json:"l3,omitempty" jsonschema_description:"segment between the routers of this name on several edges (symmetric IRB); it is called NAME-l3"`
	Loopbacks []hostAddress `json:"loopbacks,omitempty" jsonschema:"uniqueItems=true" jsonschema_description:"addresses of this edge's router alone, on no segment, as in [10.255.0.1]: another one on each edge"`
	Routes    []route       `json:"routes,omitempty" jsonschema_description:"static routes; those to the networks of gateways and uplinks are there by themselves"`
	Leaks     []leak        `json:"leaks,omitempty" jsonschema_description:"routes taken over from other routers of this edge"`
	Uplinks   []uplink      `json:"uplinks,omitempty" jsonschema_description:"interfaces to the plain network"`
}

type l3 struct {
	overlayNetwork
	MAC  macAddress  `json:"mac" jsonschema_description:"MAC address of this edge's router on the segment, as in \"02:00:00:00:01:01\": another one on each edge"`
	EVPN *routerEVPN `json:"evpn,omitempty" jsonschema_description:"tell and learn prefixes, hosts and the other edges' routers by EVPN, besides what is configured; {} is all automatic"`
}

type route struct {
	Prefix network   `json:"prefix" jsonschema_description:"destination, as in 0.0.0.0/0"`
	Type   string    `json:"type,omitempty" jsonschema:"default=unicast,enum=unicast,enum=blackhole,enum=unreachable,enum=prohibit" jsonschema_description:"what becomes of packets: unicast sends them on, blackhole drops them silently, unreachable and prohibit with an ICMP message"`
	Via    []nextHop `json:"via,omitempty" jsonschema_description:"next hops of a unicast route, which share the flows (ECMP)"`
}

type nextHop struct {
	Address hostAddress `json:"address,omitempty" jsonschema:"oneof_required=address" jsonschema_description:"router in a network of a gateway or uplink, or on the link of the uplink that is named"`
	Uplink  objectName  `json:"uplink,omitempty" jsonschema_description:"uplink on whose link the address is, with address: for a link-local one, or one in no network of the router (onlink of ip-route)"`
	Remote  remoteRef   `json:"remote,omitempty" jsonschema:"oneof_required=remote" jsonschema_description:"remote of the router's l3 segment, with mac"`
	MAC     macAddress  `json:"mac,omitempty" jsonschema:"oneof_required=remote" jsonschema_description:"MAC address of the router at remote: spec.routers[].l3.mac in its configuration"`
}

type leak struct {
	From     objectName `json:"from" jsonschema_description:"name of the other router"`
	Prefixes []network  `json:"prefixes" jsonschema:"minItems=1,uniqueItems=true" jsonschema_description:"prefixes within which its connected and static routes are taken, as in [10.0.0.0/8]"`
}

type uplink struct {
	Name      objectName        `json:"name" jsonschema_description:"name of the uplink in commands and counters"`
	Interface interfaceName     `json:"interface" jsonschema_description:"local interface, as in eth1; it may appear later"`
	VLAN      uint16            `json:"vlan,omitempty" jsonschema:"default=0,minimum=0,maximum=4094" jsonschema_description:"802.1Q VLAN of the interface, 0 for untagged frames" hint:"1 to 4094, or 0 for untagged frames"`
	MAC       macAddress        `json:"mac,omitempty" jsonschema_description:"MAC address of the router; one made of the interface's when left out"`
	Addresses []interfacePrefix `json:"addresses" jsonschema:"minItems=1,uniqueItems=true" jsonschema_description:"addresses of the router with the prefix of the network, as in [198.51.100.2/24]; not the host's own"`
	RPF       string            `json:"rpf,omitempty" jsonschema:"default=inside,enum=inside,enum=strict,enum=off" jsonschema_description:"reverse path filter (RFC 3704): which sources may come in. inside: all but those to which a route leads inside, strict: those to which the best route leaves by this uplink, off: all"`
	NAT       *uplinkNAT        `json:"nat,omitempty" jsonschema_description:"translation of addresses by the uplink itself; none when left out"`
}

type port struct {
	Name      objectName    `json:"name" jsonschema_description:"name of the port in commands and counters"`
	Interface interfaceName `json:"interface" jsonschema_description:"local interface, as in veth0 or tap0; it may appear later"`
	Segment   objectName    `json:"segment,omitempty" jsonschema_description:"name of the segment of untagged frames; without it they are dropped"`
	VLANs     []portVLAN    `json:"vlans,omitempty" jsonschema_description:"802.1Q VLANs of a trunk and their segments"`
	Allowed   *allowed      `json:"allowed,omitempty" jsonschema_description:"who may send from the port; anybody when left out"`
	RA        string        `json:"ra,omitempty" jsonschema:"default=drop,enum=drop,enum=allow" jsonschema_description:"what becomes of IPv6 router advertisements and redirects from the port: drop (RA guard, RFC 6105), or allow where a router is"`
	DHCP      string        `json:"dhcp,omitempty" jsonschema:"default=client,enum=client,enum=server" jsonschema_description:"who speaks DHCP at the port: client, so that messages to clients are dropped (RFC 7610), or server: a server or relay"`
	Labels    labels        `json:"labels,omitempty" jsonschema_description:"what groups and rules of the firewall select the port by, as in {tier: web}"`
	Limits    *ownLimits    `json:"limits,omitempty" jsonschema_description:"how much the port may take of what all share, instead of spec.limits.port"`
}

type portVLAN struct {
	VLAN    uint16     `json:"vlan" jsonschema:"minimum=1,maximum=4094" jsonschema_description:"802.1Q VLAN identifier" hint:"a VLAN is 1 to 4094"`
	Segment objectName `json:"segment" jsonschema_description:"name of the segment of its frames"`
}

type allowed struct {
	MACs      []macAddress `json:"macs,omitempty" jsonschema:"minItems=1,uniqueItems=true" jsonschema_description:"source MAC addresses; any when left out"`
	Addresses []network    `json:"addresses,omitempty" jsonschema:"minItems=1,uniqueItems=true" jsonschema_description:"source IP addresses and networks, as in 10.0.0.5/32, of IP packets, ARP and neighbour discovery; any when left out"`
}
