package transit

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/test/e2e/harness"
)

// transitModes are all ways to take what passes; tc's answers are the measure.
var transitModes = []string{"tc", "native", "generic"}

// What hosts are told about packets that cannot pass, by XDP and by tc: the same.
func TestTransitAnswers(t *testing.T) {
	const routes = `    - {prefix: 10.66.0.0/16, type: blackhole}
    - {prefix: 10.77.0.0/16, type: unreachable}
    - {prefix: 10.88.0.0/16, type: prohibit}
    - {prefix: "fd00:66::/64", type: blackhole}
    - {prefix: "fd00:77::/64", type: unreachable}
    - {prefix: "fd00:88::/64", type: prohibit}
`
	t.Parallel()
	said := map[string]map[string]string{}
	all := newPassage(t, passageOptions{mode: transitModes[0], underlay: 1500, routes: routes, finished: true})
	all.EdgesUp(all.spec(1), all.spec(2))
	for _, mode := range transitModes {
		t.Run(mode, func(t *testing.T) {
			n := all.sub(t)
			n.turn(mode)
			for _, inner := range []int{4, 6} {
				n.GatewayAnswers(n.client, inner)
				n.GatewayAnswers(n.server, inner)
				n.Routes(harness.Way(n.client, n.server, inner), 2, n.client)
				n.Routes(harness.Way(n.server, n.client, inner), 2, n.server)
			}
			n.refuses(n.client)
			n.tooBig(1450)
			said[mode] = n.answers()
			n.NoDrops("no-neighbour", "ttl-exceeded", "too-big", "blackhole", "unreachable", "prohibited", "no-route")
		})
	}
	for mode, answers := range said {
		if !reflect.DeepEqual(answers, said["tc"]) {
			t.Errorf("by %s hosts are told %q,\nby tc %q", mode, answers, said["tc"])
		}
	}
}

// refuses: routes that lead nowhere, as ping understands it.
func (n *passage) refuses(g harness.Guest) {
	n.T.Helper()
	for _, inner := range []int{4, 6} {
		for subnet, pattern := range map[int]string{
			0x77: "Destination Host Unreachable|Destination unreachable: Address unreachable",
			0x88: "Packet filtered|Destination unreachable: Administratively prohibited",
		} {
			to := refusedAddr(subnet, inner)
			n.Fact(fmt.Sprintf("%s is told %s of %s", g.Name, pattern, to), func() error {
				return harness.PingFails(n.Network, g.Host, to, harness.GatewayAddr(g.Subnet, inner), pattern)
			})
		}
	}
}

// refusedAddr is in the network of a route that leads nowhere: 10.77.0.1 or fd00:77::1.
func refusedAddr(subnet, family int) netip.Addr {
	if family == 4 {
		return netip.MustParseAddr(fmt.Sprintf("10.%x.0.1", subnet))
	}
	return netip.MustParseAddr(fmt.Sprintf("fd00:%x::1", subnet))
}

// tooBig: each host is told by its gateway what fits, and TCP is clamped to it.
func (n *passage) tooBig(fits int) {
	n.T.Helper()
	for _, inner := range []int{4, 6} {
		headers := map[int]int{4: 20 + 20 + 12, 6: 40 + 20 + 12}[inner] // with TCP timestamps
		for _, g := range []harness.Guest{n.client, n.server} {
			d := harness.Way(n.client, n.server, inner)
			if g.Host == n.server.Host {
				d = harness.Way(n.server, n.client, inner)
			}
			n.Once("TCP has an MSS that fits, "+d.Name, func() error { return harness.HasMSS(d, fits-headers) })
			by := harness.GatewayAddr(g.Subnet, inner)
			n.Fact("a ping that does not fit is refused, "+d.Name, func() error { return harness.TooBigPing(n.Network, d, fits+1, fits, by) })
			n.Fact("the sender has learned the path's MTU, "+d.Name, func() error { return harness.KnowsMTU(n.Network, d, fits) })
			n.Fact("a ping that fits is answered, "+d.Name, func() error { return harness.PingSize(n.Network, d, fits) })
		}
	}
}

// answers are what ping says to questions that have no answer, without times.
func (n *passage) answers() map[string]string {
	n.T.Helper()
	times := regexp.MustCompile(`(?m), time \d+ms|time=\S+ ms|^rtt .*$`)
	said := map[string]string{}
	for _, inner := range []int{4, 6} {
		far := n.server.Addr(inner)
		nobody := harness.SubnetAddr(n.server.Subnet, 99, inner)
		for _, question := range [][]string{
			{"-t", "1", far.String()}, {"-t", "2", far.String()}, {"-t", "3", far.String()},
			{"-t", "1", harness.GatewayAddr(n.client.Subnet, inner).String()},
			{harness.GatewayAddr(n.server.Subnet, inner).String()}, // the other edge's own address
			{map[int]string{4: "203.0.113.9", 6: "2001:db8:99::9"}[inner]},
			{nobody.String()},
			{refusedAddr(0x66, inner).String()}, {refusedAddr(0x77, inner).String()}, {refusedAddr(0x88, inner).String()},
		} {
			out, _ := n.client.Output(n.Ctx, append([]string{"ping", "-n", "-c1", "-W0.5"}, question...)...)
			said[strings.Join(question, " ")] = strings.TrimSpace(times.ReplaceAllString(string(out), ""))
		}
	}
	return said
}

