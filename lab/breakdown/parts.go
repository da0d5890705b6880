package breakdown

// Parts of a round trip, and the places where they are.
const (
	StackPart    = "stack"    // of a guest: its system call, TCP and IP
	PortPart     = "port"     // from the guest's interface to the program at its port
	WakePart     = "wake"     // from the socket that has the data to the end of the system call
	ProgramPart  = "program"  // of the server
	ParsePart    = "parse"    // headers are read
	CachePart    = "cache"    // the flow cache is asked, and counts
	DecidePart   = "decide"   // the slow path without the firewall
	FirewallPart = "firewall" // rules and connections are asked
	KeepPart     = "keep"     // the decision goes into the flow cache
	EncapPart    = "encap"    // the packet gets its tunnel
	DecapPart    = "decap"    // the packet comes out of its tunnel
	DeliverPart  = "deliver"  // from port to port of one host
	UnderlayPart = "underlay" // the kernel's way between the hosts

	ClientPlace   = "client"
	ServerPlace   = "server"
	BothPlace     = "ends" // the server takes the last packet and wakes up, and the client goes on
	UnderlayPlace = "underlay"
)
