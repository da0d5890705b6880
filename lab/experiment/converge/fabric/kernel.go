package fabric

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/dut/evpn"
)

// kernel is edges of Linux and FRR.
type kernel struct {
	*Fabric
	evpn.Kernel
}

// Describe is one line for reports.
func (k *kernel) Describe() string {
	return "Linux bridge, the kernel's vxlan device and FRR; " + k.plane()
}

// Up starts an edge on which MAC addresses may move as often as they like.
func (k *kernel) Up(ctx context.Context, e *evpn.Edge) error {
	if err := k.Kernel.Up(ctx, e); err != nil {
		return err
	}
	// Flows to one address may take different ways, each always the same.
	errs := []error{e.SysctlSet("net/ipv4/fib_multipath_hash_policy", "1"), k.tolerate(ctx, e)}
	for _, i := range e.Segments() {
		errs = append(errs, e.DisableIPv6(evpn.BridgeOf(e.Fabric.Options.Segments[i].VNI)))
	}
	return errors.Join(errs...)
}

// tolerate has any number of moves be good, and routes of IPv4 alone told: with both families
// FRR 8.4 forgets the MAC address of a router, and so all of its routes, when one of IPv6 goes.
func (*kernel) tolerate(ctx context.Context, e *evpn.Edge) error {
	return e.FRR.Configure(ctx, fmt.Sprintf("router bgp %d", dut.AS), "address-family l2vpn evpn", "no dup-addr-detection", "no advertise ipv6 unicast")
}

// serve routes to the service by a guest, and has FRR tell that.
func (k *kernel) serve(ctx context.Context, e *evpn.Edge, by netip.Addr) error {
	return errors.Join(
		e.AddRoute(evpn.BridgeOf(e.Fabric.Options.Segments[1].VNI), netip.PrefixFrom(serviceAddr, 32), by),
		e.AddAddr("lo", loopback(e)),
		k.announce(ctx, e))
}

// loopback is an address of an edge alone.
func loopback(e *evpn.Edge) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 255, 0, byte(e.Index + 1)}), 32)
}

// announce has FRR tell of the service, and of the edge's own address: when a prefix gets
// another next hop, FRR 8.4 forgets the MAC address of the router that it had before, which
// then is missing, unless a prefix needs it that does not change.
func (*kernel) announce(ctx context.Context, e *evpn.Edge) error {
	return e.FRR.Configure(ctx, fmt.Sprintf("router bgp %d", dut.AS), "address-family ipv4 unicast",
		fmt.Sprintf("network %s/32", serviceAddr), "network "+loopback(e).String())
}

func (*kernel) kill(e *evpn.Edge) error {
	e.FRR.Kill()
	return nil
}

// again starts FRR, which finds devices and its own routes of before.
func (k *kernel) again(ctx context.Context, e *evpn.Edge) error {
	if err := e.FRR.Start(ctx); err != nil {
		return err
	}
	return errors.Join(k.tolerate(ctx, e), k.announce(ctx, e))
}

// paths are the kernel's.
func (*kernel) paths(ctx context.Context, e *evpn.Edge) (int, error) {
	out, err := e.Output(ctx, "ip", "-j", "route", "show", serviceAddr.String())
	if err != nil {
		return 0, err
	}
	var routes []struct {
		Gateway  string            `json:"gateway"`
		NextHops []json.RawMessage `json:"nexthops"`
	}
	if err := json.Unmarshal(out, &routes); err != nil || len(routes) == 0 {
		return 0, err
	}
	return max(len(routes[0].NextHops), min(1, len(routes[0].Gateway))), nil
}

// noticed is not known: the reflector's liveness is what counts, and it passes that on.
func (*kernel) noticed(context.Context, *evpn.Edge, time.Time) (time.Time, error) {
	return time.Time{}, nil
}

// whole has nothing to say that reflector and paths do not.
func (*kernel) whole(context.Context, *evpn.Edge) error { return nil }
