package config

type bgp struct {
	AS         uint32          `json:"as" jsonschema:"minimum=1,maximum=4294967294" jsonschema_description:"number of the autonomous system of this edge, as in 65000" hint:"64512 to 65534 and 4200000000 to 4294967294 are for private use"`
	RouterID   routerID        `json:"routerID,omitempty" jsonschema_description:"IPv4 address by which speakers know this edge, unique among them; the first tunnel endpoint where that is IPv4 when left out"`
	Listen     []listenAddress `json:"listen,omitempty" jsonschema:"minItems=1,uniqueItems=true" jsonschema_description:"addresses of this host, also with a port, the same for all, as in 192.0.2.1:179, where sessions are accepted; when left out they are only opened"`
	Neighbours []bgpNeighbour  `json:"neighbours" jsonschema:"minItems=1" jsonschema_description:"speakers with which there are sessions, such as route reflectors and routers at uplinks"`
	Restart    bgpRestart      `json:"gracefulRestart,omitempty" jsonschema_description:"how long routes are kept without their session"`
	Policies   []routePolicy   `json:"policies,omitempty" jsonschema_description:"which routes are accepted from and advertised to neighbours, and how they are changed"`
	Targets    string          `json:"autoRouteTargets,omitempty" jsonschema:"default=vni,enum=vni,enum=rfc8365" jsonschema_description:"how automatic route targets are made: vni is AS:VNI, as most do; rfc8365 is that of its section 5.1.2.1"`
	Duplicates duplicates      `json:"duplicates,omitempty" jsonschema_description:"when a MAC address that keeps moving is frozen (RFC 7432 section 15.1)"`
}

type bgpNeighbour struct {
	Name         objectName      `json:"name" jsonschema_description:"name of the neighbour in commands and counters"`
	Address      speakerAddress  `json:"address" jsonschema_description:"its address, IPv4 or IPv6"`
	AS           uint32          `json:"as,omitempty" jsonschema:"minimum=1,maximum=4294967294" jsonschema_description:"its autonomous system; that of this edge when left out" hint:"64512 to 65534 and 4200000000 to 4294967294 are for private use"`
	Port         uint16          `json:"port,omitempty" jsonschema:"default=179,minimum=1,maximum=65535" jsonschema_description:"TCP port of the neighbour" hint:"179 is BGP's own"`
	LocalAddress speakerAddress  `json:"localAddress,omitempty" jsonschema_description:"address of this host from which the session runs; as the host routes when left out"`
	Families     []bgpFamily     `json:"families,omitempty" jsonschema:"minItems=1,uniqueItems=true" jsonschema_description:"what is exchanged: evpn, ipv4 and ipv6; when left out evpn or, with uplink, what the uplink has addresses of"`
	Uplink       objectName      `json:"uplink,omitempty" jsonschema_description:"name of the uplink to whose router the routes of ipv4 and ipv6 belong, and by which they lead"`
	Announce     []unicastSource `json:"advertise,omitempty" jsonschema:"uniqueItems=true" jsonschema_description:"what of the router is advertised to the neighbour in ipv4 and ipv6: connected, static, loopback, uplink, evpn and egress; [connected, loopback, egress] when left out"`
	Password     secret          `json:"password,omitempty" jsonschema_description:"secret of both ends, up to 80 bytes, with which TCP segments are signed (MD5, RFC 2385)"`
	PasswordFile secretFile      `json:"passwordFile,omitempty" jsonschema_description:"file that holds the password, instead of it; relative to the directory of this file, or to $CREDENTIALS_DIRECTORY where that has it"`
	Multihop     uint16          `json:"ebgpMultihop,omitempty" jsonschema:"minimum=1,maximum=255" jsonschema_description:"how many links away the neighbour may be; 1 when it is in another autonomous system, else any number when left out" hint:"1 is on the same link; at most 255"`
	Security     uint16          `json:"ttlSecurity,omitempty" jsonschema:"minimum=1,maximum=254" jsonschema_description:"how many links away the neighbour is: packets that came further are refused (GTSM, RFC 5082); both ends need it" hint:"1 is on the same link; at most 254"`
	Passive      bool            `json:"passive,omitempty" jsonschema:"default=false" jsonschema_description:"wait for the neighbour to open the session"`
	Timers       bgpTimers       `json:"timers,omitempty" jsonschema_description:"times of the session; of hold the smaller one of both ends counts"`
	MaxPrefixes  uint32          `json:"maximumPrefixes,omitempty" jsonschema:"default=0,minimum=0,maximum=4294967295" jsonschema_description:"routes of a family beyond which the session ends; with 0 it stays, and routes beyond 80 % of the table of routes are not used" hint:"0 keeps the session"`
	Liveness     bool            `json:"bfd,omitempty" jsonschema:"default=false" jsonschema_description:"end the session when the BFD session with the neighbour goes down"`
	Import       []objectName    `json:"import,omitempty" jsonschema:"minItems=1,uniqueItems=true" jsonschema_description:"names of policies for what the neighbour tells, asked in this order"`
	Export       []objectName    `json:"export,omitempty" jsonschema:"minItems=1,uniqueItems=true" jsonschema_description:"names of policies for routes that are advertised to the neighbour, evaluated in this order"`
}

