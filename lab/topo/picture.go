package topo

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
)

// Picture lists the links of the lab in ASCII, for a failed test to print.
func (l *Lab) Picture() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "lab %s (ip netns exec sv-%s-HOST ...)\n", l.ID, l.ID)
	for _, k := range l.links {
		fmt.Fprintf(&b, "  %s --- %s\n", k.a.picture(), k.b.picture())
	}
	return b.String()
}

// lost prints what interfaces have dropped, and what protocols count as errors.
const lost = `awk 'NR > 2 && $5 + $13 { print $1, "rx_dropped", $5, "tx_dropped", $13 }' /proc/net/dev; nstat -as | awk '/Errors|Discards|Drop/ { print $1, $2 }'`

// Lost lists the packets that the kernel counts as lost, at each host and in the machine's own queues, for a failed test to print.
func (l *Lab) Lost(ctx context.Context) string {
	l.mu.Lock()
	order, hosts := l.order, maps.Clone(l.hosts)
	l.mu.Unlock()
	var b strings.Builder
	for _, name := range order {
		out, err := hosts[name].Output(ctx, "sh", "-c", lost)
		if err != nil {
			out = []byte(err.Error())
		}
		for line := range strings.Lines(string(out)) {
			fmt.Fprintf(&b, "  %s %s\n", name, strings.TrimSpace(line))
		}
	}
	softnet, _ := os.ReadFile("/proc/net/softnet_stat") // a failed test says enough without
	for line := range strings.Lines(string(softnet)) {
		if words := strings.Fields(line); len(words) > 1 {
			fmt.Fprintf(&b, "  a core's backlog had no room, since boot, for %s (hexadecimal)\n", words[1])
		}
	}
	return b.String()
}

func (e LinkEnd) picture() string {
	words := []string{e.String(), e.mac().String()}
	for _, addr := range e.Addrs {
		words = append(words, addr.String())
	}
	return "[" + strings.Join(words, " ") + "]"
}

// Picture draws the topology with its MTUs and the path that is up, and lists
// the links.
func (n *TwoHosts) Picture() string {
	inner, name := n.Options.InnerMTU, "none"
	if n.path != nil {
		inner, name = n.path.InnerMTU, n.path.Name
	}
	access := fmt.Sprintf("--%d--", inner)
	names := n.Options.Names
	return fmt.Sprintf(" %s %s %s ==%d== %s %s %s    path: %s\n%s",
		names.Client, access, names.A, n.Options.UnderlayMTU, names.B, access, names.Server, name, n.Lab.Picture())
}
