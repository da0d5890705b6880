package evpn

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/dut/evpn"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

const crowdPicture = `
      rr1 (FRR)        crowd: a BGP neighbour of edge1 that tells of many edges,
        |             /       whose addresses it has and behind which nothing is
      switch --------+
      /    \
  edge1     edge2
  red1      red2      VNI 100
  lonely              VNI 101, where the crowd's hosts are`

// newCrowded is the fabric of the picture; edge1 has more lines of spec, and the crowd as a neighbour.
func newCrowded(t *testing.T, more string) *fabric {
	t.Helper()
	return newFabric(t, crowdPicture, fabricOptions{edges: "ss",
		Options: evpn.Options{L3VNI: 5000, Segments: []evpn.Segment{{Gateway: true}, {Name: "crowded"}},
			Guests: append(oneEach(), evpn.GuestOptions{Name: "lonely", Segment: 1, Number: 1, Edges: []int{0}})},
		change: func(number int, config string) string {
			if number != 1 {
				return config
			}
			config = strings.Replace(config, "    neighbours:\n", "    listen: [192.0.2.1]\n    neighbours:\n    - {name: bgploadgen, address: 192.0.2.99, passive: true, timers: {hold: 90s, keepalive: 30s}}\n", 1)
			return strings.Replace(config, "  bgp:\n", more+"  bgp:\n", 1)
		}})
}

// A hundred edges' routes while guests talk: 2,000 hosts and a tenth as many prefixes, ten times that in make test-long.
func TestEVPNScale(t *testing.T) {
	t.Parallel()
	const peers = 100
	hosts := 2_000
	if tier.IsLong() {
		hosts = 20_000
	}
	prefixes := hosts / 10
	n := newCrowded(t, fmt.Sprintf("  fdb: {size: %d}\n", 2*hosts+1024))
	defer n.dumpOnFailure()
	n.StopCaptures()
	n.up()
	n.speak(n.all()...)
	n.knows(1, n.guests["red2"], 2)
	n.Pings(harness.Ways(n.guests["red1"], n.guests["red2"])...)
	c := n.crowd(peers, hosts/peers, prefixes/peers)
	pid := n.edge(1).Edge.Command.PID()
	before := n.memory(pid)
	streams := n.between("red1", "red2")

	began := time.Now()
	c.Do("announce")
	n.scaled("uses all routes", hosts, prefixes)
	t.Logf("%d hosts and %d prefixes of %d edges: told and in the maps after %s; memory (RSS) %d MiB, %d MiB before", hosts, prefixes, peers,
		time.Since(began).Round(time.Millisecond), n.memory(pid)>>20, before>>20)
	n.GoOn(streams)

	began = time.Now()
	c.Do("move")
	n.Fact("the first host is behind the second edge", func() error { return n.hostAt(1, "02:cc:00:00:00:00", loadPeer(1)) })
	n.scaled("has moved all hosts", hosts, prefixes)
	t.Logf("%d moves: after %s; memory %d MiB", hosts, time.Since(began).Round(time.Millisecond), n.memory(pid)>>20)
	n.GoOn(streams)
	n.undisturbed(c)
	n.LostNothing(streams)

	streams = n.between("red1", "red2")
	began = time.Now()
	c.Do("withdraw")
	n.scaled("has forgotten them", 0, 0)
	t.Logf("withdrawn: after %s; memory %d MiB", time.Since(began).Round(time.Millisecond), n.memory(pid)>>20)
	n.GoOn(streams)
	n.LostNothing(streams)
	n.Pings(harness.Ways(n.guests["red1"], n.guests["red2"])...)
}

// undisturbed is the fact that flows keep their decisions while a thousand hosts a second move
// in another segment.
func (n *fabric) undisturbed(c *harness.BGPLoad) {
	n.T.Helper()
	before, err := n.api(1).Status(n.Ctx)
	n.Must(err)
	c.Do("churn")
	after, err := n.api(1).Status(n.Ctx)
	n.Must(err)
	hits, misses := after.Hits-before.Hits, after.Misses-before.Misses
	n.T.Logf("while 1,000 hosts a second moved elsewhere: %d packets found their decision, %d did not", hits, misses)
	n.Once("flows keep their decisions while hosts move in another segment", func() error {
		if hits < 5*harness.StreamRate || misses > hits/1000 {
			return fmt.Errorf("%d hits, %d misses", hits, misses)
		}
		return nil
	})
}

// loadPeer is the tunnel endpoint of one of the crowd's edges, by index.
func loadPeer(index int) netip.Addr {
	return netip.AddrFrom4([4]byte{192, 0, 2, byte(100 + index)})
}

// crowd joins the underlay and waits for its session with edge1.
func (n *fabric) crowd(peers, hosts, prefixes int) *harness.BGPLoad {
	n.T.Helper()
	h, err := n.Topo.Host("bgploadgen")
	n.Must(err)
	addrs := []netip.Prefix{netip.MustParsePrefix("192.0.2.99/24")}
	for i := range peers {
		addrs = append(addrs, netip.PrefixFrom(loadPeer(i), 32))
	}
	n.Must(n.Topo.Link(n.Ctx, topo.LinkEnd{Host: h, Name: topo.UnderlayName, Addrs: addrs}, topo.LinkEnd{Host: n.Switch, Name: "bgploadgen"}, 1500))
	n.Must(n.Switch.Enslave("bgploadgen", "br0"))
	_, err = h.Output(n.Ctx, "nft", "table ip silent { chain input { type filter hook input priority 0; udp dport { 3784, 4784, 4789 } drop; }; }")
	n.Must(err)
	return harness.StartBGPLoad(n.Network, h, harness.BGPLoadOptions{
		Local: netip.MustParseAddr("192.0.2.99"), Neighbour: netip.MustParseAddr("192.0.2.1"), Peer: loadPeer(0),
		Peers: peers, Hosts: hosts, Prefixes: prefixes, VNI: 101,
	})
}

// scaled waits until edge1 uses so many routes of the crowd's, give or take those of edge2,
// and has as many hosts in its map.
func (n *fabric) scaled(what string, hosts, prefixes int) {
	n.T.Helper()
	const edge2s, most = 20, 3 * time.Minute
	err := await.Within(n.Ctx, most, "edge1 "+what, func() error {
		bgp, err := n.api(1).BGP().Info(n.Ctx)
		if err != nil {
			return err
		}
		status, err := n.api(1).Status(n.Ctx)
		if err != nil {
			return err
		}
		used, mapped := bgp.Routes.Used-hosts-prefixes, status.FDB.Used-hosts
		if used >= 0 && used < edge2s && mapped >= 0 && mapped < edge2s {
			return nil
		}
		return fmt.Errorf("%d hosts in its map, and %+v", status.FDB.Used, bgp.Routes)
	})
	if err != nil {
		n.Fail("edge1 "+what, err)
	}
}

// hostAt: the map of an edge has a MAC address behind a TEP.
func (n *fabric) hostAt(number int, mac string, tep netip.Addr) error {
	fdb, err := n.api(number).FDB(n.Ctx, api.EntryQuery{Remote: tep})
	for _, e := range fdb.List {
		if e.MAC.String() == mac && e.Remote == tep {
			return err
		}
	}
	return errors.Join(fmt.Errorf("of %d entries none says so", fdb.Matched), err)
}

// memory is what a process has resident, in bytes.
func (n *fabric) memory(pid int) int {
	n.T.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	n.Must(err)
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	n.Must(err)
	return pages * os.Getpagesize()
}
