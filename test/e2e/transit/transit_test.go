package transit

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

const passagePicture = `
  client ---- edge1 ====== underlay ====== edge2 ---- server
  eth0    up0       u0                 u0        up0  eth0
  10.5.0.1                                        10.6.0.1
  fd00:5::1   routers with an uplink each, joined  fd00:6::1
              by tunnels: nothing is for a port`

// passage is two edges, each with a router between an uplink and the tunnels, and
// a host of the Linux kernel at each uplink.
type passage struct {
	*harness.Hub
	client, server harness.Guest
	o              passageOptions
}

// passageOptions: what is zero has the value in brackets.
type passageOptions struct {
	family           int    // of the underlay [4]
	underlay, uplink int    // MTUs [1600, 1500]
	mode             string // of transit [native]
	tunnel           string // fields of the segment between the routers [encapsulation: vxlan]
	finished         bool   // hosts compute checksums themselves [left to the device]
	routes           string // more of them, one a line
}

func (o passageOptions) filled() passageOptions {
	o.family = max(o.family, 4)
	if o.underlay == 0 {
		o.underlay = 1600
	}
	if o.uplink == 0 {
		o.uplink = 1500
	}
	if o.mode == "" {
		o.mode = "native"
	}
	if o.tunnel == "" {
		o.tunnel = "encapsulation: vxlan"
	}
	return o
}

const passageSpec = `
  transit: {mode: MODE}
  routers:
  - name: tenant
    l3: {vni: 5000, TUNNEL, mac: "02:00:00:00:04:0MINE", remotes: REMOTES}
    uplinks:
    - {name: wan, interface: up0, mac: "GATEWAY", addresses: [10.MINE.0.254/24, "fd00:MINE::fe/64"]}
    routes:
    - {prefix: 10.THEIRS.0.0/24, via: [{remote: "PEER", mac: "02:00:00:00:04:0THEIRS"}]}
    - {prefix: "fd00:THEIRS::/64", via: [{remote: "PEER", mac: "02:00:00:00:04:0THEIRS"}]}
`

// newPassage is the hosts and links; no edge runs yet.
func newPassage(t *testing.T, o passageOptions) *passage {
	t.Helper()
	n := &passage{Hub: &harness.Hub{Network: harness.NewNetwork(t, passagePicture), Family: max(o.family, 4)}, o: o.filled()}
	for i := 1; i <= 2; i++ {
		n.Hosts, n.Teps = append(n.Hosts, n.Host(fmt.Sprintf("edge%d", i))), append(n.Teps, n.Tep(i))
	}
	wire(n.Hub, n.o.underlay)
	n.client = n.Guest("client", 5, 1, n.Hosts[0], "up0", n.o.uplink)
	n.server = n.Guest("server", 6, 1, n.Hosts[1], "up0", n.o.uplink)
	receives(n.Hub, n.client, n.server)
	if n.o.finished {
		finish(n.Hub, n.client, n.server)
	}
	return n
}

// wire is an underlay of two edges and nothing between them. Its ends have GRO, so
// that they take what XDP programs redirect to them.
func wire(n *harness.Hub, mtu int) {
	n.T.Helper()
	end := func(number int) topo.LinkEnd {
		return topo.LinkEnd{
			Host: n.Hosts[number-1], Name: topo.UnderlayName, MAC: harness.UnderlayMAC(number),
			Addrs: []netip.Prefix{netip.PrefixFrom(n.Tep(number), map[int]int{4: 24, 6: 64}[n.Family])},
		}
	}
	n.Must(n.Topo.Link(n.Ctx, end(1), end(2), mtu))
	for _, h := range n.Hosts[:2] {
		n.Gro(h, topo.UnderlayName, "on")
	}
}

// receives turns GRO on at guests: a veth takes redirected packets only then.
func receives(n *harness.Hub, guests ...harness.Guest) {
	n.T.Helper()
	for _, g := range guests {
		_, err := g.SetFeatures(topo.EndName, map[string]bool{"rx-gro": true})
		n.Must(err)
	}
}

// finish has guests compute checksums themselves, as those behind a wire have done.
func finish(n *harness.Hub, guests ...harness.Guest) {
	n.T.Helper()
	for _, g := range guests {
		_, err := g.SetFeatures(topo.EndName, map[string]bool{"tx-checksum-ip-generic": false})
		n.Must(err)
	}
}

// spec is the configuration of an edge of that number, 1 or 2, without its header.
func (n *passage) spec(number int) string {
	other := 3 - number
	return strings.NewReplacer(
		"MODE", n.o.mode, "TUNNEL", n.o.tunnel, "GATEWAY", harness.GatewayMAC, "PEER", n.Teps[other-1].String(),
		"MINE", fmt.Sprint(number+4), "THEIRS", fmt.Sprint(other+4),
	).Replace(passageSpec) + n.o.routes
}

// up starts both edges and waits until every way is resolved.
func (n *passage) up() {
	n.T.Helper()
	n.EdgesUp(n.spec(1), n.spec(2))
	n.Pings(harness.Ways(n.client, n.server)...)
}

// turn has both edges take what passes in another mode.
func (n *passage) turn(mode string) {
	n.T.Helper()
	n.o.mode = mode
	n.reload()
	hooks(n.Hub, hookOf[mode])
}

// through has both routers use another tunnel.
func (n *passage) through(tunnel string) {
	n.T.Helper()
	n.o.tunnel = tunnel
	n.reload()
	n.Pings(harness.Ways(n.client, n.server)...)
}