type bgpTimers struct {
	Hold         holdTime    `json:"hold,omitempty" jsonschema:"default=9s" jsonschema_description:"silence after which the neighbour is taken for dead, 3s to 65535s"`
	Keepalive    sessionTime `json:"keepalive,omitempty" jsonschema_description:"time between signs of life, at most a third of hold, which it is when left out"`
	ConnectRetry sessionTime `json:"connectRetry,omitempty" jsonschema:"default=1s" jsonschema_description:"time between attempts to open the session, 1s to 65535s"`
}

type bgpRestart struct {
	Time  restartTime `json:"time,omitempty" jsonschema:"default=120s" jsonschema_description:"how long neighbours keep this edge's routes after its process ends (RFC 4724), up to 4095s; 0 is not at all"`
	Stale staleTime   `json:"stale,omitempty" jsonschema:"default=1h" jsonschema_description:"how long this edge, and by RFC 9494 its neighbours, go on with routes whose session was lost; 0 is not at all"`
}

type duplicates struct {
	Moves  uint32   `json:"moves,omitempty" jsonschema:"default=5,minimum=0,maximum=1000" jsonschema_description:"so many moves within the time freeze the address, 0 never does" hint:"5 is usual, 0 never freezes"`
	Within duration `json:"within,omitempty" jsonschema:"default=180s" jsonschema_description:"the time in which moves are counted"`
	Freeze duration `json:"freeze,omitempty" jsonschema:"default=0" jsonschema_description:"how long an address stays frozen; 0 is until selvage bgp thaw"`
}

type routePolicy struct {
	Name       objectName       `json:"name" jsonschema_description:"name by which neighbours refer to this policy"`
	Statements []routeStatement `json:"statements" jsonschema:"minItems=1" jsonschema_description:"what matches and what becomes of it; the first that matches decides, and what none matches is accepted"`
}

type routeStatement struct {
	Prefixes    []prefixRange `json:"prefixes,omitempty" jsonschema:"minItems=1,uniqueItems=true" jsonschema_description:"one of them has to match; any route does when left out"`
	Communities []community   `json:"communities,omitempty" jsonschema:"minItems=1,uniqueItems=true" jsonschema_description:"one of them the route has to have, as in [\"65000:1\", no-export]; any route does when left out"`
	Reject      bool          `json:"reject,omitempty" jsonschema:"default=false" jsonschema_description:"refuse the route; otherwise it is accepted"`
	LocalPref   *uint32       `json:"localPref,omitempty" jsonschema:"minimum=1,maximum=4294967295" jsonschema_description:"set the local preference, of which the highest wins" hint:"100 is that of routes without one"`
	MED         *uint32       `json:"med,omitempty" jsonschema:"minimum=0,maximum=4294967295" jsonschema_description:"set the multi-exit discriminator, of which the lowest wins" hint:"0 is the best"`
	Add         []community   `json:"addCommunities,omitempty" jsonschema:"minItems=1,uniqueItems=true" jsonschema_description:"communities that the route gets besides its own"`
	Prepend     uint16        `json:"prepend,omitempty" jsonschema:"default=0,minimum=0,maximum=32" jsonschema_description:"so often the own AS is put before the path, which makes it longer" hint:"2 or 3 is usual"`
}

type prefixRange struct {
	Prefix network `json:"prefix" jsonschema_description:"network in which the route's prefix lies, as in 10.0.0.0/8"`
	Min    *uint16 `json:"min,omitempty" jsonschema:"minimum=0,maximum=128" jsonschema_description:"shortest length of the route's prefix; that of prefix when left out" hint:"lengths are up to 32 with IPv4 and 128 with IPv6"`
	Max    *uint16 `json:"max,omitempty" jsonschema:"minimum=0,maximum=128" jsonschema_description:"longest length of the route's prefix; any with min and that of prefix without it when left out" hint:"lengths are up to 32 with IPv4 and 128 with IPv6"`
}

// evpn makes a segment an EVPN instance; all of it is automatic when left out.
type evpn struct {
	RD     routeDistinguisher `json:"rd,omitempty" jsonschema_description:"route distinguisher, as in \"192.0.2.1:7\", another one in each instance of each edge; automatic when left out"`
	Import []routeTarget      `json:"import,omitempty" jsonschema:"minItems=1,uniqueItems=true" jsonschema_description:"route targets, as in [\"65000:10010\"], one of which a route has to have to be taken; automatic when left out"`
	Export []routeTarget      `json:"export,omitempty" jsonschema:"minItems=1,uniqueItems=true" jsonschema_description:"route targets that advertised routes get; automatic when left out"`
}

type routerEVPN struct {
	evpn
	Announce []evpnSource `json:"advertise,omitempty" jsonschema:"uniqueItems=true" jsonschema_description:"prefixes that are advertised to other edges (type 5, RFC 9136): connected, loopback, static and uplink, which are all told when left out"`
}
