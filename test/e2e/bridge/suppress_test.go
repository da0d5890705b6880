package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// asked counts packets on the underlay that ask for the MAC of an address.
type asked []*harness.Frames // of the switch, one an edge

func listenUnderlay(n *harness.Hub) (a asked) {
	n.T.Helper()
	for i := range n.Hosts {
		f, err := harness.OpenFrames(n.Sw, fmt.Sprintf("e%d", i+1), false)
		n.Must(err)
		n.T.Cleanup(f.Close)
		a = append(a, f)
	}
	return a
}

// count is how many requests for an address left edges until now, by the remote that they go to.
// What left before is there: a packet socket has it when the switch does.
func (a asked) count(target netip.Addr) map[netip.Addr]int {
	requests := map[netip.Addr]int{}
	for _, f := range a {
		for frame, err := f.Waiting(); err == nil; frame, err = f.Waiting() {
			if asksFor(frame, target) {
				requests[netip.AddrFrom4([4]byte(frame[30:34]))]++
			}
		}
	}
	return requests
}

// everywhere waits for questions to two remotes, equally often: the last may be on its way to the second one.
func (a asked) everywhere(ctx context.Context, target netip.Addr) error {
	total := map[netip.Addr]int{}
	return await.That(ctx, "questions to two remotes, the same number to each", func() error {
		for remote, n := range a.count(target) {
			total[remote] += n
		}
		if counts := slices.Collect(maps.Values(total)); len(counts) != 2 || counts[0] != counts[1] {
			return fmt.Errorf("there are %v", total)
		}
		return nil
	})
}

// asksFor finds an ARP request or neighbour solicitation in a VXLAN packet over IPv4.
func asksFor(frame []byte, target netip.Addr) bool {
	const inner = 14 + 20 + 8 + 8
	if len(frame) < inner+14+28 {
		return false
	}
	f, want := frame[inner:], target.AsSlice()
	switch {
	case bytes.Equal(f[12:14], []byte{0x08, 0x06}):
		return f[21] == 1 && bytes.Equal(f[38:42], want)
	case bytes.Equal(f[12:14], []byte{0x86, 0xdd}) && len(f) >= 14+40+24:
		return f[20] == 58 && f[54] == 135 && bytes.Equal(f[62:78], want)
	}
	return false
}

func TestSuppression(t *testing.T) {
	t.Parallel()
	n := harness.NewUnderlay(t, harness.SuppressPicture, 3, 4)
	red1 := n.Guest("red1", 0, 1, n.Hosts[0], "p0", 1450)
	red2 := n.Guest("red2", 0, 2, n.Hosts[1], "p0", 1450)
	red3 := n.Guest("red3", 0, 3, n.Hosts[2], "p0", 1450)
	n.Record()
	n.EdgesUp(harness.SuppressSpec, harness.SuppressSpec, harness.SuppressSpec)
	// red3 speaks first: so all edges know of red1 and red3.
	n.Pings(harness.Way(red3, red1, 4), harness.Way(red3, red1, 6))
	under := listenUnderlay(n)
	for _, family := range []int{4, 6} {
		for _, from := range []harness.Guest{red1, red2} {
			n.Once("a known host is found without a question on the underlay, "+harness.Way(from, red3, family).Name, func() error {
				if _, err := from.Output(n.Ctx, "ip", "neigh", "flush", "all"); err != nil {
					return err
				}
				under.count(red3.Addr(family))
				if err := harness.Ping(n.Ctx, from.Host, red3.Addr(family)); err != nil {
					return err
				}
				if asked := under.count(red3.Addr(family)); len(asked) > 0 {
					return fmt.Errorf("questions %v", asked)
				}
				return nil
			})
			n.LearnedMAC(from.Host, red3.Addr(family), red3.Ether().String())
		}
		unknown := harness.SubnetAddr(0, 0x63, family)
		n.Once("an unknown host is asked for everywhere, "+unknown.String(), func() error {
			under.count(unknown)
			_ = harness.Ping(n.Ctx, red1.Host, unknown) // it is not answered
			return under.everywhere(n.Ctx, unknown)
		})
	}
	n.Rewrite("edge1", "vni: 100", "vni: 100\n    suppress: false")
	n.Fact("without suppression a known host is asked for", func() error {
		if _, err := red1.Output(n.Ctx, "ip", "neigh", "flush", "all"); err != nil {
			return err
		}
		under.count(red3.Addr(4))
		if err := harness.Ping(n.Ctx, red1.Host, red3.Addr(4)); err != nil {
			return err
		}
		if asked := under.count(red3.Addr(4)); len(asked) == 0 {
			return errors.New("nobody asks")
		}
		return nil
	})
	n.NoDrops("no-neighbour")
}

// A host moves to another edge while its old port stays up, and says no more than
// it has to: it asks for its gateway, which the edge answers itself. The others
// must hear of it nevertheless.
func TestHostMovesSilently(t *testing.T) {
	t.Parallel()
	n := harness.NewUnderlay(t, harness.SuppressPicture, 3, 4)
	red2 := n.Guest("red2", 0, 2, n.Hosts[1], "p0", 1450)
	blue1 := n.Guest("blue1", 1, 1, n.Hosts[0], "b0", 1450)
	mobile := n.Guest("mobile", 0, 9, n.Hosts[1], "p1", 1450)
	n.Record()
	n.EdgesUp(harness.SuppressSpec, harness.SuppressSpec, harness.SuppressSpec)
	for _, from := range []harness.Guest{red2, blue1} {
		n.Pings(harness.Ways(from, mobile)...)
	}
	_, err := mobile.Output(n.Ctx, "ip", "addr", "flush", "dev", topo.EndName)
	n.Must(err)
	// The kernel behind the old port lives on and still speaks of IPv6 groups: as somebody else.
	_, err = mobile.Output(n.Ctx, "ip", "link", "set", "dev", topo.EndName, "address", "02:00:00:00:00:99")
	n.Must(err)
	moved := harness.Guest{Host: n.Host("moved"), Subnet: mobile.Subnet, Number: mobile.Number}
	quiet := moved.End(true) // without IPv6, which announces its groups
	quiet.Addrs, quiet.Gateways = quiet.Addrs[:1], quiet.Gateways[:1]
	n.Must(n.Topo.Link(n.Ctx, quiet, topo.LinkEnd{Host: n.Hosts[2], Name: "p1"}, 1450))
	n.Fact("port p1 of edge3 is up", func() error { return n.PortState("edge3", "p1", "up") })
	n.GatewayAnswers(moved, 4)
	n.IsAt(moved.Ether(), 3, "p1", 3)
	n.Pings(harness.Way(red2, moved, 4), harness.Way(blue1, moved, 4))
}
