package bridge

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/selvage/selvage/lab/topo"
)

// edgeConfig is the configuration of an edge with one segment, "lab".
type edgeConfig struct {
	name    string
	tep     netip.Addr
	remotes []netip.Addr
	ports   []string // interfaces, which are their names too
	ageing  string   // default: the edge's
	static  []string // YAML
	extra   string   // more of spec
}

func (c edgeConfig) yaml() string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: selvage.dev/v1alpha2\nkind: Edge\nmetadata: {name: %s}\nspec:\n", c.name)
	fmt.Fprintf(&b, "  underlay: {interfaces: [%s], tep: \"%s\"}\n%s", topo.UnderlayName, c.tep, c.extra)
	if c.ageing != "" {
		fmt.Fprintf(&b, "  fdb: {ageing: %s}\n", c.ageing)
	}
	b.WriteString("  segments:\n  - name: lab\n    vni: 100\n    remotes:\n")
	for _, r := range c.remotes {
		fmt.Fprintf(&b, "    - \"%s\"\n", r)
	}
	if len(c.static) > 0 {
		fmt.Fprintf(&b, "    fdb:\n    - %s\n", strings.Join(c.static, "\n    - "))
	}
	b.WriteString("  ports:\n")
	for _, p := range c.ports {
		fmt.Fprintf(&b, "  - {name: %s, interface: %s, segment: lab}\n", p, p)
	}
	return b.String()
}
