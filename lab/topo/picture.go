package topo

import (
	"fmt"
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
