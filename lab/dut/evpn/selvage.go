package evpn

import (
	"context"
	"fmt"
	"strings"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
)

// Selvage is an edge of Selvage, which speaks BGP itself.
type Selvage struct {
	Binary string // path of selvage; default: dut.EdgeProgram
	// Liveness is the interval of BFD with other edges of Selvage, "100ms"; "" goes without.
	Liveness string
	// More is added to the configuration, in lines of spec.
	More string
	// Change has the last word on the configuration.
	Change func(e *Edge, config string) string
	// Started is told of each edge that runs.
	Started func(*topo.Host, *dut.Edge)
}

// Name is "selvage".
func (Selvage) Name() string { return "selvage" }

// Describe is one line for reports.
func (o Selvage) Describe() string {
	if o.Liveness != "" {
		return "Selvage edge, BFD every " + o.Liveness
	}
	return "Selvage edge"
}

// Up starts an edge, or starts it again: then it takes over the data path it finds.
func (o Selvage) Up(ctx context.Context, e *Edge) (err error) {
	name := dut.EdgeName(e.Host)
	if e.Edge, err = dut.StartEdge(ctx, e.Host, o.Binary, name, o.Config(e)); err != nil {
		return err
	}
	if o.Started != nil {
		o.Started(e.Host, e.Edge)
	}
	return nil
}

// Down stops the edge.
func (Selvage) Down(ctx context.Context, e *Edge) error {
	if e.Edge == nil {
		return nil
	}
	return e.Edge.Stop(ctx)
}

// Config is the configuration of the edge, in YAML.
func (o Selvage) Config(e *Edge) string {
	n := e.Fabric
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: selvage.dev/v1alpha2\nkind: Edge\nmetadata: {name: %s}\nspec:\n", dut.EdgeName(e.Host))
	fmt.Fprintf(&b, "  underlay:\n    interfaces: [%s]\n    tep: %q\n", topo.UnderlayName, e.TEP)
	if o.Liveness != "" {
		fmt.Fprintf(&b, "    bfd: {interval: %s, multiplier: 3}\n", o.Liveness)
	}
	fmt.Fprintf(&b, "  bgp:\n    as: %d\n    routerID: %s\n    neighbours:\n", dut.AS, dut.RouterID(e.TEP))
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

func (n *Fabric) neighbourOptions() string {
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
func (Selvage) segments(b *strings.Builder, e *Edge) {
	n, routed := e.Fabric, e.Fabric.Options.L3VNI != 0
	b.WriteString("  segments:\n")
	for _, i := range e.Segments() {
		s := n.Options.Segments[i]
		fmt.Fprintf(b, "  - name: %s\n    vni: %d\n    evpn: {}\n", s.Name, s.VNI)
		if s.Gateway {
			routed = true
			g := n.gateways(i)
			fmt.Fprintf(b, "    gateway: {router: %s, addresses: [%q, %q]}\n", dut.RouterName, g[0], g[1])
		}
	}
	if routed {
		fmt.Fprintf(b, "  routers:\n  - name: %s\n", dut.RouterName)
		if vni := n.Options.L3VNI; vni != 0 {
			fmt.Fprintf(b, "    l3: {vni: %d, mac: %q, evpn: {}}\n", vni, e.routerMAC())
		}
	}
	b.WriteString("  ports:\n")
	for _, g := range e.guests() {
		fmt.Fprintf(b, "  - {name: %s, interface: %s, segment: %s}\n", g.Name, g.Name, n.Options.Segments[g.Segment].Name)
	}
}
