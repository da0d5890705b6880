package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
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
	*hub
	client, server guest
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
	n := &passage{hub: &hub{network: newNetwork(t, passagePicture), family: max(o.family, 4)}, o: o.filled()}
	for i := 1; i <= 2; i++ {
		n.hosts, n.teps = append(n.hosts, n.host(fmt.Sprintf("edge%d", i))), append(n.teps, n.tep(i))
	}
	n.wire(n.o.underlay)
	n.client = n.guest("client", 5, 1, n.hosts[0], "up0", n.o.uplink)
	n.server = n.guest("server", 6, 1, n.hosts[1], "up0", n.o.uplink)
	n.receives(n.client, n.server)
	if n.o.finished {
		n.finish(n.client, n.server)
	}
	return n
}

// wire is an underlay of two edges and nothing between them. Its ends have GRO, so
// that they take what XDP programs redirect to them.
func (n *hub) wire(mtu int) {
	n.t.Helper()
	end := func(number int) topo.LinkEnd {
		return topo.LinkEnd{
			Host: n.hosts[number-1], Name: topo.UnderlayName, MAC: underlayMAC(number),
			Addrs: []netip.Prefix{netip.PrefixFrom(n.tep(number), map[int]int{4: 24, 6: 64}[n.family])},
		}
	}
	n.must(n.lab.Link(n.ctx, end(1), end(2), mtu))
	for _, h := range n.hosts[:2] {
		n.gro(h, topo.UnderlayName, "on")
	}
}

// receives turns GRO on at guests: a veth takes redirected packets only then.
func (n *hub) receives(guests ...guest) {
	n.t.Helper()
	for _, g := range guests {
		_, err := g.SetFeatures(topo.EndName, map[string]bool{"rx-gro": true})
		n.must(err)
	}
}

// finish has guests compute checksums themselves, as those behind a wire have done.
func (n *hub) finish(guests ...guest) {
	n.t.Helper()
	for _, g := range guests {
		_, err := g.SetFeatures(topo.EndName, map[string]bool{"tx-checksum-ip-generic": false})
		n.must(err)
	}
}

// spec is the configuration of an edge of that number, 1 or 2, without its header.
func (n *passage) spec(number int) string {
	other := 3 - number
	return strings.NewReplacer(
		"MODE", n.o.mode, "TUNNEL", n.o.tunnel, "GATEWAY", gatewayMAC, "PEER", n.teps[other-1].String(),
		"MINE", fmt.Sprint(number+4), "THEIRS", fmt.Sprint(other+4),
	).Replace(passageSpec) + n.o.routes
}

// up starts both edges and waits until every way is resolved.
func (n *passage) up() {
	n.t.Helper()
	n.edgesUp(n.spec(1), n.spec(2))
	n.pings(ways(n.client, n.server)...)
}

// carriers are the two edges of a passage.
func (n *hub) carriers() (names []string) {
	for _, h := range n.hosts[:2] {
		names = append(names, h.Name)
	}
	return names
}

// transits counts the packets that the transit programs of an edge forwarded.
func (n *network) transits(host string) (uint64, error) {
	f, err := n.ask(host).FlowCache(n.ctx)
	for _, e := range f.Events {
		if e.Name == "transit" {
			return e.Count, err
		}
	}
	return 0, errors.Join(fmt.Errorf("no count of transit among %+v", f.Events), err)
}

// byXDP is a fact: while do ran, the transit programs of both edges forwarded so
// many packets at least.
func (n *hub) byXDP(what string, least uint64, do func()) {
	n.t.Helper()
	n.counted(what, do, func(host string, grown uint64) error {
		if grown < least {
			return fmt.Errorf("the transit programs of %s forwarded %d packets, want %d at least", host, grown, least)
		}
		return nil
	})
}

// counted has ok judge how much an edge's count of transit grew during do.
func (n *hub) counted(what string, do func(), ok func(host string, grown uint64) error) {
	n.t.Helper()
	before := map[string]uint64{}
	for _, host := range n.carriers() {
		count, err := n.transits(host)
		n.must(err)
		before[host] = count
	}
	do()
	n.once(what, func() error {
		var errs []error
		for _, host := range n.carriers() {
			count, err := n.transits(host)
			errs = append(errs, err, ok(host, count-before[host]))
		}
		return errors.Join(errs...)
	})
}

// hooks is a fact: each edge says of u0 and up0 that their packets are taken so, the
// kernel agrees, and so do the programs that are there.
func (n *hub) hooks(want string) {
	n.t.Helper()
	for i, host := range n.hosts {
		n.fact(fmt.Sprintf("%s takes what passes by %s", host.Name, want), func() error {
			interfaces, err := n.ask(host.Name).Interfaces(n.ctx)
			if err != nil || len(interfaces) != 2 {
				return errors.Join(fmt.Errorf("interfaces %+v, want u0 and up0", interfaces), err)
			}
			for _, got := range interfaces {
				mode, err := xdpMode(n.network, n.hosts[i], got.Name)
				if err != nil || got.Hook != want || mode != strings.TrimPrefix(want, "tcx") {
					return errors.Join(fmt.Errorf("%+v, and the kernel says %q", got, mode), err)
				}
			}
			return nil
		})
	}
}

// xdpMode is how iproute2 calls the XDP program of an interface, "" without one.
func xdpMode(n *network, h *topo.Host, name string) (string, error) {
	text, err := h.Output(n.ctx, "ip", "-d", "link", "show", "dev", name)
	return regexp.MustCompile(`\bxdp(generic|offload)?\b`).FindString(string(text)), err
}

var tunnelsOf = []struct {
	name, fields string
	families     []int // of the underlay; both would say little more of Geneve
}{
	{"VXLAN", "encapsulation: vxlan", []int{4, 6}},
	{"Geneve", "encapsulation: geneve", []int{4}},
	{"GeneveOptions", `encapsulation: geneve, options: "` + geneveOptions + `"`, []int{6}},
	{"NVGRE", "encapsulation: nvgre", []int{4, 6}},
}

// What TCP, UDP and ICMP of real hosts make of the way through XDP, in every tunnel.
// The hosts compute checksums themselves, as what comes from a wire has them.
func TestTransit(t *testing.T) {
	for _, tunnel := range tunnelsOf {
		for _, family := range tunnel.families {
			t.Run(fmt.Sprintf("%s/IPv%d", tunnel.name, family), func(t *testing.T) {
				n := newPassage(t, passageOptions{family: family, tunnel: tunnel.fields, finished: true})
				n.up()
				n.hooks("xdp")
				n.passes()
			})
		}
	}
}

// passes: everything crosses both edges by XDP, and intact.
func (n *passage) passes() {
	n.t.Helper()
	both := ways(n.client, n.server)
	noErrors := n.watchErrors(n.client.Host, n.server.Host, n.hosts[0], n.hosts[1])
	n.byXDP("pings pass by XDP", 30, func() { n.pings(both...) })
	n.byXDP("datagrams pass by XDP", 30, func() {
		for _, d := range both {
			n.once("datagrams from "+d.name, func() error { return echo(d, 1, 18, 100, 1000, n.o.uplink-48, 5000) })
		}
	})
	for _, d := range both {
		n.byXDP("TCP passes by XDP from "+d.name, 10_000, func() { n.transfers(len(content), d) })
	}
	noErrors()
	n.noDrops("no-neighbour", "not-taken")
}
