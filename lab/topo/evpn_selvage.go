package topo

import (
	"context"
	"fmt"
	"strings"
)

// EVPNSelvage is an edge of Selvage, which speaks BGP itself.
type EVPNSelvage struct {
	Binary string // path of selvage; default: EdgeProgram
	// Liveness is the interval of BFD with other edges of Selvage, "100ms"; "" goes without.
	Liveness string
	// More is added to the configuration, in lines of spec.
	More string
	// Change has the last word on the configuration.
	Change func(e *EVPNEdge, config string) string
	// Started is told of each edge that runs.
	Started func(*Host, *Edge)
}

// Name is "selvage".
func (EVPNSelvage) Name() string { return "selvage" }

// Describe is one line for reports.
func (o EVPNSelvage) Describe() string {
	if o.Liveness != "" {
		return "Selvage edge, BFD every " + o.Liveness
	}
	return "Selvage edge"
}

// Up starts an edge, or starts it again: then it takes over the data path it finds.
func (o EVPNSelvage) Up(ctx context.Context, e *EVPNEdge) (err error) {
	name := e.EdgeName()
	if e.Edge, err = e.StartEdge(ctx, o.Binary, name, o.Config(e)); err != nil {
		return err
	}
	if o.Started != nil {
		o.Started(e.Host, e.Edge)
	}
	return nil
}

// Down stops the edge.
func (EVPNSelvage) Down(ctx context.Context, e *EVPNEdge) error {
	if e.Edge == nil {
		return nil
	}
	return e.Edge.Stop(ctx)
}

// Config is the configuration of the edge, in YAML.
func (o EVPNSelvage) Config(e *EVPNEdge) string {
	n := e.Fabric
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: selvage.dev/v1alpha2\nkind: Edge\nmetadata: {name: %s}\nspec:\n", e.EdgeName())
	fmt.Fprintf(&b, "  underlay:\n    interfaces: [%s]\n    tep: %q\n", UnderlayName, e.TEP)
	if o.Liveness != "" {
		fmt.Fprintf(&b, "    bfd: {interval: %s, multiplier: 3}\n", o.Liveness)
	}
	fmt.Fprintf(&b, "  bgp:\n    as: %d\n    routerID: %s\n    neighbours:\n", evpnAS, routerID(e.TEP))
	for _, r := range n.Reflectors {
		fmt.Fprintf(&b, "    - {name: %s, address: %q%s}\n", r.Name, r.Addr, n.neighbourOptions())
	}
	o.segments(&b, e)
	b.WriteString(o.More)
	if o.Change != nil {
		return o.Change(e, b.String())
	}
	return b.String()
}

func (n *EVPN) neighbourOptions() string {
	o := n.Options
	more := fmt.Sprintf(", timers: {hold: %ds, keepalive: %ds, connectRetry: 1s}", o.Hold, o.Keepalive)
	if o.Password != "" {
		more += fmt.Sprintf(", password: %q", o.Password)
	}
	if o.TTLSecurity {
		more += ", ttlSecurity: 1"
	}
	if o.Liveness != "" {
		more += ", bfd: true"
	}
	return more
}

// segments writes segments, the router between them where they have gateways, and ports.
func (EVPNSelvage) segments(b *strings.Builder, e *EVPNEdge) {
	n, routed := e.Fabric, e.Fabric.Options.L3VNI != 0
	b.WriteString("  segments:\n")
	for _, i := range e.segments() {
		s := n.Options.Segments[i]
		fmt.Fprintf(b, "  - name: %s\n    vni: %d\n    evpn: {}\n", s.Name, s.VNI)
		if s.Gateway {
			routed = true
			g := n.gateways(i)
			fmt.Fprintf(b, "    gateway: {router: %s, addresses: [%q, %q]}\n", RouterName, g[0], g[1])
		}
	}
	if routed {
		fmt.Fprintf(b, "  routers:\n  - name: %s\n", RouterName)
		if vni := n.Options.L3VNI; vni != 0 {
			fmt.Fprintf(b, "    l3: {vni: %d, mac: %q, evpn: {}}\n", vni, e.routerMAC())
		}
	}
	b.WriteString("  ports:\n")
	for _, g := range e.guests() {
		fmt.Fprintf(b, "  - {name: %s, interface: %s, segment: %s}\n", g.Name, g.Name, n.Options.Segments[g.Segment].Name)
	}
}
