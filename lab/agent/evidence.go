package agent

// Evidence is what the kernel has on the way of packets besides interfaces.
type Evidence struct {
	Qdiscs    []Qdisc           `json:"qdiscs,omitempty"`
	Netfilter Netfilter         `json:"netfilter,omitzero"`
	Sysctls   map[string]string `json:"sysctls,omitempty"` // by name with dots: net.bridge.bridge-nf-call-iptables, …
	Unknown   []string          `json:"unknown,omitempty"` // what could not be read, and why
}

// Qdisc is a queueing discipline.
type Qdisc struct {
	Interface string `json:"interface"`
	Kind      string `json:"kind"` // "tbf"
	Root      bool   `json:"root"`
	BitsPerS  int64  `json:"bits_per_s,omitempty"` // that it limits to; 0 is no limit
	Drops     uint64 `json:"drops,omitempty"`
	Overlimit uint64 `json:"overlimits,omitempty"`
}

// Netfilter is how much a packet passes in hooks of netfilter.
type Netfilter struct {
	// Linear is the most rules, one after another, that a packet may be compared with in a chain of a hook.
	Linear int `json:"linear,omitempty"`
	// Chain is where, as "inet filter forward".
	Chain string `json:"chain,omitempty"`
	// Conntrack says that connections are tracked, Entries of at most Limit.
	Conntrack bool `json:"conntrack,omitempty"`
	Entries   int  `json:"entries,omitempty"`
	Limit     int  `json:"limit,omitempty"`
}
