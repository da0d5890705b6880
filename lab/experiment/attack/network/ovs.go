package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
)

// OVS is Open vSwitch's userspace datapath with the port security and connection tracking
// that OVN and Neutron write as flows: a VLAN for each segment, a tracker's zone likewise, meters for
// broadcast and multicast, BFD in the tunnels. It has no router.
type OVS struct{}

// Describe is one line for reports.
func (OVS) Describe() string {
	return "Open vSwitch, userspace datapath; flows of port security, ct zones and meters"
}

// Routes is false.
func (OVS) Routes() bool { return false }

// Up starts a switch on each host.
func (o OVS) Up(ctx context.Context, n *Network) (func(context.Context) error, error) {
	var running []*dut.OpenVSwitch
	stop := func(ctx context.Context) error {
		var errs []error
		for _, v := range running {
			errs = append(errs, v.Stop(ctx))
		}
		return errors.Join(errs...)
	}
	for i, h := range []*topo.Host{n.A, n.B} {
		v, err := dut.StartOVS(ctx, h)
		if err != nil {
			return stop, err
		}
		running = append(running, v)
		if err := o.host(ctx, n, v, i+1); err != nil {
			return stop, fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	// Such a datapath takes frames as they are: who sends to it has to fill in checksums.
	off := map[string]bool{"tx-checksum-ip-generic": false}
	var errs []error
	for _, g := range n.Guests {
		_, err := g.SetFeatures(topo.EndName, off)
		errs = append(errs, err)
	}
	for _, h := range []*topo.Host{n.A, n.B, n.Stranger} {
		_, err := h.SetFeatures(topo.UnderlayName, off)
		errs = append(errs, err)
	}
	return stop, errors.Join(errs...)
}

// host makes bridges, ports, meters and flows.
func (o OVS) host(ctx context.Context, n *Network, v *dut.OpenVSwitch, own int) error {
	local, remote := topo.UnderlayAddr(own, 4), topo.UnderlayAddr(3-own, 4)
	mac, err := v.Host.MAC(topo.UnderlayName)
	if err != nil {
		return err
	}
	args := []string{
		"--", "add-br", dut.OVSUnderlayBridge, "--", "set", "bridge", dut.OVSUnderlayBridge, "datapath_type=netdev", "other_config:hwaddr=" + fmt.Sprintf("%q", mac.String()),
		"--", "add-port", dut.OVSUnderlayBridge, topo.UnderlayName,
		"--", "set", "interface", dut.OVSUnderlayBridge, "mtu_request=1500",
		"--", "add-br", dut.OVSOverlayBridge, "--", "set", "bridge", dut.OVSOverlayBridge, "datapath_type=netdev", "protocols=OpenFlow10,OpenFlow13",
		fmt.Sprintf("other_config:mac-aging-time=%d", int(n.Options.Ageing/time.Second)),
		"--", "set", "interface", dut.OVSOverlayBridge, "mtu_request=1450",
	}
	for _, g := range n.Behind(v.Host) {
		args = append(args, "--", "add-port", dut.OVSOverlayBridge, g.Port, fmt.Sprintf("tag=%d", g.Segment+1))
	}
	for i, segment := range segments() {
		args = append(args, "--", "add-port", dut.OVSOverlayBridge, "vx-"+segment, fmt.Sprintf("tag=%d", i+1),
			"--", "set", "interface", "vx-"+segment, "type=vxlan", fmt.Sprintf("options:key=%d", VNI(i)),
			dut.OVSAddress("local_ip", local), dut.OVSAddress("remote_ip", remote), "bfd:enable=true")
	}
	if err := v.VSCtl(ctx, args...); err != nil {
		return err
	}
	site := topo.Site{Host: v.Host, Local: local}
	if err := v.MoveTEP(ctx, site); err != nil {
		return err
	}
	if n.Options.Bare {
		return nil
	}
	return o.secure(ctx, n, v)
}

// secure writes the flows, as one bundle, and before that the meters that they refer to.
func (o OVS) secure(ctx context.Context, n *Network, v *dut.OpenVSwitch) error {
	for i := range 2 * len(n.Behind(v.Host)) {
		meter := fmt.Sprintf("meter=%d,pktps,burst,bands=type=drop,rate=%d,burst_size=200", i+1, [2]int{StormBroadcast, StormMulticast}[i%2])
		if err := v.Run(ctx, "ovs-ofctl", "-O", "OpenFlow13", "add-meter", dut.OVSOverlayBridge, meter); err != nil {
			return err
		}
	}
	file := filepath.Join(v.Dir, "flows")
	if err := os.WriteFile(file, []byte(o.Flows(n, v.Host)), 0o644); err != nil {
		return err
	}
	return v.Run(ctx, "ovs-ofctl", "-O", "OpenFlow13", "--timeout=60", "replace-flows", dut.OVSOverlayBridge, file)
}

// Tables of the flows.
const ovsTables = `table=1,priority=0,actions=goto_table:2
table=2,priority=30,arp,actions=NORMAL
table=2,priority=20,ip,actions=ct(zone=NXM_NX_REG0[0..15],table=3)
table=2,priority=20,ipv6,actions=ct(zone=NXM_NX_REG0[0..15],table=3)
table=2,priority=0,actions=NORMAL
table=3,priority=30,ct_state=+trk+inv,actions=drop
table=3,priority=20,ct_state=+trk+est,actions=NORMAL
table=3,priority=20,ct_state=+trk+rel,actions=NORMAL
table=3,priority=10,ip,ct_state=+trk+new,actions=ct(commit,zone=NXM_NX_REG0[0..15]),NORMAL
table=3,priority=10,ipv6,ct_state=+trk+new,actions=ct(commit,zone=NXM_NX_REG0[0..15]),NORMAL
table=3,priority=0,actions=drop
table=0,priority=0,actions=drop
`

// Flows are those of a host: table 0 is port security, 1 limits, 2 and 3 track.
func (OVS) Flows(n *Network, h *topo.Host) string {
	var b strings.Builder
	b.WriteString(ovsTables)
	for kind := 133; kind <= 136; kind++ {
		fmt.Fprintf(&b, "table=2,priority=30,icmp6,icmp_type=%d,actions=NORMAL\n", kind)
	}
	for i, segment := range segments() {
		fmt.Fprintf(&b, "table=0,priority=70,in_port=vx-%s,actions=load:%d->NXM_NX_REG0[],goto_table:2\n", segment, i+1)
	}
	for i, g := range n.Behind(h) {
		ovsPort(&b, g)
		fmt.Fprintf(&b, "table=1,priority=20,in_port=%s,dl_dst=ff:ff:ff:ff:ff:ff,actions=meter:%d,goto_table:2\n", g.Port, 2*i+1)
		fmt.Fprintf(&b, "table=1,priority=10,in_port=%s,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00,actions=meter:%d,goto_table:2\n", g.Port, 2*i+2)
	}
	return b.String()
}

// ovsPort writes what the guest of a port may send.
func ovsPort(b *strings.Builder, g *Guest) {
	flow := func(priority int, match, actions string) {
		fmt.Fprintf(b, "table=0,priority=%d,in_port=%s%s,actions=%s\n", priority, g.Port, match, actions)
	}
	pass := fmt.Sprintf("load:%d->NXM_NX_REG0[],goto_table:1", g.Segment+1)
	for _, match := range []string{
		",vlan_tci=0x1000/0x1000", ",dl_dst=01:80:c2:00:00:00/ff:ff:ff:ff:ff:f0", ",icmp6,icmp_type=134", ",icmp6,icmp_type=137",
		",udp,tp_src=67", ",udp6,tp_src=547",
	} {
		flow(90, match, "drop")
	}
	if !g.Guarded {
		flow(70, "", pass)
		return
	}
	own, local := ",dl_src="+g.MAC.String(), linkLocal(g.MAC).String()
	for _, match := range []string{
		",arp,arp_spa=" + g.V4.String() + ",arp_sha=" + g.MAC.String(), ",arp,arp_spa=0.0.0.0,arp_sha=" + g.MAC.String(),
		",ip,nw_src=" + g.V4.String(), ",udp,nw_src=0.0.0.0,tp_dst=67",
		",ipv6,ipv6_src=" + g.V6.String(), ",ipv6,ipv6_src=" + local, ",ipv6,ipv6_src=::",
	} {
		flow(80, own+match, pass)
	}
	for _, target := range []string{g.V6.String(), local} {
		flow(86, own+",icmp6,icmp_type=136,nd_target="+target, pass)
	}
	for _, match := range []string{",icmp6,icmp_type=136"} {
		flow(85, match, "drop")
	}
	for _, match := range []string{",ip", ",ipv6", ",arp"} {
		flow(75, match, "drop")
	}
	flow(70, own, pass)
}