const mixedPicture = `
  client ---- edge1 ====== underlay ====== edge2 ---- red2
  eth0    up0 | r0  u0                   u0      r0   eth0
             red1     edge1 has the gateway of red and the uplink, edge2 bridges`

// mixed is an edge with a port, an uplink and a tunnel, all at work.
type mixed struct {
	*harness.Hub
	client, red1, red2 harness.Guest
}

const mixedSpec = `
  segments:
  - name: red
    vni: 100
    clampMSS: true
    remotes: REMOTES
`

const mixedGateway = `
  transit: {mode: native}
  routers:
  - name: tenant
    uplinks:
    - {name: wan, interface: up0, mac: "GATEWAY", addresses: [10.5.0.254/24, "fd00:5::fe/64"]}
`

const redPort = `
  ports:
  - {name: r0, interface: r0, segment: red}
`

// newMixed is hosts, links and edges, which know each other.
func newMixed(t *testing.T) *mixed {
	t.Helper()
	n := &mixed{Hub: &harness.Hub{Network: harness.NewNetwork(t, mixedPicture), Family: 4}}
	for i := 1; i <= 2; i++ {
		n.Hosts, n.Teps = append(n.Hosts, n.Host(fmt.Sprintf("edge%d", i))), append(n.Teps, n.Tep(i))
	}
	wire(n.Hub, 1500)
	n.client = n.Guest("client", 5, 1, n.Hosts[0], "up0", 1500)
	n.red1 = n.Guest("red1", 0, 1, n.Hosts[0], "r0", 1500)
	n.red2 = n.Guest("red2", 0, 2, n.Hosts[1], "r0", 1500)
	receives(n.Hub, n.client, n.red1, n.red2)
	gateway := "    gateway: {router: tenant, addresses: [10.0.0.254/24, \"fd00:0::fe/64\"]}"
	port := strings.TrimPrefix(redPort, "\n")
	n.EdgesUp(mixedSpec+gateway+strings.ReplaceAll(mixedGateway, "GATEWAY", harness.GatewayMAC)+port, mixedSpec+port)
	n.Pings(slices.Concat(harness.Ways(n.red1, n.client), harness.Ways(n.red2, n.client), harness.Ways(n.red1, n.red2))...)
	return n
}

// Local, remote and uplink traffic in one edge at once; what is between the tunnel and the uplink alone goes by XDP,
// where hosts compute checksums themselves. Then its MSS is not clamped, so TCP needs the messages.
func TestTransitMixed(t *testing.T) {
	t.Parallel()
	n := newMixed(t)
	n.atOnce(0)
	n.tells()
	finish(n.Hub, n.client, n.red1, n.red2)
	n.atOnce(20_000)
	n.NoDrops("no-neighbour", "too-big", "no-member", "devmap-drop")
}

// tells: without a clamp in a segment that reaches beyond the edge with the uplink (asymmetric routing) senders are told
// what fits.
func (n *mixed) tells() {
	n.T.Helper()
	for _, host := range n.Hosts {
		n.Rewrite(host.Name, "clampMSS: true", "clampMSS: false")
	}
	for i, inner := range []int{4, 6} {
		there, back := harness.Way(n.client, n.red2, inner), harness.Way(n.red2, n.client, inner)
		if i == 0 { // TCP finds out by itself, or has been told
			n.Transfers(len(harness.Content)/10, there, back)
		}
		n.Fact("a ping that does not fit is refused, "+there.Name, func() error {
			return harness.TooBigPing(n.Network, there, 1500, 1450, harness.GatewayAddr(n.client.Subnet, inner))
		})
		n.Fact("the sender has learned the path's MTU, "+there.Name, func() error { return harness.KnowsMTU(n.Network, there, 1450) })
		n.Transfers(len(harness.Content)/10, there, back)
	}
}

// atOnce wants so many packets at least to go by XDP.
func (n *mixed) atOnce(byXDP uint64) {
	n.T.Helper()
	noErrors := n.WatchErrors(n.client.Host, n.red1.Host, n.red2.Host, n.Hosts[0], n.Hosts[1])
	before, err := transits(n.Hub.Network, "edge1")
	n.Must(err)
	for _, d := range slices.Concat(harness.Ways(n.red1, n.client), harness.Ways(n.red2, n.client), harness.Ways(n.red1, n.red2)) {
		n.Once("datagrams from "+d.Name, func() error { return harness.Echo(d, 1, 100, 1400) })
	}
	n.Once("20 MB cross each way at the same time, both families", func() error {
		return harness.TransferAll([][2]harness.Guest{{n.red1, n.red2}, {n.red1, n.client}, {n.red2, n.client}}, len(harness.Content))
	})
	n.Once("remote and uplink met in XDP", func() error {
		after, err := transits(n.Hub.Network, "edge1")
		if after-before < byXDP {
			err = errors.Join(err, fmt.Errorf("%d packets, want %d", after-before, byXDP))
		}
		return err
	})
	noErrors()
	n.Once("the port is tc's alone", func() error {
		mode, err := xdpMode(n.Network, n.Hosts[0], "r0")
		if mode != "" {
			err = errors.Join(err, errors.New("it has "+mode))
		}
		return err
	})
}
