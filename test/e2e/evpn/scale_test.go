package evpn

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

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

// A hundred edges' routes while guests talk. SELVAGE_EVPN_ROUTES is how many hosts they have
// (a tenth as many prefixes on top): 2,000, in make test-long 10,000, unless it says more, as in
// 100000.
func TestEVPNScale(t *testing.T) {
	t.Parallel()
	const peers = 100
	hosts := 2_000
	if tier.IsLong() {
		hosts = 10_000
	}
	if want := os.Getenv("SELVAGE_EVPN_ROUTES"); want != "" {
		var err error
		if hosts, err = strconv.Atoi(want); err != nil || hosts%(10*peers) != 0 {
			t.Fatalf("SELVAGE_EVPN_ROUTES=%s: not a number of whole thousands", want)
		}
	}
	prefixes := hosts / 10
	n := newCrowded(t, fmt.Sprintf("  fdb: {size: %d}\n", 2*hosts+1024))
	defer n.dumpOnFailure()
	n.StopCaptures()
	n.up()
	n.speak(n.all()...)
	n.knows(1, n.guests["red2"], 2)
	n.Pings(harness.Ways(n.guests["red1"], n.guests["red2"])...)
	c := n.crowd(peers, hosts/peers, prefixes/peers, 1)
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
	if os.Getenv("SELVAGE_EVPN_CHURN") != "" {
		n.costOfChurn(c)
	}
	if bgp, err := n.api(1).BGP().Info(n.Ctx); err == nil {
		t.Logf("convergence as the edge has it: %+v", bgp.Convergence)
	}

	streams = n.between("red1", "red2")
	began = time.Now()
	c.Do("withdraw")
	n.scaled("has forgotten them", 0, 0)
	t.Logf("withdrawn: after %s; memory %d MiB", time.Since(began).Round(time.Millisecond), n.memory(pid)>>20)
	n.GoOn(streams)
	n.LostNothing(streams)
	n.Pings(harness.Ways(n.guests["red1"], n.guests["red2"])...)
}

// One update at a time, from its receipt to the map: of hosts behind an edge that is known, and of hosts that make theirs known.
func TestEVPNUpdates(t *testing.T) {
	tier.Long(t, "internal/bgp, and TestEVPNScale")
	for _, c := range []struct {
		name         string
		peers, hosts int
	}{{"known", 1, 1000}, {"remotes", 100, 1}} {
		t.Run(c.name, func(t *testing.T) {
			n := newCrowded(t, "")
			defer n.dumpOnFailure()
			n.StopCaptures()
			n.up()
			before, err := n.api(1).BGP().Info(n.Ctx)
			n.Must(err)
			load := n.crowd(c.peers, c.hosts, 0, 1)
			load.Do("trickle")
			n.scaled("uses all routes", c.peers*c.hosts, 0)
			bgp, err := n.api(1).BGP().Info(n.Ctx)
			n.Must(err)
			t.Logf("%d updates: %+v; before, %+v", c.peers*c.hosts, bgp.Convergence, before.Convergence)
		})
	}
}

// Another edge tells of 300,000 prefixes by 5,000 next hops, more than the tables hold. The edge goes on
// with what it is told to do: it removes a port and adds it again, guests talk, and it says what is left out.
func TestEVPNBeyondTables(t *testing.T) {
	tier.Long(t, "internal/datapath TestMoreThanTheTablesHold")
	const peers, prefixes, routers = 100, 300_000, 5_000
	n := newCrowded(t, "")
	defer n.dumpOnFailure()
	n.StopCaptures()
	n.up()
	n.speak(n.all()...)
	n.knows(1, n.guests["red2"], 2)
	e := n.edge(1).Edge
	c := n.crowd(peers, 1, prefixes/peers, routers/peers)
	streams := n.between("red1", "red2")
	began := time.Now()
	c.Do("announce")
	n.within("edge1 says what it leaves out", func() error {
		return n.problem(1, "the table of 4095 next hops has no room")
	})
	n.within("edge1 has heard all of them", func() error {
		status, err := n.api(1).Status(n.Ctx)
		if err == nil && status.BGP.Used+status.BGP.Unused < prefixes {
			err = fmt.Errorf("%+v", status.BGP)
		}
		return err
	})
	t.Logf("%d prefixes by %d next hops: heard, and in the maps as far as they fit, after %s; memory (RSS) %d MiB", prefixes, routers,
		time.Since(began).Round(time.Millisecond), n.memory(e.Command.PID())>>20)

	text, err := os.ReadFile(e.Config)
	n.Must(err)
	lines := strings.SplitAfter(string(text), "\n")
	without := strings.Join(slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.Contains(line, "name: lonely") }), "")
	for _, config := range []string{without, string(text), without} {
		began = time.Now()
		want := strings.Contains(config, "name: lonely")
		n.Must(os.WriteFile(e.Config, []byte(config), 0o644))
		n.Must(unix.Kill(e.Command.PID(), unix.SIGHUP))
		n.Must(await.Within(n.Ctx, time.Minute, fmt.Sprintf("the port of lonely to have a program: %t", want), func() error { return n.hasProgram("lonely", want) }))
		t.Logf("port of lonely wanted: %t, so after %s", want, time.Since(began).Round(time.Millisecond))
	}
	n.GoOn(streams)
	began = time.Now()
	c.Do("withdraw")
	n.scaled("has forgotten them", 0, 0)
	t.Logf("withdrawn: after %s", time.Since(began).Round(time.Millisecond))
	n.within("edge1 has nothing to complain about", func() error {
		status, err := n.api(1).Status(n.Ctx)
		if err == nil && len(status.Problems) > 0 {
			err = fmt.Errorf("%v", status.Problems)
		}
		return err
	})
	n.GoOn(streams)
	n.LostNothing(streams)
}

