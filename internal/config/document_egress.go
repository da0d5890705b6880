package config

type egress struct {
	NATSessions uint32         `json:"sessions,omitempty" jsonschema:"default=262144,minimum=1024,maximum=16777216" jsonschema_description:"connections that may be translated at once, by all policies and uplinks" hint:"one entry for each concurrent connection is enough"`
	Timeouts    natTimeouts    `json:"timeouts,omitempty" jsonschema_description:"how long a session lives without a packet"`
	Log         natLog         `json:"log,omitempty" jsonschema_description:"lines about the begin and end of each session"`
	Gateways    []gatewayGroup `json:"gateways,omitempty" jsonschema_description:"groups of edges that translate, and stand in for each other"`
	Policies    []egressPolicy `json:"policies,omitempty" jsonschema_description:"which packets leave the overlay by which gateways; the first that matches decides"`
}

type natTimeouts struct {
	Opening     timeout      `json:"opening,omitempty" jsonschema:"default=4m" jsonschema_description:"of TCP before the handshake is complete (RFC 5382)"`
	Established timeout      `json:"established,omitempty" jsonschema:"default=2h4m" jsonschema_description:"of TCP (RFC 5382)"`
	HalfClosed  timeout      `json:"halfClosed,omitempty" jsonschema:"default=4m" jsonschema_description:"of TCP after one end's FIN"`
	TimeWait    timeout      `json:"timeWait,omitempty" jsonschema:"default=4m" jsonschema_description:"of TCP after both ends' FIN"`
	Closed      shortTimeout `json:"closed,omitempty" jsonschema:"default=10s" jsonschema_description:"of TCP after a reset"`
	UDP         timeout      `json:"udp,omitempty" jsonschema:"default=2m" jsonschema_description:"of UDP and other protocols without an answer (RFC 4787)"`
	UDPReplied  timeout      `json:"udpReplied,omitempty" jsonschema:"default=5m" jsonschema_description:"of UDP and other protocols with an answer, and nothing after it"`
	UDPStream   timeout      `json:"udpStream,omitempty" jsonschema:"default=5m" jsonschema_description:"of UDP and other protocols that go on for 2 s after an answer"`
	DNS         timeout      `json:"dns,omitempty" jsonschema:"default=30s" jsonschema_description:"of UDP to port 53, answered or not (RFC 4787, REQ-5)"`
	ICMP        timeout      `json:"icmp,omitempty" jsonschema:"default=1m" jsonschema_description:"of ICMP echo (RFC 5508)"`
}

type natLog struct {
	Enabled bool   `json:"enabled,omitempty" jsonschema:"default=false" jsonschema_description:"write a line when a session begins and when it ends"`
	Rate    uint32 `json:"rate,omitempty" jsonschema:"default=100,minimum=1,maximum=100000" jsonschema_description:"lines a second; what is beyond is counted" hint:"100 is usual; enabled: false writes none"`
}

type gatewayGroup struct {
	Name        objectName   `json:"name" jsonschema_description:"name by which policies refer to this group"`
	Mode        string       `json:"mode,omitempty" jsonschema:"default=active-standby,enum=active-standby,enum=active-active" jsonschema_description:"active-standby has the first live member do all, active-active divides sources and addresses among the live ones"`
	Members     []memberRef  `json:"members" jsonschema:"minItems=1,uniqueItems=true" jsonschema_description:"edges, the preferred first, in the same order on every edge: the name of one of spec.remotes or of this edge, or a tunnel endpoint; at most 16"`
	Replication *replication `json:"replication,omitempty" jsonschema_description:"tell the other members of each session, so that connections survive a failover; not done when left out"`
}

type replication struct {
	Port    uint16         `json:"port,omitempty" jsonschema:"default=49789,minimum=1,maximum=65535" jsonschema_description:"TCP port at the members' first tunnel endpoints" hint:"the same on all members; 49789 when left out"`
	Key     replicationKey `json:"key,omitempty" jsonschema_description:"secret by which members know each other, the same on all of them, 16 to 1024 bytes; without one whoever reaches the port is believed"`
	KeyFile secretFile     `json:"keyFile,omitempty" jsonschema_description:"file that holds the key, instead of it; relative to the directory of this file, or to $CREDENTIALS_DIRECTORY where that has it"`
}

