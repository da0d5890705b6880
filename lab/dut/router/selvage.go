package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
)

// Selvage is an edge with one router between its uplinks and a segment between
// routers, whose other edges are the tester's endpoints. All next hops are static.
type Selvage struct {
	Binary string // path of selvage; default: dut.EdgeProgram
	// Encapsulation is vxlan (default), geneve or nvgre.
	Encapsulation overlay.Encapsulation
	// Mode is the edge's spec.transit.mode; "" leaves it to the edge.
	Mode string
	// NoFlowCache has every packet decided anew.
	NoFlowCache bool
	// FlowCacheSize is in entries; 0 is the edge's default.
	FlowCacheSize int
}

// Describe is one line for reports.
func (o Selvage) Describe() string {
	words := "Selvage edge, " + dut.EncapsulationName(o.Encapsulation)
	if o.Mode != "" {
		words += ", transit mode " + o.Mode
	}
	if o.NoFlowCache {
		words += ", flow cache off"
	}
	return words
}

// Up starts an edge and waits until all its next hops are resolved.
func (o Selvage) Up(ctx context.Context, t *Transit) (*Forwarding, error) {
	if err := t.addressUnderlays(); err != nil {
		return nil, err
	}
	name := dut.EdgeName(t.Device)
	e, err := dut.StartEdge(ctx, t.Device, o.Binary, name, o.Config(name, t))
	if err != nil {
		return nil, err
	}
	f := &Forwarding{Tunnel: t.tunnel(o.Encapsulation), Edge: e, Drops: func(ctx context.Context) (map[string]uint64, error) { return edgeDrops(ctx, e) }, Excused: []string{"TC_INGRESS"}, Programs: true}
	f.stop = func(ctx context.Context) error { return errors.Join(e.Stop(ctx), t.unaddressUnderlays()) }
	return f, await.That(ctx, "next hops of edge "+name+" to be resolved", func() error {
		return errors.Join(t.callRouter(), resolved(ctx, e))
	})
}

// callRouter has the tester's routers at the uplinks ask for the device's address, which
// makes theirs known there. What they knew of an earlier device they forget.
func (t *Transit) callRouter() error {
	var errs []error
	for _, k := range t.Uplinks {
		errs = append(errs,
			t.Tester.DelNeighbour(k.Tester, k.DeviceAddr.Addr()),
			t.Tester.Do(func() error {
				conn, err := net.Dial("udp", netip.AddrPortFrom(k.DeviceAddr.Addr(), topo.DiscardPort).String())
				if err != nil {
					return err
				}
				_, err = conn.Write([]byte{0})
				return errors.Join(err, conn.Close())
			}))
	}
	return errors.Join(errs...)
}

// unaddressUnderlays undoes addressUnderlays.
func (t *Transit) unaddressUnderlays() error {
	if t.Lab.Closing() {
		return nil
	}
	var errs []error
	for _, k := range t.Underlays {
		errs = append(errs, t.Device.DelAddr(k.Device, k.DeviceAddr))
	}
	return errors.Join(errs...)
}

// edgeDrops are the edge's counters by reason.
func edgeDrops(ctx context.Context, e *dut.Edge) (map[string]uint64, error) {
	var list []struct {
		Reason  string `json:"reason"`
		Packets uint64 `json:"packets"`
	}
	if err := e.Document(ctx, "/v1/drops", &list); err != nil {
		return nil, err
	}
	counts := map[string]uint64{}
	for _, d := range list {
		counts[d.Reason] = d.Packets
	}
	return counts, nil
}

// resolved says which next hop has no MAC address yet.
func resolved(ctx context.Context, e *dut.Edge) error {
	var routes []struct {
		Prefix string `json:"prefix"`
		Hops   []struct {
			State string `json:"state"`
		} `json:"hops"`
	}
	if err := e.Document(ctx, "/v1/routes", &routes); err != nil {
		return err
	}
	if len(routes) == 0 {
		return errors.New("there are no routes")
	}
	for _, r := range routes {
		for _, hop := range r.Hops {
			if hop.State != "resolved" && hop.State != "connected" {
				return fmt.Errorf("a next hop of %s is %s", r.Prefix, hop.State)
			}
		}
	}
	return nil
}

// Config is the configuration of the edge, in YAML.
func (o Selvage) Config(name string, t *Transit) string {
	var b strings.Builder
	var underlays, remotes, inside, outside []string
	for i, k := range t.Underlays {
		underlays = append(underlays, k.Device)
		remotes = append(remotes, fmt.Sprintf("%q", k.TesterAddr.Addr()))
		inside = append(inside, fmt.Sprintf("{remote: %q, mac: %q}", k.TesterAddr.Addr(), farMAC(i)))
	}
	for _, k := range t.Uplinks {
		outside = append(outside, fmt.Sprintf("{address: %q}", k.TesterAddr.Addr()))
	}
	fmt.Fprintf(&b, "apiVersion: selvage.dev/v1alpha2\nkind: Edge\nmetadata: {name: %s}\nspec:\n", name)
	fmt.Fprintf(&b, "  underlay: {interfaces: [%s], tep: %q, probeMTU: false}\n", strings.Join(underlays, ", "), t.TEP)
	fmt.Fprintf(&b, "  flowCache: {enabled: %t", !o.NoFlowCache)
	if o.FlowCacheSize != 0 {
		fmt.Fprintf(&b, ", size: %d", o.FlowCacheSize)
	}
	b.WriteString("}\n")
	if o.Mode != "" {
		fmt.Fprintf(&b, "  transit: {mode: %s}\n", o.Mode)
	}
	fmt.Fprintf(&b, "  routers:\n  - name: %s\n", dut.RouterName)
	fmt.Fprintf(&b, "    l3: {vni: %d, encapsulation: %s, mac: %q, remotes: [%s]}\n",
		segment, cmp.Or(o.Encapsulation, overlay.VXLAN), routerMAC, strings.Join(remotes, ", "))
	b.WriteString("    routes:\n")
	for _, prefix := range append(t.moreRoutes(t.Inside), t.Inside) {
		fmt.Fprintf(&b, "    - {prefix: %q, via: [%s]}\n", prefix, strings.Join(inside, ", "))
	}
	for _, prefix := range append(t.moreRoutes(t.Outside), t.Outside) {
		fmt.Fprintf(&b, "    - {prefix: %q, via: [%s]}\n", prefix, strings.Join(outside, ", "))
	}
	b.WriteString("    uplinks:\n")
	for i, k := range t.Uplinks {
		fmt.Fprintf(&b, "    - {name: wan%d, interface: %s, mac: %q, addresses: [%q]}\n", i, k.Device, k.DeviceMAC, k.DeviceAddr)
	}
	return b.String()
}
