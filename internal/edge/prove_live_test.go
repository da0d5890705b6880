package edge

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/prove"
	"github.com/selvage/selvage/internal/prove/proof"
)

// prove proves from edge a, and returns the only proof.
func (f *provingWorld) prove(what string) api.ProofInfo {
	f.t.Helper()
	info, err := f.edge("a").Prove(f.ctx, api.ProveQuery{What: what, Timeout: 500 * time.Millisecond})
	if err != nil {
		f.t.Fatal(err)
	}
	if len(info.Proofs) != 1 || len(info.Problems) > 0 {
		f.t.Fatalf("%s: %+v, want one proof", what, info)
	}
	f.t.Logf("%s: %d packets in %.2f s: %+v", what, info.Sent, info.Took, info.Proofs[0])
	return info.Proofs[0]
}

// want compares what matters of a proof.
func (f *provingWorld) want(p api.ProofInfo, state, size string, words ...string) {
	f.t.Helper()
	if p.State != state || p.SizeState != size {
		f.t.Errorf("%s is %s with size %s, want %s, %s (%s; %s)", p.Segment, p.State, p.SizeState, state, size, p.Cause, p.Fix)
	}
	for _, w := range words {
		if !strings.Contains(p.Cause+"; "+p.Fix, w) {
			f.t.Errorf("%s: no %q in %q; %q", p.Segment, w, p.Cause, p.Fix)
		}
	}
}

func TestLiveProve(t *testing.T) {
	f := newProvingWorld(t, 24, "192.0.2.1", "192.0.2.2")
	f.start("a", "b")
	f.run("guest-b", "ping", "-c1", "-W5", "10.0.0.1")
	answered := func(p api.ProofInfo, kind string) bool {
		i := slices.IndexFunc(p.Targets, func(t api.ProofTarget) bool { return t.Kind == kind })
		return i >= 0 && p.Targets[i].Answered > 0
	}

	f.mistakes()

	p := f.prove("blue")
	f.want(p, api.ProofProven, api.SizePasses)
	if !answered(p, proof.TargetHost) || !answered(p, proof.TargetEdge) || p.Paths[0].Answered != prove.Ways || p.RTTMin <= 0 || p.Size != 1450 {
		t.Errorf("proof %+v", p)
	}
	for _, idle := range []string{"empty", "nv"} {
		if p := f.prove(idle); p.State != api.ProofProven || p.SizeState != api.SizePasses || p.Cause != "" {
			t.Errorf("a segment without hosts: %+v", p)
		}
	}
	routed := f.prove("tenant-l3")
	f.want(routed, api.ProofPartial, api.SizePasses, "no way on: 10.71.0.1 (no route says 10.255.0.2)")
	if !answered(routed, proof.TargetAddress) || !answered(routed, proof.TargetRouter) || routed.Count != 4 {
		t.Errorf("proof %+v", routed)
	}
	f.want(f.prove("10.2.0.7"), api.ProofProven, api.SizePasses)
	f.want(f.prove("10.71.1.0/24"), api.ProofBroken, api.SizePasses, "no way on: 10.71.0.1 (no route says 10.255.0.2)")
	f.want(f.prove("10.0.0.2"), api.ProofProven, api.SizePasses)

	f.wantPackets("192.0.2.1", "192.0.2.2")

	end := f.plant("udp dport 4789")
	f.want(f.prove("blue"), api.ProofBroken, api.SizeNotTried, "answers a plain ping", "UDP port 4789", "in both directions")
	f.want(f.prove("empty"), api.ProofProven, api.SizePasses) // by another port
	f.want(f.prove("10.2.0.0/24"), api.ProofBroken, api.SizeNotTried, "plain ping")
	end()

	end = f.plant("udp dport 4789 meta length > 1414") // an Ethernet header more than the IP packet
	p = f.prove("blue")
	f.want(p, api.ProofPartial, api.SizeLost, "1450 bytes", "small packets pass")
	if p.Passed != 1350 {
		t.Errorf("passed %d, want 1350", p.Passed)
	}
	end()

	end = f.plant("udp dport 4789 @th,15,1 1") // odd source ports
	p = f.prove("blue")
	f.want(p, api.ProofPartial, api.SizePasses, fmt.Sprintf("%d of %d ways", prove.Ways/2, prove.Ways), "equal paths")
	end()

	end = f.plant("ip daddr 192.0.2.2")
	f.want(f.prove("blue"), api.ProofBroken, api.SizeNotTried, "neither tunnels nor plain pings")
	end()

	f.in("guest-b", func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		addrs, err := netlink.AddrList(link, netlink.FAMILY_ALL) // its link-local one may have been learned too
		for _, addr := range addrs {
			err = errors.Join(err, netlink.AddrDel(link, &addr))
		}
		return err
	})
	f.want(f.prove("blue"), api.ProofPartial, api.SizePasses, "no host behind it: 10.0.0.2")
}

