package harness

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
)

// KernelRouter routes between what is behind p0 and the segment between routers.
func (n *Hub) KernelRouter(h *topo.Host) {
	n.T.Helper()
	n.Must(h.VXLAN(n.Ctx, "vxlan0", topo.VXLAN{VNI: 5000, Local: n.Teps[1], Remotes: n.Teps[:1], MTU: 1430, UDP6ZeroCsumRx: true}))
	n.Must(errors.Join(
		h.SysctlSet("net/ipv4/ip_forward", "1"), h.SysctlSet("net/ipv6/conf/all/forwarding", "1"),
		h.SysctlSet("net/ipv6/conf/vxlan0/disable_ipv6", "0"),
	))
	for _, command := range []string{
		"ip link set vxlan0 address 02:00:00:00:04:02",
		"ip addr add 169.254.0.2/30 dev vxlan0",
		"ip addr add fd99::2/64 dev vxlan0 nodad",
		"ip neigh replace 169.254.0.1 lladdr 02:00:00:00:04:01 dev vxlan0 nud permanent",
		"ip neigh replace fd99::1 lladdr 02:00:00:00:04:01 dev vxlan0 nud permanent",
		"ip route add 10.0.0.0/24 via 169.254.0.1 dev vxlan0",
		"ip route add fd00:0::/64 via fd99::1 dev vxlan0",
	} {
		_, err := h.Output(n.Ctx, strings.Fields(command)...)
		n.Must(err)
	}
}

// gatewayPicture is of RoutedHub.
const gatewayPicture = `
              switch
          e1 /      \ e2
        edge1        edge2        both have the gateways 10.0.0.254, fd00:0::fe
      r0 |  | b0   r0 |  | b0     and 10.1.0.254, fd00:1::fe
       red1 blue1   red2 blue2
   10.0.0.1 10.1.0.1  .0.2 .1.2`

// GatewaySpec has gateways of two segments on both edges: asymmetric integrated routing and
// bridging (RFC 9135 section 4).
const GatewaySpec = `
  segments:
  - name: red
    vni: 100
    remotes: REMOTES
    gateway: {router: tenant, addresses: [10.0.0.254/24, "fd00:0::fe/64"]}
  - name: blue
    vni: 200
    encapsulation: geneve
    remotes: REMOTES
    gateway: {router: tenant, addresses: [10.1.0.254/24, "fd00:1::fe/64"]}
  routers:
  - name: tenant
  ports:
  - {name: r0, interface: r0, segment: red}
  - {name: b0, interface: b0, segment: blue}
`

// RoutedHub is two edges with a guest in each of two subnets.
type RoutedHub struct {
	*Hub
	Red1, Red2, Blue1, Blue2 Guest
}

// NewRoutedHub builds it; no edge runs yet.
func NewRoutedHub(t *testing.T, family int) *RoutedHub {
	t.Helper()
	n := NewUnderlay(t, gatewayPicture, 2, family)
	r := &RoutedHub{Hub: n}
	r.Red1 = n.Guest("red1", 0, 1, n.Hosts[0], "r0", 1430)
	r.Blue1 = n.Guest("blue1", 1, 1, n.Hosts[0], "b0", 1430)
	r.Red2 = n.Guest("red2", 0, 2, n.Hosts[1], "r0", 1430)
	r.Blue2 = n.Guest("blue2", 1, 2, n.Hosts[1], "b0", 1430)
	n.Record()
	return r
}

// GatewayAnswers holds when a guest resolves its gateway and pings it.
func (n *Hub) GatewayAnswers(g Guest, family int) {
	n.T.Helper()
	gateway := GatewayAddr(g.Subnet, family)
	n.Fact(g.Name+" pings its gateway "+gateway.String(), func() error { return Ping(n.Ctx, g.Host, gateway) })
	n.LearnedMAC(g.Host, gateway, GatewayMAC)
}

// Routes holds when a way works and has so many routers; the first is the guest's gateway.
func (n *Hub) Routes(d Direction, routers int, from Guest) {
	n.T.Helper()
	n.Pings(d)
	n.Once(fmt.Sprintf("%d routers from %s", routers, d.Name), func() error {
		out, err := d.From.Output(n.Ctx, "ping", "-n", "-c1", "-W1", d.Addr.String())
		if err == nil && !strings.Contains(string(out), fmt.Sprintf("ttl=%d ", 64-routers)) {
			err = errors.New(string(out))
		}
		return err
	})
	if routers == 0 {
		return
	}
	gateway := GatewayAddr(from.Subnet, map[bool]int{true: 4, false: 6}[d.Addr.Is4()])
	n.Fact("time exceeded at the gateway from "+d.Name, func() error {
		return PingFails(n.Network, d.From, d.Addr, gateway, TimeExceeded, "-t", "1")
	})
}
