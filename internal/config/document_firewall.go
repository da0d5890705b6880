package config

type firewall struct {
	Default     string   `json:"default,omitempty" jsonschema:"default=allow,enum=allow,enum=drop,enum=reject" jsonschema_description:"what becomes of packets that no rule decides about"`
	NonIP       string   `json:"nonIP,omitempty" jsonschema:"default=allow,enum=allow,enum=drop" jsonschema_description:"what becomes of frames that are neither IP, ARP nor neighbour discovery"`
	Strict      bool     `json:"strict,omitempty" jsonschema:"default=false" jsonschema_description:"drop TCP segments that belong to no connection and open none, and resets outside the window; otherwise the rules decide about them"`
	Connections uint32   `json:"connections,omitempty" jsonschema:"default=131072,minimum=1024,maximum=16777216" jsonschema_description:"connections that are remembered; one between two ports of this edge counts twice" hint:"one entry for each concurrent connection is enough"`
	HalfOpen    uint32   `json:"halfOpen,omitempty" jsonschema:"default=16384,minimum=1024,maximum=16777216" jsonschema_description:"connections without an answer, and closed ones, that are remembered besides; without room closed ones go first, then the oldest of the port that has the most" hint:"room for what begins within half a minute is enough"`
	LogRate     uint32   `json:"logRate,omitempty" jsonschema:"default=100,minimum=0,maximum=100000" jsonschema_description:"log lines a second of each port, unless its limits say another rate; what is beyond is counted" hint:"100 is usual, 0 writes none"`
	Timeouts    timeouts `json:"timeouts,omitempty" jsonschema_description:"how long a connection is remembered without a packet"`
	Include     []string `json:"include,omitempty" jsonschema:"uniqueItems=true" jsonschema_description:"files with more groups, services and sections, as in [policy.json]; relative to the directory of this file"`
	policy
}

// policy is also the shape of an included file.
type policy struct {
	Groups   []group        `json:"groups,omitempty" jsonschema_description:"named sets of addresses and ports, which rules and other groups refer to"`
	Services []namedService `json:"services,omitempty" jsonschema_description:"named kinds of traffic, which rules refer to"`
	Sections []section      `json:"sections,omitempty" jsonschema_description:"the rules, in sections"`
}

type timeouts struct {
	Opening     timeout      `json:"opening,omitempty" jsonschema:"default=30s" jsonschema_description:"of TCP before the handshake is complete"`
	Established timeout      `json:"established,omitempty" jsonschema:"default=2h4m" jsonschema_description:"of TCP (RFC 5382)"`
	HalfClosed  timeout      `json:"halfClosed,omitempty" jsonschema:"default=4m" jsonschema_description:"of TCP after one end's FIN"`
	TimeWait    timeout      `json:"timeWait,omitempty" jsonschema:"default=1m" jsonschema_description:"of TCP after both ends' FIN"`
	Closed      shortTimeout `json:"closed,omitempty" jsonschema:"default=10s" jsonschema_description:"of TCP after a reset"`
	UDP         timeout      `json:"udp,omitempty" jsonschema:"default=30s" jsonschema_description:"of UDP and other protocols without an answer"`
	UDPReplied  timeout      `json:"udpReplied,omitempty" jsonschema:"default=30s" jsonschema_description:"of UDP and other protocols with an answer, and nothing after it"`
	UDPStream   timeout      `json:"udpStream,omitempty" jsonschema:"default=3m" jsonschema_description:"of UDP and other protocols that go on for 2 s after an answer"`
	ICMP        timeout      `json:"icmp,omitempty" jsonschema:"default=1m" jsonschema_description:"of ICMP echo"`
}

type group struct {
	located
	Name    ownName       `json:"name" jsonschema_description:"name by which rules and groups refer to this one"`
	Members []groupMember `json:"members,omitempty" jsonschema_description:"what belongs to it, as in [10.0.0.0/24, {labels: {tier: web}}]; a group without members matches nothing, and has to be live"`
	Live    bool          `json:"live,omitempty" jsonschema:"default=false" jsonschema_description:"members may be added while the edge runs, by selvage group add-member; it may be empty here"`
}