// The same over IPv6, of hosts with IPv6 addresses; and probes look like the data path's own
// packets.
func TestLiveProveIPv6(t *testing.T) {
	f := newProvingWorld(t, 64, "2001:db8::1", "2001:db8::2")
	f.start("a", "b")
	f.run("guest-b", "ip", "address", "add", "fd00::2/64", "dev", "eth0", "nodad")
	f.run("guest-a", "ip", "address", "add", "fd00::1/64", "dev", "eth0", "nodad")
	f.run("guest-b", "ping", "-c1", "-W5", "fd00::1")
	p := f.prove("fd00::2")
	f.want(p, api.ProofProven, api.SizePasses)
	if p.Targets[0].Kind != proof.TargetHost || p.Targets[0].Answered == 0 {
		t.Errorf("proof %+v", p)
	}
	f.want(f.prove("2001:db8:2::7"), api.ProofProven, api.SizePasses)
	f.want(f.prove("nv"), api.ProofProven, api.SizePasses)
	end := f.plant("ip6 nexthdr 47")
	f.want(f.prove("nv"), api.ProofBroken, api.SizeNotTried, "GRE (IP protocol 47)", "plain ping")
	end()
	f.wantPackets("2001:db8::1", "2001:db8::2")
}

// wantPackets compares probes with what the data path makes of the same frame.
func (f *provingWorld) wantPackets(local, remote string) {
	f.t.Helper()
	for _, tt := range []struct {
		vlan   uint16
		tunnel prove.Tunnel
		length int // of the headers behind IP
	}{
		{0, prove.Tunnel{VNI: 100, Header: overlay.Tunnel{Encapsulation: overlay.VXLAN, UDPPort: 4789, DF: overlay.DFSet}}, 16},
		{10, prove.Tunnel{VNI: 101, Header: overlay.Tunnel{
			Encapsulation: overlay.Geneve, UDPPort: 6081, DF: overlay.DFSet, DSCP: 46, TTL: 7, Options: []byte{1, 4, 0x81, 1, 0xde, 0xad, 0xbe, 0xef},
		}}, 24},
		{20, prove.Tunnel{VNI: 5001, Header: overlay.Tunnel{Encapsulation: overlay.NVGRE, DF: overlay.DFSet}}, 8},
	} {
		info, err := f.edge("a").Trace(f.ctx, api.TraceQuery{
			Port: "p0", VLAN: tt.vlan, Packet: "icmp 10.0.0.1 > 10.0.0.99", SrcMAC: overlay.MAC{2, 9}, DstMAC: overlay.MAC{2, 0, 0, 0, 0, 0x99}, Size: 500,
		})
		must(f.t, err)
		want, err := hex.DecodeString(info.Out)
		must(f.t, err)
		path := prove.Path{Pair: overlay.Pair{Local: netip.MustParseAddr(local), Remote: netip.MustParseAddr(remote)}}
		outer := 34
		if path.Remote.Is6() {
			outer = 54
		}
		if len(want) < outer+tt.length {
			f.t.Fatalf("segment of VLAN %d: %+v", tt.vlan, info)
		}
		copy(path.NextMAC[:], want)
		copy(path.SrcMAC[:], want[6:])
		way := binary.BigEndian.Uint16(want[outer:])
		if tt.tunnel.Header.Encapsulation == overlay.NVGRE {
			way = uint16(want[outer+7])
			if path.Remote.Is6() { // the flow label has all of it
				way = binary.BigEndian.Uint16(want[16:])
			}
		}
		if got := tt.tunnel.Packet(path, way, want[outer+tt.length:]); !bytes.Equal(got, want) {
			f.t.Errorf("%s:\n%x, the data path makes\n%x", tt.tunnel.Header.Encapsulation, got, want)
		}
	}
}

