package dut

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
)

// SelvageOptions are of one half; zero fields get defaults.
type SelvageOptions struct {
	Binary      string // path of selvage; default: EdgeProgram
	VNI         uint32 // default 100
	Port        uint16 // UDP; default: the encapsulation's own
	UDPChecksum bool   // over IPv6
	// Encapsulation is vxlan (default), geneve or nvgre.
	Encapsulation overlay.Encapsulation
	// NoClamp leaves the MSS of TCP connections alone.
	NoClamp bool
	// NoFlowCache has every packet decided anew.
	NoFlowCache bool
	// Learned has no remotes and no static hosts behind them: a neighbour in BGP says, at this
	// address.
	Learned netip.Addr
	// Timing has the data path write down when packets pass.
	Timing bool
	// Load is what both edges carry besides; nil is nothing. Ends of one subnet only.
	Load *Load
	// Started is told of each edge that runs.
	Started func(*topo.Host, *Edge)
}

// Selvage runs an edge on both hosts.
func Selvage(ctx context.Context, n *topo.TwoHosts, o SelvageOptions) (*topo.Path, error) {
	if o.Load == nil {
		return n.Build(ctx, SelvageHalf(o), SelvageHalf(o))
	}
	edges := map[*topo.Host]*Edge{}
	started := o.Started
	o.Started = func(h *topo.Host, e *Edge) {
		edges[h] = e
		if started != nil {
			started(h, e)
		}
	}
	path, err := n.Build(ctx, SelvageHalf(o), SelvageHalf(o))
	if err != nil {
		return nil, err
	}
	stop, err := o.Load.apply(ctx, n, edges)
	if err != nil {
		return nil, errors.Join(err, path.Close())
	}
	path.OnStop(stop)
	return path, nil
}

// SelvageHalf is an edge with the access interface as its one port. Routed, it has
// a segment for each subnet, with a gateway of one router.
type SelvageHalf SelvageOptions

// Name is "selvage".
func (SelvageHalf) Name() string { return "selvage" }

// Describe is one line for reports.
func (o SelvageHalf) Describe() string {
	words := "Selvage edge, " + EncapsulationName(o.Encapsulation)
	if o.NoFlowCache {
		words += ", flow cache off"
	}
	if o.NoClamp {
		words += ", MSS not clamped"
	}
	if o.Load != nil {
		words += ", " + o.Load.Words()
	}
	return words
}

// EncapsulationName is an encapsulation's name as its standard writes it.
func EncapsulationName(e overlay.Encapsulation) string {
	if e == overlay.Geneve {
		return "Geneve"
	}
	return strings.ToUpper(string(cmp.Or(e, overlay.VXLAN)))
}

// Up starts an edge named EdgeName.
func (o SelvageHalf) Up(ctx context.Context, s topo.Site) (func(context.Context) error, error) {
	name := EdgeName(s.Host)
	var env []string
	if o.Timing {
		env = append(env, "SELVAGE_TIMING=1")
	}
	e, err := StartEdge(ctx, s.Host, o.Binary, name, o.Config(name, s), env...)
	if err != nil {
		return nil, err
	}
	if o.Started != nil {
		o.Started(s.Host, e)
	}
	return e.Stop, nil
}

// Config is the configuration of the half's edge, in YAML.
func (o SelvageHalf) Config(name string, s topo.Site) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: selvage.dev/v1alpha2
kind: Edge
metadata:
  name: %s
spec:
  underlay:
    interfaces: [%s]
    tep: "%s"
  flowCache:
    enabled: %t
`, name, topo.UnderlayName, s.Local, !o.NoFlowCache)
	if o.Learned.IsValid() {
		fmt.Fprintf(&b, "  bgp:\n    as: %d\n    routerID: %s\n    neighbours:\n      - {name: reflector, address: %q}\n", AS, RouterID(s.Local), o.Learned)
	}
	o.Load.writeHTTP(&b)
	b.WriteString("  segments:\n")
	home := "lab"
	if s.Subnets == nil {
		o.segment(&b, home, 0, s.Remote)
		o.Load.writeFDB(&b, s.Remote)
	} else {
		home = s.Subnets[0].Name
		o.routed(&b, s)
	}
	b.WriteString("  ports:\n")
	for i, name := range s.Ports() {
		fmt.Fprintf(&b, "    - name: %s\n      interface: %s\n      segment: %s\n", topo.PairName("access", i), name, home)
	}
	return b.String()
}

// segment writes one segment; what is left out has the edge's default.
func (o SelvageHalf) segment(b *strings.Builder, name string, index uint32, remote netip.Addr) {
	fmt.Fprintf(b, "    - name: %s\n      vni: %d\n", name, vni(o.VNI)+index)
	if o.Encapsulation != "" && o.Encapsulation != overlay.VXLAN {
		fmt.Fprintf(b, "      encapsulation: %s\n", o.Encapsulation)
	}
	if o.Port != 0 {
		fmt.Fprintf(b, "      udpPort: %d\n", o.Port)
	}
	if o.UDPChecksum {
		b.WriteString("      udpChecksum: true\n")
	}
	if o.NoClamp {
		b.WriteString("      clampMSS: false\n")
	}
	if o.Learned.IsValid() {
		b.WriteString("      evpn: {}\n")
		return
	}
	fmt.Fprintf(b, "      remotes: [%q]\n", remote)
}

// routed writes a segment for each subnet and the router between them. Hosts behind
// the tunnel are static, as they are for the kernel.
func (o SelvageHalf) routed(b *strings.Builder, s topo.Site) {
	for i, subnet := range s.Subnets {
		o.segment(b, subnet.Name, subnet.Index, s.Remote)
		if i > 0 && !o.Learned.IsValid() {
			fmt.Fprintf(b, "      fdb:\n        - {mac: %q, remote: %q}\n      neighbours:\n", subnet.EndMAC, s.Remote)
			for _, addr := range subnet.End {
				fmt.Fprintf(b, "        - {address: %q, mac: %q}\n", addr, subnet.EndMAC)
			}
		}
		gateways := make([]string, len(subnet.Gateways))
		for k, gateway := range subnet.Gateways {
			gateways[k] = fmt.Sprintf("%q", gateway)
		}
		fmt.Fprintf(b, "      gateway:\n        router: %s\n        addresses: [%s]\n", RouterName, strings.Join(gateways, ", "))
	}
	fmt.Fprintf(b, "  routers:\n    - name: %s\n", RouterName)
}
