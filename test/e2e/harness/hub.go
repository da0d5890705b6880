package harness

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
)

// Hub is several edges on one underlay network.
type Hub struct {
	*Network
	Family int
	Sw     *topo.Host
	Hosts  []*topo.Host // with edges
	Teps   []netip.Addr
}

// BridgeOnly has the switch look at Ethernet alone: where br_netfilter is there,
// it refuses and reassembles IP packets that the edges should see.
func (n *Hub) BridgeOnly() {
	n.T.Helper()
	for _, family := range []string{"ip", "ip6"} {
		if err := n.Sw.SysctlSet("net/bridge/bridge-nf-call-"+family+"tables", "0"); !errors.Is(err, fs.ErrNotExist) {
			n.Must(err)
		}
	}
}

// Host returns the host of that name, making it when there is none.
func (n *Hub) Host(name string) *topo.Host {
	n.T.Helper()
	h, err := n.Topo.Host(name)
	n.Must(err)
	return h
}

// Tep is the underlay address with that number.
func (n *Hub) Tep(number int) netip.Addr {
	if n.Family == 6 {
		return netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", number))
	}
	return netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", number))
}

// Join links a host to the switch.
func (n *Hub) Join(h *topo.Host, number int) {
	n.T.Helper()
	bits := 24
	if n.Family == 6 {
		bits = 64
	}
	n.Must(n.Topo.Link(n.Ctx,
		topo.LinkEnd{Host: h, Name: topo.UnderlayName, MAC: UnderlayMAC(number), Addrs: []netip.Prefix{netip.PrefixFrom(n.Tep(number), bits)}},
		topo.LinkEnd{Host: n.Sw, Name: fmt.Sprintf("e%d", number)}, 1500))
}

// UnderlayMAC is of the underlay interface with that number.
func UnderlayMAC(number int) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 2, byte(number)} }

// EndMAC is of the end system with that number.
func EndMAC(number int) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 0, byte(number)} }

// Entry is the FDB entry of an edge for a MAC address, nil when there is none.
func (n *Hub) Entry(host *topo.Host, mac net.HardwareAddr) (*api.FDBEntry, error) {
	fdb, err := n.Ask(host.Name).FDB(n.Ctx, api.EntryQuery{MAC: overlay.MAC(mac)})
	for i := range fdb.List {
		if bytes.Equal(fdb.List[i].MAC[:], mac) {
			return &fdb.List[i], err
		}
	}
	return nil, err
}

// IsAt is a fact: the first edges have the address at the one edge's port or at
// that edge's TEP.
func (n *Hub) IsAt(mac net.HardwareAddr, number int, port string, edges int) {
	n.T.Helper()
	for i, h := range n.Hosts[:edges] {
		n.Fact(fmt.Sprintf("%s has %s at edge%d", h.Name, mac, number), func() error {
			e, err := n.Entry(h, mac)
			if err != nil || e == nil {
				return errors.Join(errors.New("it has none"), err)
			}
			if i+1 == number && e.Port != port || i+1 != number && e.Remote != n.Tep(number) {
				return fmt.Errorf("it has %+v", *e)
			}
			return nil
		})
	}
}

// BroadcastMAC is everybody.
var BroadcastMAC = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