// within waits for what takes as long as many routes do. It asks the edge once a second, so that counting them for
// the answer is not what it does all the time.
func (n *fabric) within(what string, try func() error) {
	n.T.Helper()
	pace := time.NewTicker(time.Second)
	defer pace.Stop()
	err := try()
	for end := time.Now().Add(3 * time.Minute); err != nil && time.Now().Before(end); err = try() {
		<-pace.C
	}
	if err != nil {
		n.Fail(what, err)
	}
}

// hasProgram wants an interface of edge1 to have a program, or none.
func (n *fabric) hasProgram(name string, want bool) error {
	h := n.edge(1).Host
	index, err := h.Index(name)
	if err != nil {
		return err
	}
	return h.Do(func() error {
		found, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: ebpf.AttachTCXIngress})
		if err == nil && (len(found.Programs) > 0) != want {
			err = fmt.Errorf("%d programs", len(found.Programs))
		}
		return err
	})
}

// problem wants an edge to say all of this.
func (n *fabric) problem(number int, want ...string) error {
	status, err := n.api(number).Status(n.Ctx)
	said := fmt.Sprintf("%v", status.Problems)
	for _, w := range want {
		if err == nil && !strings.Contains(said, w) {
			err = fmt.Errorf("%s, want %q", said, w)
		}
	}
	return err
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

// costOfChurn logs throughput and round trips of guests, without and with a thousand hosts a
// second that move in another segment, in turn (A B B A).
func (n *fabric) costOfChurn(c *harness.BGPLoad) {
	n.T.Helper()
	for i, churns := range []bool{false, true, true, false, false, true, true, false} {
		if churns {
			c.Ask("churn")
		}
		rate, trip, err := n.speed(harness.Way(n.guests["red1"], n.guests["red2"], 4))
		n.Must(err)
		n.T.Logf("run %d, moves elsewhere %t: TCP %.2f Gbit/s, round trip p50 %s", i+1, churns, rate/1e9, trip)
		if churns {
			c.Await("churn")
		}
	}
}

// speed is what one TCP connection carries, in bits a second, and the median of round trips of
// a small datagram.
func (n *fabric) speed(d harness.Direction) (rate float64, trip time.Duration, err error) {
	const trips = 10_000
	if rate, err = n.iperf(d); err != nil {
		return 0, 0, err
	}
	server, err := harness.ListenUDP(d.To, d.Addr)
	if err != nil {
		return 0, 0, err
	}
	defer server.Close()
	go harness.EchoDatagrams(server)
	client, err := harness.DialUDP(d.From, server.LocalAddr())
	if err != nil {
		return 0, 0, err
	}
	defer client.Close()
	all := make([]time.Duration, trips)
	for i := range all {
		began := time.Now()
		if err := harness.EchoOne(client, []byte("a small datagram"), time.Second); err != nil {
			return 0, 0, err
		}
		all[i] = time.Since(began)
	}
	slices.Sort(all)
	return rate, all[trips/2], nil
}

// iperf is what one TCP connection carries for two seconds, in bits a second.
func (n *fabric) iperf(d harness.Direction) (float64, error) {
	const port = 5201
	server := d.To.Command(n.Ctx, "iperf3", "-s", "-1")
	server.Log = filepath.Join(n.Topo.Dir, "iperf3.log")
	if err := server.Start(); err != nil {
		return 0, err
	}
	defer server.Kill()
	if err := d.To.AwaitListen(n.Ctx, "tcp", port); err != nil {
		return 0, err
	}
	out, err := d.From.Output(n.Ctx, "iperf3", "-c", d.Addr.String(), "-t", "2", "-J")
	var report struct {
		End struct {
			Received struct {
				Rate float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err == nil {
		err = json.Unmarshal(out, &report)
	}
	return report.End.Received.Rate, err
}

// loadPeer is the tunnel endpoint of one of the crowd's edges, by index.
func loadPeer(index int) netip.Addr {
	return netip.AddrFrom4([4]byte{192, 0, 2, byte(100 + index)})
}

// crowd joins the underlay and waits for its session with edge1.
func (n *fabric) crowd(peers, hosts, prefixes, routers int) *harness.BGPLoad {
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
		Peers: peers, Hosts: hosts, Prefixes: prefixes, Routers: routers, VNI: 101,
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
