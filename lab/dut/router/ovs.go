package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/dut"
)

// OVS is Open vSwitch's userspace datapath with OpenFlow rules that route:
// both MAC addresses are set and the TTL falls by one. It opens packet sockets on
// the device's interfaces, so the kernel's own stack gets every frame too and frees it.
type OVS struct {
	// Encapsulation is vxlan (default), geneve or nvgre.
	Encapsulation overlay.Encapsulation
}

// Describe is one line for reports.
func (o OVS) Describe() string {
	return "Open vSwitch, userspace datapath, OpenFlow routes, " + dut.EncapsulationName(o.Encapsulation)
}

// Up starts the daemons, bridges and rules.
func (o OVS) Up(ctx context.Context, t *Transit) (*Forwarding, error) {
	v, err := dut.StartOVS(ctx, t.Device)
	if err != nil {
		return nil, err
	}
	f := &Forwarding{Tunnel: t.tunnel(o.Encapsulation), Process: v.PID(), Drops: func(ctx context.Context) (map[string]uint64, error) { return switchDrops(ctx, v) }, Excused: stackReasons()}
	f.stop = func(ctx context.Context) error { return errors.Join(unbridge(ctx, v, t), v.Stop(ctx)) }
	for i, k := range t.Underlays {
		f.Tunnel.Endpoints[i] = k.DeviceAddr.Addr()
	}
	for _, step := range []func(context.Context, *dut.OpenVSwitch, *Transit) error{o.ports, endpoints, o.rules} {
		if err := step(ctx, v, t); err != nil {
			return f, err
		}
	}
	return f, nil
}

// stackReasons are what the kernel's stack frees its copies for: there is no address
// and no socket for them. RFC 2544's flows do not meet any of these otherwise.
func stackReasons() []string {
	return []string{
		"IP_INADDRERRORS", "IP_INNOROUTES", "IP_RPFILTER", "IP_LOCAL_SOURCE", "IP_LOCALNET", "IP_INVALID_DEST", "IP_INVALID_SOURCE",
		"NOT_SPECIFIED", "NO_SOCKET", "OTHERHOST", "UNHANDLED_PROTO", "IPV6DISABLED", "IP_NOPROTO", "UNICAST_IN_L2_MULTICAST",
		"UDP_CSUM", "DEV_READY", "TC_INGRESS",
	}
}

// ports makes the bridge of the frames, with uplinks and a tunnel port to each of the
// tester's endpoints, and a bridge for each underlay link.
func (o OVS) ports(ctx context.Context, v *dut.OpenVSwitch, t *Transit) error {
	args := []string{"--", "add-br", dut.OVSOverlayBridge, "--", "set", "bridge", dut.OVSOverlayBridge, "datapath_type=netdev", "fail_mode=secure"}
	for i, k := range t.Uplinks {
		args = append(args, "--", "add-port", dut.OVSOverlayBridge, k.Device, "--", "set", "interface", k.Device, fmt.Sprintf("ofport_request=%d", 1+i))
	}
	for i, k := range t.Underlays {
		bridge, tunnel := underlayBridge(i), fmt.Sprintf("tunnel%d", i)
		args = append(args,
			"--", "add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=netdev", "other_config:hwaddr="+fmt.Sprintf("%q", k.DeviceMAC.String()),
			"--", "add-port", bridge, k.Device, "--", "set", "interface", bridge, fmt.Sprintf("mtu_request=%d", t.Options.MTU),
			"--", "add-port", dut.OVSOverlayBridge, tunnel, "--", "set", "interface", tunnel, fmt.Sprintf("ofport_request=%d", 11+i))
		half := dut.OVSHalf{VNI: uint32(segment), Encapsulation: o.Encapsulation}
		args = append(args, half.Tunnel()...)
		args = append(args, dut.OVSAddress("local_ip", k.DeviceAddr.Addr()), dut.OVSAddress("remote_ip", k.TesterAddr.Addr()), "options:csum=false")
	}
	return v.VSCtl(ctx, args...)
}

// unbridge removes the bridges, whose interfaces the daemons would leave behind.
func unbridge(ctx context.Context, v *dut.OpenVSwitch, t *Transit) error {
	if t.Lab.Closing() {
		return nil
	}
	args := []string{"--", "--if-exists", "del-br", dut.OVSOverlayBridge}
	for i := range t.Underlays {
		args = append(args, "--", "--if-exists", "del-br", underlayBridge(i))
	}
	return v.VSCtl(ctx, args...)
}

func underlayBridge(i int) string { return fmt.Sprintf("%s%d", dut.OVSUnderlayBridge, i) }