// A remote that is the kernel's: its hosts are proof, and of routers a loopback and what is said
// of used-up hops.
func TestLiveProveKernel(t *testing.T) {
	f := newProvingWorld(t, 24, "192.0.2.1", "192.0.2.2")
	for vni, bridge := range map[string]string{"100": "blue", "5000": "l3"} {
		f.run("b", "ip", "link", "add", bridge, "type", "bridge")
		f.run("b", "ip", "link", "add", "vx"+vni, "type", "vxlan", "id", vni, "local", "192.0.2.2", "remote", "192.0.2.1", "dstport", "4789", "nolearning")
		f.run("b", "ip", "link", "set", "vx"+vni, "master", bridge, "mtu", "1450", "up")
		f.run("b", "ip", "link", "set", bridge, "up")
	}
	f.in("b", func() error { return enslave("port0", "blue") })
	f.run("b", "ip", "link", "set", "l3", "address", "02:00:00:00:01:02")
	f.run("b", "sysctl", "-qw", "net.ipv4.ip_forward=1")
	f.run("b", "ip", "link", "set", "lo", "up")
	f.run("b", "ip", "address", "add", "10.255.0.2/32", "dev", "lo")
	f.run("b", "ip", "route", "add", "10.255.0.1", "via", "10.255.0.1", "dev", "l3", "onlink", "src", "10.255.0.2")
	f.run("b", "ip", "neigh", "add", "10.255.0.1", "lladdr", "02:00:00:00:01:01", "dev", "l3", "nud", "permanent")
	f.run("b", "ip", "route", "add", "blackhole", "10.2.0.0/24")
	f.run("b", "ip", "route", "add", "10.71.0.0/16", "dev", "blue")
	f.run("guest-b", "ip", "link", "set", "eth0", "mtu", "1450")
	f.start("a")
	f.run("guest-b", "ping", "-c1", "-W5", "10.0.0.1")

	p := f.prove("blue")
	f.want(p, api.ProofProven, api.SizePasses)
	if p.Paths[0].Answered != prove.Ways || p.Targets[0].Kind != proof.TargetHost {
		t.Errorf("proof %+v", p)
	}
	f.want(f.prove("10.255.0.2"), api.ProofProven, api.SizePasses)
	f.want(f.prove("10.71.0.9"), api.ProofProven, api.SizePasses)
	f.want(f.prove("10.2.0.9"), api.ProofBroken, api.SizePasses, "the tunnel works, but the router of 192.0.2.2 does not answer for 10.2.0.1")
	f.want(f.prove("idle"), api.ProofUnprovable, api.SizeNotTried, "no host is known")
	f.want(f.prove("empty"), api.ProofBroken, api.SizeNotTried, "port unreachable", "UDP port 6081")

	end := f.plant("udp dport 4789 @th,15,1 1") // odd source ports
	f.want(f.prove("blue"), api.ProofPartial, api.SizePasses, fmt.Sprintf("%d of %d ways", prove.Ways/2, prove.Ways))
	end()
	end = f.plant("udp dport 4789")
	f.want(f.prove("blue"), api.ProofBroken, api.SizeNotTried, "answers a plain ping", "is gone")
	end()
	f.run("b", "ip", "link", "del", "vx100")
	f.run("b", "ip", "link", "del", "vx5000")
	f.want(f.prove("blue"), api.ProofBroken, api.SizeNotTried, "192.0.2.2 says: port unreachable", "takes UDP port 4789")
}

