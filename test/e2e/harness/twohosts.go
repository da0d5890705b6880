package harness

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
)

// TwoHosts is the standard topology.
type TwoHosts struct {
	*Network
	*topo.TwoHosts
}

const twoHostsPicture = `
  client ---- hosta ====== underlay ====== hostb ---- server
  eth0      p0    u0                    u0    p0      eth0
  10.0.0.1  the halves: an edge, the kernel's  10.0.0.2
  fd00::1   vxlan device or Open vSwitch        fd00::2`

// NewTwoHosts builds the hosts; no half runs yet.
func NewTwoHosts(t *testing.T, o topo.TwoHostsOptions) *TwoHosts {
	t.Helper()
	n := NewNetwork(t, twoHostsPicture)
	two, err := topo.NewTwoHosts(n.Ctx, n.Topo, o)
	if err != nil {
		t.Fatal(err)
	}
	return &TwoHosts{n, two}
}

// Sub is the same hosts in a subtest.
func (n *TwoHosts) Sub(t *testing.T) *TwoHosts { return &TwoHosts{n.Network.In(t), n.TwoHosts} }

// SelvageHalf is our half of a topology.
func (n *TwoHosts) SelvageHalf() dut.SelvageHalf {
	return dut.SelvageHalf{Binary: Program, Started: n.Started}
}

// BuildRecorded starts both halves, with captures running.
func (n *TwoHosts) BuildRecorded(a, b topo.Half) *topo.Path {
	n.T.Helper()
	n.Record()
	path, err := n.Build(n.Ctx, a, b)
	if err != nil {
		n.Fail("server answers client", err)
	}
	return path
}

// Direction is a way from one host to an address of another.
type Direction struct {
	Name     string
	From, To *topo.Host
	Addr     netip.Addr // of To
}

// Directions are both ways between client and server on an address family.
func (n *TwoHosts) Directions(family int) []Direction {
	return []Direction{
		{fmt.Sprintf("client to server, IPv%d", family), n.Client, n.Server, n.ServerAddr(family)},
		{fmt.Sprintf("server to client, IPv%d", family), n.Server, n.Client, n.ClientAddr(family)},
	}
}

// Datagrams of every kind of size cross both ways, large ones in fragments.
func (n *TwoHosts) Datagrams() {
	n.T.Helper()
	mtu, err := n.Client.MTU(topo.EndName)
	n.Must(err)
	for family, headers := range map[int]int{4: 28, 6: 48} {
		for _, d := range n.Directions(family) {
			n.Fact("datagrams from "+d.Name, func() error {
				return Echo(d, 1, 18, 500, mtu-headers-1, mtu-headers, mtu-headers+1, 5000, 60000)
			})
		}
	}
}

// Streams sends Content both ways over both families.
func (n *TwoHosts) Streams() {
	n.T.Helper()
	for _, d := range append(n.Directions(4), n.Directions(6)...) {
		n.Once("20 MB from "+d.Name, func() error { return Transfer(d, len(Content)) })
	}
}

// SegmentsGoWhole holds when each edge's large segments cross the underlay uncut.
func (n *TwoHosts) SegmentsGoWhole() {
	n.T.Helper()
	for i, d := range n.Directions(4) {
		receiver := []*topo.Host{n.B, n.A}[i]
		n.Once("large segments cross the underlay whole from "+d.Name, func() error { return n.WholeAt(receiver, d) })
	}
}

// WholeAt is nil when a host receives segments of a transfer uncut. Frames wait in the socket
// until the transfer is over, most of it, so nothing depends on who gets to run meanwhile.
func (n *Network) WholeAt(receiver *topo.Host, d Direction) error {
	f, err := OpenFrames(receiver, topo.UnderlayName, false)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := Transfer(d, len(Content)); err != nil {
		return err
	}
	largest, err := f.largest()
	if err == nil && largest < 30_000 {
		err = fmt.Errorf("the largest packet has %d bytes", largest)
	}
	return err
}

// Edited is our half with another configuration.
type Edited struct {
	dut.SelvageHalf
	edit func(config string) string
}

// Up is part of topo.Half.
func (h Edited) Up(ctx context.Context, s topo.Site) (func(context.Context) error, error) {
	name := dut.EdgeName(s.Host)
	e, err := dut.StartEdge(ctx, s.Host, Program, name, h.edit(h.Config(name, s)))
	if err != nil {
		return nil, err
	}
	h.Started(s.Host, e)
	return e.Stop, nil
}

// GeneveOptions are two: class 0x0104 type 1 with four bytes, type 2 with none.
const GeneveOptions = "0104 0101 deadbeef 0104 0200"

// Ours is our half with an encapsulation; more are lines of its segment.
func (n *TwoHosts) Ours(e overlay.Encapsulation, more ...string) Edited {
	half := n.SelvageHalf()
	half.Encapsulation = e
	return Edited{half, func(config string) string {
		return strings.Replace(config, "      vni: 100\n", strings.Join(append([]string{"      vni: 100"}, more...), "\n      ")+"\n", 1)
	}}
}

// With transfers both ways while an offload of some interfaces is on or off.
func (n *TwoHosts) With(hosts []*topo.Host, name, offload string, on bool) {
	n.T.Helper()
	var restore []func() error
	for _, h := range hosts {
		undo, err := h.SetFeatures(name, map[string]bool{offload: on})
		n.Must(err)
		restore = append(restore, undo)
	}
	const size = 4_000_000
	ways := append(n.Directions(4), n.Directions(6)...)
	for _, d := range ways {
		n.Once(fmt.Sprintf("bytes intact with %s %t, %s", offload, on, d.Name), func() error { return Transfer(d, size) })
	}
	var errs []error
	for _, undo := range restore {
		errs = append(errs, undo())
	}
	n.Must(errors.Join(errs...))
}