// endpoints gives each underlay bridge its TEP's address, where the switch looks for
// the tunnel's route, and the MAC address of the tester's.
func endpoints(ctx context.Context, v *dut.OpenVSwitch, t *Transit) error {
	for i, k := range t.Underlays {
		bridge := underlayBridge(i)
		if err := errors.Join(t.Device.Up(bridge), own(t.Device, bridge, k.DeviceAddr)); err != nil {
			return err
		}
		if err := t.Device.AwaitUp(ctx, bridge); err != nil {
			return err
		}
		set := func() error {
			return v.AppCtl(ctx, "tnl/neigh/set", bridge, k.TesterAddr.Addr().String(), k.TesterMAC.String())
		}
		if err := await.That(ctx, "the switch to take the tunnel's neighbour", set); err != nil {
			return err
		}
	}
	return nil
}

// rules route: the i-th uplink to the i-th tunnel and back.
func (o OVS) rules(ctx context.Context, v *dut.OpenVSwitch, t *Transit) error {
	for i, k := range t.Uplinks {
		in := fmt.Sprintf("in_port=%d,%s,actions=%s", 1+i, matchTo(t.Inside), routeTo(routerMAC, farMAC(i), 11+i))
		out := fmt.Sprintf("in_port=%d,%s,actions=%s", 11+i, matchTo(t.Outside), routeTo(k.DeviceMAC, k.TesterMAC, 1+i))
		for _, rule := range []string{in, out} {
			if err := v.Run(ctx, "ovs-ofctl", "--timeout=5", "add-flow", "unix:"+v.Dir+"/"+dut.OVSOverlayBridge+".mgmt", rule); err != nil {
				return err
			}
		}
	}
	return nil
}

func matchTo(to netip.Prefix) string {
	if to.Addr().Is4() {
		return "ip,nw_dst=" + to.String()
	}
	return "ipv6,ipv6_dst=" + to.String()
}

func routeTo(from, to net.HardwareAddr, port int) string {
	return fmt.Sprintf("mod_dl_src:%s,mod_dl_dst:%s,dec_ttl,output:%d", from, to, port)
}

// switchDrops are what the switch counted itself, and what its packet sockets did not take
// because they were full: the kernel, which holds another copy, does not count those.
func switchDrops(ctx context.Context, v *dut.OpenVSwitch) (map[string]uint64, error) {
	counts, err := socketDrops(ctx, v)
	if err != nil {
		return nil, err
	}
	c := v.Host.Command(ctx, "ovs-vsctl", "--db=unix:"+v.Socket(), "--timeout=10", "--format=json", "--columns=name,statistics", "list", "interface")
	c.Env = v.Env
	out, err := c.Output()
	if err != nil {
		return nil, err
	}
	var table struct {
		Data [][2]json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(out, &table); err != nil {
		return nil, fmt.Errorf("interfaces of Open vSwitch: %w", err)
	}
	for _, row := range table.Data {
		var name string
		if err := json.Unmarshal(row[0], &name); err != nil {
			return nil, fmt.Errorf("interfaces of Open vSwitch: %w", err)
		}
		statistics, err := ovsMap(row[1])
		if err != nil {
			return nil, fmt.Errorf("interface %s of Open vSwitch: %w", name, err)
		}
		for key, n := range statistics {
			if strings.HasPrefix(key, "ovs_") && strings.HasSuffix(key, "_drops") {
				counts[name+" "+key] = n
			}
		}
	}
	return counts, nil
}

// memory is the part of ss(8)'s line that counts what a socket dropped.
var memory = regexp.MustCompile(`skmem:\(.*,d([0-9]+)\)`)

func socketDrops(ctx context.Context, v *dut.OpenVSwitch) (map[string]uint64, error) {
	out, err := v.Host.Output(ctx, "ss", "--packet", "--numeric", "--memory", "--no-header", "--oneline")
	if err != nil {
		return nil, err
	}
	sum := uint64(0)
	for _, found := range memory.FindAllSubmatch(out, -1) {
		n, err := strconv.ParseUint(string(found[1]), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("ss: %w", err)
		}
		sum += n
	}
	return map[string]uint64{"packet sockets full": sum}, nil
}

// ovsMap reads a map of numbers as OVSDB writes it (RFC 7047 section 5.1): ["map",
// [[key, value], …]].
func ovsMap(data json.RawMessage) (map[string]uint64, error) {
	var kind []json.RawMessage
	if err := json.Unmarshal(data, &kind); err != nil || len(kind) != 2 {
		return nil, fmt.Errorf("%s is not a map: %w", data, err)
	}
	var pairs [][2]json.RawMessage
	if err := json.Unmarshal(kind[1], &pairs); err != nil {
		return nil, err
	}
	values := map[string]uint64{}
	for _, pair := range pairs {
		var key string
		var n uint64
		if err := errors.Join(json.Unmarshal(pair[0], &key), json.Unmarshal(pair[1], &n)); err != nil {
			return nil, err
		}
		values[key] = n
	}
	return values, nil
}
