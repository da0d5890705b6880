package cause

// Settings are what --may names, with what each means.
func Settings() []Setting {
	return []Setting{
		{"offload", "checksum and segmentation offloads of the interfaces on the path"},
		{"gro", "generic receive offload of the interfaces on the path"},
		{"mtu", "MTUs of the interfaces on the path"},
		{"rss", "receive queues and what they hash (RSS, RPS)"},
		{"ring", "sizes of descriptor rings"},
		{"pause", "link level flow control"},
		{"governor", "frequency governor of the CPUs"},
		{"qdisc", "queueing disciplines and rate limits of the interfaces on the path"},
		{"netfilter", "rules of nftables and conntrack on the path"},
		{"bridge-netfilter", "net.bridge.bridge-nf-call-* sysctls"},
	}
}

// Setting is something that may be flipped.
type Setting struct{ Name, Words string }
