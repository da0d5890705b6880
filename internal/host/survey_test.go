package host

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/await"
)

func (b *bench) survey() *Survey {
	b.t.Helper()
	s, err := OpenSurvey()
	b.must(err)
	b.t.Cleanup(s.Close)
	return s
}

func (b *bench) devices(s *Survey) map[string]Device {
	b.t.Helper()
	list, err := s.Devices()
	b.must(err)
	byName := map[string]Device{}
	for _, d := range list {
		byName[d.Name] = d
	}
	return byName
}

func TestSurveyDevices(t *testing.T) {
	b := newBench(t)
	b.must(b.near.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br"}}))
	b.must(b.near.LinkSetMaster(b.link(b.near, "v0"), b.link(b.near, "br")))
	b.must(b.near.LinkAddAltName(b.link(b.near, "us"), "a-name-longer-than-15-bytes"))
	s := b.survey()
	b.must(await.That(t.Context(), "the kernel to say that us is up", func() error {
		if us := b.devices(s)["us"]; !us.Up {
			return fmt.Errorf("%+v", us)
		}
		return nil
	}))
	d := b.devices(s)
	if us := d["us"]; us.Kind != "veth" || us.MTU != 1600 || !us.Up || us.Physical() || us.Tunnel != nil || us.Lower != "" ||
		!slices.Equal(us.Alts, []string{"a-name-longer-than-15-bytes"}) || !slices.Contains(us.Addrs, us4) || !slices.Contains(us.Addrs, us6) {
		t.Errorf("us: %+v", us)
	}
	if v0 := d["v0"]; v0.Master != "br" || v0.Up {
		t.Errorf("v0: %+v", v0)
	}
	if lo := d["lo"]; !lo.Loopback || lo.Physical() {
		t.Errorf("lo: %+v", lo)
	}
}

func TestSurveyVXLAN(t *testing.T) {
	b := newBench(t)
	b.must(b.near.LinkAdd(&netlink.Vxlan{
		LinkAttrs: netlink.LinkAttrs{Name: "x", MTU: 1550}, VxlanId: 7, SrcAddr: us4.Addr().AsSlice(), Group: net.IPv4(239, 1, 2, 3).To4(),
		VtepDevIndex: b.us.Attrs().Index, Port: 4790, PortLow: 50000, PortHigh: 50100, UDP6ZeroCSumRx: true, UDPCSum: true,
	}))
	second := netip.MustParseAddr("192.0.2.3")
	for _, e := range []struct {
		mac    string
		remote netip.Addr
	}{{"00:00:00:00:00:00", them4.Addr()}, {"02:00:00:00:00:09", second}, {"02:00:00:00:00:0a", second}} {
		mac, err := net.ParseMAC(e.mac)
		b.must(err)
		b.must(b.near.NeighAppend(&netlink.Neigh{
			LinkIndex: b.link(b.near, "x").Attrs().Index, Family: unix.AF_BRIDGE, State: netlink.NUD_PERMANENT,
			Flags: netlink.NTF_SELF, IP: e.remote.AsSlice(), HardwareAddr: mac,
		}))
	}
	x := b.devices(b.survey())["x"]
	if x.Tunnel == nil {
		t.Fatalf("no tunnel: %+v", x)
	}
	got := *x.Tunnel
	if !*got.Checksum || *got.Zero6Tx || !*got.Zero6Rx {
		t.Errorf("checksums: %t, %t, %t", *got.Checksum, *got.Zero6Tx, *got.Zero6Rx)
	}
	if got.Encapsulation != "vxlan" || got.VNI != 7 || got.Local != us4.Addr() || got.Group != netip.MustParseAddr("239.1.2.3") ||
		got.Port != 4790 || got.Lower != "us" || got.External || got.SourceLow != 50000 || got.SourceHigh != 50100 {
		t.Errorf("tunnel: %+v", got)
	}
	if !slices.Equal(got.Remotes, []netip.Addr{them4.Addr(), second}) {
		t.Errorf("remotes: %v", got.Remotes)
	}
}

// Tunnels of other kinds are told, as the netlink library reads them: few kernels have all.
func TestTunnelOf(t *testing.T) {
	far := them4.Addr()
	for _, c := range []struct {
		link netlink.Link
		want Tunnel
	}{
		{&netlink.Iptun{Remote: far.AsSlice()}, Tunnel{Encapsulation: "ipip", Remotes: []netip.Addr{far}}},
		{&netlink.Iptun{LinkAttrs: netlink.LinkAttrs{Flags: net.FlagUp}}, Tunnel{Encapsulation: "ipip", External: true}},
		{&netlink.Sittun{Remote: far.AsSlice()}, Tunnel{Encapsulation: "sit", Remotes: []netip.Addr{far}}},
		{&netlink.Ip6tnl{}, Tunnel{Encapsulation: "ip6tnl"}},
		{&netlink.Vti{Local: us4.Addr().AsSlice()}, Tunnel{Encapsulation: "vti"}},
		{&netlink.Wireguard{}, Tunnel{Encapsulation: "wireguard"}},
		{&netlink.Xfrmi{}, Tunnel{Encapsulation: "xfrm"}},
	} {
		if diff := cmp.Diff(&c.want, tunnelOf(c.link, nil), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%T (-want +got):\n%s", c.link, diff)
		}
	}
}

func TestSurveyShapers(t *testing.T) {
	b := newBench(t)
	const args = "qdisc add dev us root tbf rate 1gbit burst 64kb latency 50ms"
	if out, err := exec.Command("tc", strings.Fields(args)...).CombinedOutput(); err != nil {
		t.Fatalf("tc %s: %v: %s", args, err, out)
	}
	s := b.survey()
	b.devices(s)
	got, err := s.Shapers()
	b.must(err)
	if diff := cmp.Diff([]Shaper{{"tbf", 125e6}}, got["us"]); diff != "" {
		t.Errorf("at us (-want +got):\n%s", diff)
	}
	limits := policers([]netlink.Filter{
		&netlink.U32{Police: &netlink.PoliceAction{Rate: 1}}, &netlink.MatchAll{Actions: []netlink.Action{&netlink.GenericAction{}, &netlink.PoliceAction{Rate: 2}}}, &netlink.BpfFilter{},
	})
	if diff := cmp.Diff([]Shaper{{"police", 1}, {"police", 2}}, limits); diff != "" {
		t.Errorf("policers (-want +got):\n%s", diff)
	}
	if n, err := s.IPsec(); n != 0 || err != nil {
		t.Errorf("IPsec: %d, %v", n, err)
	}
}

func TestSurveyPath(t *testing.T) {
	b := newBench(t)
	s := b.survey()
	b.devices(s)
	far := netip.MustParseAddr("198.51.100.1")
	for _, c := range []struct {
		name          string
		remote, local netip.Addr
		ok, own       bool
		mtu           int
	}{
		{"neighbour", them4.Addr(), us4.Addr(), true, false, 1600},
		{"IPv6", them6.Addr(), us6.Addr(), true, false, 1600},
		{"itself", us4.Addr(), netip.Addr{}, true, true, 65536},
		{"no route", far, us4.Addr(), false, false, 0},
		{"a local address of another host", them4.Addr(), far, false, false, 0},
	} {
		paths, err := s.Paths(c.remote, c.local)
		p, ok := Path{}, len(paths) == 1
		if ok {
			p = paths[0]
		}
		if err != nil || ok != c.ok || p.Local != c.own || p.MTU != c.mtu {
			t.Errorf("%s: %+v, %t, %v, want %t, local %t, MTU %d", c.name, p, ok, err, c.ok, c.own, c.mtu)
		}
	}
	b.must(b.near.RouteAdd(&netlink.Route{Dst: ipnet(netip.PrefixFrom(far, 32)), Gw: them4.Addr().AsSlice(), MTU: 1400}))
	if p, err := s.Paths(far, us4.Addr()); err != nil || len(p) != 1 || p[0].Interface != "us" || p[0].MTU != 1400 {
		t.Errorf("a narrow route: %+v, %v", p, err)
	}
}