type egressPolicy struct {
	Name   objectName `json:"name" jsonschema_description:"name of this policy in commands and counters, the same on every edge; its segment is called egress-NAME"`
	Router objectName `json:"router" jsonschema_description:"name of the router whose packets these are"`
	overlayNetwork
	From           []groupMember `json:"from,omitempty" jsonschema:"minItems=1" jsonschema_description:"sources, one of which has to match, as in [10.0.0.0/24, {segment: red}]; any when left out"`
	To             []network     `json:"to,omitempty" jsonschema:"minItems=1,uniqueItems=true" jsonschema_description:"destinations outside the overlay, as in [198.51.100.0/24]; all when left out"`
	Except         []network     `json:"except,omitempty" jsonschema:"uniqueItems=true" jsonschema_description:"destinations to which the sources go as they are"`
	Gateways       objectName    `json:"gateways" jsonschema_description:"name of the group of gateways"`
	Pool           []poolRange   `json:"pool" jsonschema:"minItems=1,uniqueItems=true" jsonschema_description:"addresses that sources get, as in [192.0.2.10-192.0.2.20, \"2001:db8::10\"], at most 1024; or [uplink], that of the gateway's uplink"`
	Uplink         objectName    `json:"uplink,omitempty" jsonschema_description:"name of the router's uplink at whose network the addresses are; needed where this edge is a gateway"`
	AddressPooling string        `json:"addressPooling,omitempty" jsonschema:"default=paired,enum=paired,enum=arbitrary" jsonschema_description:"what of a source has one address of the pool: all of it, or each connection for itself"`
	Mapping        string        `json:"mapping,omitempty" jsonschema:"default=address-and-port-dependent,enum=address-and-port-dependent,enum=endpoint-independent" jsonschema_description:"whether a source port becomes the same one for all destinations (RFC 4787 section 4.1)"`
	Filtering      string        `json:"filtering,omitempty" jsonschema:"default=address-and-port-dependent,enum=address-and-port-dependent,enum=endpoint-independent" jsonschema_description:"whether anybody may send to an endpoint-independent mapping (RFC 4787 section 5)"`
	natRange
}

// natRange is what policies and uplinks have in common.
type natRange struct {
	Ports portRange `json:"ports,omitempty" jsonschema:"default=1024-65535" jsonschema_description:"ports that a source port may become"`
	Limit *uint32   `json:"limit,omitempty" jsonschema:"maximum=16777216" jsonschema_description:"sessions that one source may have, and as many that are opened to it from outside; 0 is without limit; when left out, a sixteenth of spec.egress.sessions, and none from outside" hint:"0 is without limit"`
}

// uplinkNAT is an uplink's own translation.
type uplinkNAT struct {
	Masquerade bool `json:"masquerade,omitempty" jsonschema:"default=false" jsonschema_description:"give what leaves by the uplink the uplink's address, unless a policy translates it"`
	Required   bool `json:"required,omitempty" jsonschema:"default=false" jsonschema_description:"drop what leaves by the uplink and nothing translates"`
	natRange
	PortForwards []portForward `json:"portForwards,omitempty" jsonschema_description:"ports that lead to hosts of the overlay"`
}

type portForward struct {
	Protocol string      `json:"protocol" jsonschema:"enum=tcp,enum=udp" jsonschema_description:"tcp or udp"`
	Address  hostAddress `json:"address,omitempty" jsonschema_description:"address of the uplink, or of a policy's pool at it; the uplink's first one of the family of to when left out"`
	Port     portRange   `json:"port" jsonschema_description:"port or range of ports, as in 8000-8009"`
	To       hostAddress `json:"to" jsonschema_description:"address of the host"`
	ToPort   uint16      `json:"toPort,omitempty" jsonschema:"minimum=1,maximum=65535" jsonschema_description:"port at the host, the first one of a range; the same as port when left out" hint:"a port is 1 to 65535"`
}
