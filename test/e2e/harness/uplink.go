package harness

import (
	"errors"
	"net/netip"

	"github.com/selvage/selvage/lab/topo"
)

// UplinkPicture is of an edge with an uplink to the network outside.
const UplinkPicture = `
              switch
          e1 /      \ e2
        edge1        edge2
      r0 |  | up0      | r0
       red1 |         red2 (its way out is edge1's: over the tunnel)
            | 198.51.100.2, 2001:db8:51::2
            | 198.51.100.1, 2001:db8:51::1
         outside ---- 203.0.113.1, 2001:db8:cafe::1 on lo`

// Addresses of the host outside.
var (
	Outside4 = netip.MustParseAddr("203.0.113.1")
	Outside6 = netip.MustParseAddr("2001:db8:cafe::1")
)

// OutsideAddr is the address of the host outside.
func OutsideAddr(family int) netip.Addr {
	if family == 4 {
		return Outside4
	}
	return Outside6
}

// UplinkSpec is a configuration with a gateway and an uplink.
const UplinkSpec = `
  segments:
  - name: red
    vni: 100
    remotes: REMOTES
    gateway: {router: tenant, addresses: [10.0.0.254/24, "fd00:0::fe/64"]}
  routers:
  - name: tenant
    routes:
    - {prefix: 0.0.0.0/0, via: [{address: 198.51.100.1}]}
    - {prefix: "::/0", via: [{address: "2001:db8:51::1"}]}
    - {prefix: 10.66.0.0/16, type: blackhole}
    - {prefix: 10.77.0.0/16, type: unreachable}
    - {prefix: 10.88.0.0/16, type: prohibit}
    - {prefix: "fd00:66::/64", type: blackhole}
    - {prefix: "fd00:77::/64", type: unreachable}
    - {prefix: "fd00:88::/64", type: prohibit}
    uplinks:
    - {name: wan, interface: up0, addresses: [198.51.100.2/24, "2001:db8:51::2/64"]}
  ports:
  - {name: r0, interface: r0, segment: red}
`

// Outside is a router of the Linux kernel at an uplink, with addresses behind it
// and a route back to the guests.
func (n *Hub) Outside(host *topo.Host, port string, more ...string) *topo.Host {
	n.T.Helper()
	h := n.Host("outside")
	addrs := []netip.Prefix{netip.MustParsePrefix("198.51.100.1/24"), netip.MustParsePrefix("2001:db8:51::1/64")}
	for _, a := range more {
		addrs = append(addrs, netip.MustParsePrefix(a))
	}
	n.Must(n.Topo.Link(n.Ctx, topo.LinkEnd{Host: h, Name: "lan0", Addrs: addrs}, topo.LinkEnd{Host: host, Name: port}, 1500))
	n.Must(errors.Join(
		h.AddAddr("lo", netip.PrefixFrom(Outside4, 32)), h.AddAddr("lo", netip.PrefixFrom(Outside6, 128)),
		h.AddRoute("lan0", netip.MustParsePrefix("10.0.0.0/8"), netip.MustParseAddr("198.51.100.2")),
		h.AddRoute("lan0", netip.MustParsePrefix("fd00::/16"), netip.MustParseAddr("2001:db8:51::2")),
	))
	return h
}

// TimeExceeded is what ping says when the hop limit ends, IPv4 or IPv6.
const TimeExceeded = "Time to live exceeded|Time exceeded: Hop limit"