func (n *passage) reload() {
	n.T.Helper()
	for i, h := range n.Hosts {
		n.Must(n.Reload(h.Name, n.Yaml(i+1, n.spec(i+1))))
	}
}

// hookOf is how an edge calls what a mode attaches.
var hookOf = map[string]string{"native": "xdp", "generic": "xdpgeneric", "tc": "tcx"}

// sub is the passage in a subtest.
func (n *passage) sub(t *testing.T) *passage {
	sub := *n
	sub.Hub = n.Hub.Sub(t)
	return &sub
}

// carriers are the two edges of a passage.
func carriers(n *harness.Hub) (names []string) {
	for _, h := range n.Hosts[:2] {
		names = append(names, h.Name)
	}
	return names
}

// transits counts the packets that the transit programs of an edge forwarded.
func transits(n *harness.Network, host string) (uint64, error) {
	f, err := n.Ask(host).FlowCache(n.Ctx)
	for _, e := range f.Events {
		if e.Name == "transit" {
			return e.Count, err
		}
	}
	return 0, errors.Join(fmt.Errorf("no count of transit among %+v", f.Events), err)
}

// byXDP is a fact: while do ran, the transit programs of both edges forwarded so
// many packets at least.
func byXDP(n *harness.Hub, what string, least uint64, do func()) {
	n.T.Helper()
	counted(n, what, do, func(host string, grown uint64) error {
		if grown < least {
			return fmt.Errorf("the transit programs of %s forwarded %d packets, want %d at least", host, grown, least)
		}
		return nil
	})
}

// counted has ok judge how much an edge's count of transit grew during do.
func counted(n *harness.Hub, what string, do func(), ok func(host string, grown uint64) error) {
	n.T.Helper()
	before := map[string]uint64{}
	for _, host := range carriers(n) {
		count, err := transits(n.Network, host)
		n.Must(err)
		before[host] = count
	}
	do()
	n.Once(what, func() error {
		var errs []error
		for _, host := range carriers(n) {
			count, err := transits(n.Network, host)
			errs = append(errs, err, ok(host, count-before[host]))
		}
		return errors.Join(errs...)
	})
}

// hooks is a fact: each edge says of u0 and up0 that their packets are taken so, the
// kernel agrees, and so do the programs that are there.
func hooks(n *harness.Hub, want string) {
	n.T.Helper()
	for i, host := range n.Hosts {
		n.Fact(fmt.Sprintf("%s takes what passes by %s", host.Name, want), func() error {
			interfaces, err := n.Ask(host.Name).Interfaces(n.Ctx)
			if err != nil || len(interfaces) != 2 {
				return errors.Join(fmt.Errorf("interfaces %+v, want u0 and up0", interfaces), err)
			}
			for _, got := range interfaces {
				mode, err := xdpMode(n.Network, n.Hosts[i], got.Name)
				if err != nil || got.Hook != want || mode != strings.TrimPrefix(want, "tcx") {
					return errors.Join(fmt.Errorf("%+v, and the kernel says %q", got, mode), err)
				}
			}
			return nil
		})
	}
}

// xdpMode is how iproute2 calls the XDP program of an interface, "" without one.
func xdpMode(n *harness.Network, h *topo.Host, name string) (string, error) {
	text, err := h.Output(n.Ctx, "ip", "-d", "link", "show", "dev", name)
	return regexp.MustCompile(`\bxdp(generic|offload)?\b`).FindString(string(text)), err
}

// Fields of the segment between routers.
const (
	vxlan         = "encapsulation: vxlan"
	nvgre         = "encapsulation: nvgre"
	geneveOptions = `encapsulation: geneve, options: "` + harness.GeneveOptions + `"`
)

// What TCP, UDP and ICMP of real hosts make of the way through XDP, in every tunnel. At first the hosts compute
// checksums themselves, as what comes from a wire has them.
func TestTransit(t *testing.T) {
	for family, tunnels := range map[int][]string{4: {nvgre, vxlan}, 6: {vxlan, geneveOptions}} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			t.Parallel()
			n := newPassage(t, passageOptions{family: family, tunnel: tunnels[0], finished: true})
			n.up()
			hooks(n.Hub, "xdp")
			n.passes()
			n.unfinished(n.carriesUnfinished)
			n.through(tunnels[1])
			n.passes()
			n.unfinished(n.carriesUnfinished)
			if family == 4 {
				n.inModes()
			}
		})
	}
}

// passes: everything crosses both edges by XDP, and intact, fragments too, of which most have no ports.
func (n *passage) passes() {
	n.T.Helper()
	both := harness.Ways(n.client, n.server)
	noErrors, noDrops := n.WatchErrors(n.client.Host, n.server.Host, n.Hosts[0], n.Hosts[1]), n.WatchDrops("no-neighbour", "devmap-drop")
	byXDP(n.Hub, "pings pass by XDP", 30, func() { n.Pings(both...) })
	for _, d := range both {
		byXDP(n.Hub, "datagrams pass by XDP", 40, func() {
			n.Once("datagrams from "+d.Name, func() error { return harness.Echo(d, 1, 18, 100, 1000, n.o.uplink-48, 5000, 50000) })
		})
		byXDP(n.Hub, "TCP passes by XDP from "+d.Name, 2_000, func() { n.Transfers(len(harness.Content)/4, d) })
	}
	noErrors()
	noDrops()
}
