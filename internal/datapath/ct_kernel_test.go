package datapath

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/test/pkttest"
)

// kernelTracker is the kernel's own connection tracking, code that we did not write: a
// namespace that forwards between two veths and drops what it calls invalid.
type kernelTracker struct {
	t   *testing.T
	ns  netns.NsHandle
	fds [2]int // of the far ends
}

// The kernel's ordinary answers would be to the packets' ends: there are none here.
const trackerRules = `table inet tracker {
	chain forward {
		type filter hook forward priority 0; policy accept;
		ct state invalid drop
	}
}`

func newKernelTracker(t *testing.T, v6 bool) *kernelTracker {
	t.Helper()
	nft, err := exec.LookPath("nft")
	if err != nil {
		t.Skipf("%v: install nftables", err)
	}
	k := &kernelTracker{t: t, ns: newNamespace(t)}
	far := newNamespace(t)
	inNamespace(t, k.ns, func() {
		writeSysctl(t, "net/ipv4/ip_forward", "1")
		writeSysctl(t, "net/ipv6/conf/all/forwarding", "1")
		writeSysctl(t, "net/ipv4/conf/all/rp_filter", "0")
		cmd := exec.Command(nft, "-f", "-")
		cmd.Stdin = strings.NewReader(trackerRules)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("nft: %v: %s", err, out)
		}
		for side, name := range []string{"ta", "tb"} {
			// A frame for the other end has the MAC of the device by which it comes.
			k.cable(name, far, stageAddrs[v6][side], []string{bob, alice}[side], []string{alice, bob}[side])
		}
	})
	for side, name := range []string{"ta", "tb"} {
		inNamespace(t, far, func() {
			l, err := netlink.LinkByName(name)
			must(t, err)
			must(t, netlink.LinkSetUp(l))
			k.fds[side] = packetSocket(t, l.Attrs().Index)
		})
	}
	k.warm(v6)
	return k
}

// warm waits until the devices carry packets.
func (k *kernelTracker) warm(v6 bool) {
	k.t.Helper()
	a, b := netip.MustParseAddr(stageAddrs[v6][sideA]), netip.MustParseAddr(stageAddrs[v6][sideB])
	probe := pkttest.Frame(alice, bob, fmt.Sprintf("udp %s > %s 8", netip.AddrPortFrom(a, 9), netip.AddrPortFrom(b, 9)))
	for range 50 {
		_, err := unix.Write(k.fds[sideA], probe)
		must(k.t, err)
		if k.arrives(sideB, pkttest.KindUDP) {
			return
		}
	}
	k.t.Fatal("the kernel forwards nothing")
}

// cable must be called in the namespace.
func (k *kernelTracker) cable(name string, far netns.NsHandle, host, mac, hostMAC string) {
	k.t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = name, hardware(mac)
	must(k.t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: name, PeerNamespace: netlink.NsFd(far)}))
	l, err := netlink.LinkByName(name)
	must(k.t, err)
	must(k.t, netlink.LinkSetUp(l))
	must(k.t, noOffloads(name))
	to := netip.MustParseAddr(host)
	must(k.t, netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Scope: netlink.SCOPE_LINK, Dst: hostNet(to)}))
	must(k.t, netlink.NeighSet(&netlink.Neigh{
		LinkIndex: l.Attrs().Index, State: netlink.NUD_PERMANENT, IP: to.AsSlice(), HardwareAddr: hardware(hostMAC),
	}))
}

// offer gives it a packet of a side and returns the state that it has the connection in
// afterwards, with "invalid" when it did not let the packet pass.
func (k *kernelTracker) offer(side int, frame []byte) string {
	k.t.Helper()
	k.drain()
	_, err := unix.Write(k.fds[side], frame)
	must(k.t, err)
	passed := k.arrives(1-side, pkttest.KindTCP)
	state := k.state()
	if !passed {
		state = strings.TrimSpace(state + " invalid")
	}
	return state
}

func (k *kernelTracker) drain() {
	buf := make([]byte, 1<<16)
	for _, fd := range k.fds {
		for {
			if _, _, err := unix.Recvfrom(fd, buf, 0); err != nil {
				break
			}
		}
	}
}

// arrives waits for a packet at a far end.
func (k *kernelTracker) arrives(side int, kind pkttest.Kind) bool {
	buf := make([]byte, 1<<16)
	for until := time.Now().Add(60 * time.Millisecond); ready(k.t, k.fds[side], time.Until(until)); {
		n, _, err := unix.Recvfrom(k.fds[side], buf, 0)
		if err != nil {
			continue
		}
		is := func(h pkttest.Header) bool { return h.Kind == kind }
		if slices.ContainsFunc(pkttest.DissectTunnels(buf[:n], 0).Headers, is) {
			return true
		}
	}
	return false
}

// state is the kernel's word for that of the one connection, "NONE" without one.
func (k *kernelTracker) state() string {
	k.t.Helper()
	var b []byte
	inNamespace(k.t, k.ns, func() {
		var err error
		b, err = os.ReadFile("/proc/thread-self/net/nf_conntrack")
		must(k.t, err)
	})
	words := strings.Fields(string(b))
	at := slices.Index(words, "tcp")
	if at < 0 || at+3 >= len(words) {
		return "NONE"
	}
	return words[at+3]
}

func hostNet(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}