const twoPaths = `apiVersion: selvage.dev/v1alpha2
kind: Edge
metadata: {name: %[1]s}
spec:
  underlay:
    teps: [{name: first, address: "%[4]s", interface: under}, {name: second, address: 198.51.100.%[2]d, interface: under2}]
  fdb: {size: 256}
  remotes: [{name: other, addresses: ["%[5]s", 198.51.100.%[3]d]}]
  segments:
  - {name: both, vni: 100, remotes: [other]}
  - {name: pinned, vni: 101, remotes: [other], teps: [second]}
`

// Of several paths each is tried by itself, and a segment's own alone.
func TestLiveProvePaths(t *testing.T) {
	f := newProvingWorld(t, 24, "192.0.2.1", "192.0.2.2")
	f.config = twoPaths
	f.in("mid", func() error { return add(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br1"}}) })
	for i, name := range []string{"a", "b"} {
		f.pair("mid", "to-"+name+"2", name, "under2")
		f.in("mid", func() error { return enslave("to-"+name+"2", "br1") })
		f.in(name, func() error { return address("under2", fmt.Sprintf("198.51.100.%d/24", i+1)) })
	}
	f.start("a", "b")
	paths := func(what string) (answered map[string]int, p api.ProofInfo) {
		p, answered = f.prove(what), make(map[string]int)
		for _, path := range p.Paths {
			answered[path.Local.String()+" to "+path.Remote.String()] = path.Answered
		}
		return answered, p
	}
	f.await("both paths are resolved", func() bool {
		answered, _ := paths("both")
		return len(answered) == 2
	})
	answered, p := paths("both")
	f.want(p, api.ProofProven, api.SizePasses)
	if want := map[string]int{"192.0.2.1 to 192.0.2.2": prove.Ways, "198.51.100.1 to 198.51.100.2": prove.Ways}; !maps.Equal(answered, want) || p.Name != "other" {
		t.Errorf("answered %v, want %v", answered, want)
	}
	end := f.plant("ip daddr 192.0.2.2 udp dport 4789")
	defer end()
	answered, p = paths("both")
	f.want(p, api.ProofPartial, api.SizePasses, "the path 192.0.2.1 to 192.0.2.2 is dead, others work")
	if answered["192.0.2.1 to 192.0.2.2"] != 0 || answered["198.51.100.1 to 198.51.100.2"] != prove.Ways {
		t.Errorf("answered %v", answered)
	}
	answered, p = paths("pinned")
	f.want(p, api.ProofProven, api.SizePasses)
	if len(answered) != 1 {
		t.Errorf("answered %v, want the second path alone", answered)
	}
}

// mistakes ask for nothing that there is, and get errors that say what there is.
func (f *provingWorld) mistakes() {
	f.t.Helper()
	for _, tt := range []struct {
		what string
		want string
	}{
		{"red", `"red" is not a segment, prefix or address; segments: blue`},
		{"203.0.113.0/24", "no tunnel leads to 203.0.113.0/24"},
	} {
		_, err := f.edge("a").Prove(f.ctx, api.ProveQuery{What: tt.what})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			f.t.Errorf("%s: error %v, want %s", tt.what, err, tt.want)
		}
	}
	_, err := f.edge("a").Prove(f.ctx, api.ProveQuery{Timeout: time.Hour})
	if err == nil || !strings.Contains(err.Error(), "not a duration from 10ms to 5s") {
		f.t.Errorf("error %v", err)
	}
}