type namedService struct {
	located
	Name    ownName   `json:"name" jsonschema_description:"name by which rules refer to this service"`
	Members []service `json:"members" jsonschema:"minItems=1" jsonschema_description:"the kinds of traffic, as in [tcp/80, tcp/443]; a service without members would match nothing"`
}

type section struct {
	located
	Name     ownName `json:"name" jsonschema_description:"name of this section in commands and logs"`
	Priority uint32  `json:"priority,omitempty" jsonschema:"default=0,minimum=0,maximum=4294967295" jsonschema_description:"sections are asked from the lowest number to the highest, those with the same one in the order of the file" hint:"the lowest is asked first"`
	Rules    []entry `json:"rules,omitempty" jsonschema_description:"the section's rules; the first that matches decides"`
}

// entry is a rule of the firewall.
type entry struct {
	located
	Name      ruleName      `json:"name" jsonschema_description:"name of this rule in commands and logs, once in its section; its counters stay while it keeps its name"`
	Priority  uint32        `json:"priority,omitempty" jsonschema:"default=0,minimum=0,maximum=4294967295" jsonschema_description:"rules of a section are asked from the lowest number to the highest, those with the same one in the order of the file" hint:"the lowest is asked first"`
	Action    string        `json:"action" jsonschema:"enum=allow,enum=drop,enum=reject,enum=log-only" jsonschema_description:"allow, drop, reject (drop and tell the sender), or log-only: count and log, and let the next rules decide"`
	Direction string        `json:"direction,omitempty" jsonschema:"default=both,enum=in,enum=out,enum=both" jsonschema_description:"of the connection's first packet as the workload behind the port sees it: in is to it, out from it"`
	From      []groupMember `json:"from,omitempty" jsonschema:"minItems=1" jsonschema_description:"source of the connection's first packet, one of which has to match, as in [web, 10.0.0.0/24]; any when left out"`
	To        []groupMember `json:"to,omitempty" jsonschema:"minItems=1" jsonschema_description:"destination of the connection's first packet, one of which has to match, as in [db, {segment: blue}]; any when left out"`
	Services  []service     `json:"services,omitempty" jsonschema:"minItems=1" jsonschema_description:"kinds of traffic, one of which has to match, as in [tcp/443, icmp/8]; any when left out"`
	AppliedTo []groupMember `json:"appliedTo,omitempty" jsonschema:"minItems=1" jsonschema_description:"ports that have the rule, by port, labels, segment or group; all when left out"`
	Log       bool          `json:"log,omitempty" jsonschema:"default=false" jsonschema_description:"write a log line for each connection that the rule decides about"`
	Comment   string        `json:"comment,omitempty" jsonschema_description:"for people"`
	Disabled  bool          `json:"disabled,omitempty" jsonschema:"default=false" jsonschema_description:"leave the rule out"`
}

// memberForm is a member that is not written as one word.
type memberForm struct {
	Segment objectName `json:"segment,omitempty" jsonschema_description:"whatever comes from the segment, or goes into it, as this edge sees it"`
	Port    objectName `json:"port,omitempty" jsonschema_description:"local port, of a trunk with all its VLANs, or one of them as in p0.10"`
	Labels  labels     `json:"labels,omitempty" jsonschema_description:"local ports that have all of these labels"`
	Group   objectName `json:"group,omitempty" jsonschema_description:"another group"`
}

// serviceForm is a service that is not written as one word.
type serviceForm struct {
	Protocol    protocol    `json:"protocol" jsonschema_description:"name or number of the IP protocol"`
	Ports       []portRange `json:"ports,omitempty" jsonschema:"minItems=1" jsonschema_description:"destination ports and ranges of tcp, udp or sctp, as in [80, 8000-8999]"`
	SourcePorts []portRange `json:"sourcePorts,omitempty" jsonschema:"minItems=1" jsonschema_description:"source ports and ranges likewise"`
	Type        *uint16     `json:"type,omitempty" jsonschema:"minimum=0,maximum=255" jsonschema_description:"ICMP type" hint:"0 to 255, as IANA numbers them"`
	Code        *uint16     `json:"code,omitempty" jsonschema:"minimum=0,maximum=255" jsonschema_description:"ICMP code, with a type" hint:"0 to 255, as IANA numbers them"`
}
