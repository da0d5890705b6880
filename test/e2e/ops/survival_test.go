package ops

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//	                |p1
//	              extra
//
// The edge on hosta is killed, restarted, reconfigured and stopped while numbered
// datagrams cross it both ways; each that is lost is named.

// newStreams is two edges that work, with streams both ways through them.
func newStreams(t *testing.T, family int, checksum bool) (n *harness.TwoHosts, streams []*harness.Stream) {
	t.Helper()
	n = harness.NewTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: family})
	half := n.SelvageHalf()
	half.UDPChecksum = checksum
	n.BuildRecorded(half, half)
	for _, h := range []*topo.Host{n.A, n.B} {
		n.Resolved(h.Name)
	}
	for _, d := range n.Directions(4) {
		streams = append(streams, n.StartStream(d))
	}
	n.GoOn(streams)
	return n, streams
}

func TestKilledEdgeForwards(t *testing.T) {
	for _, c := range []struct {
		name     string
		family   int
		checksum bool
		kills    int
	}{{"IPv4", 4, false, 2}, {"IPv6", 6, false, 2}, {"IPv6Checksums", 6, true, 1}} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "IPv6" {
				tier.Long(t, "TestKilledEdgeForwards/IPv4 and IPv6Checksums")
			}
			t.Parallel()
			n, streams := newStreams(t, c.family, c.checksum)
			config, name := n.Config("hosta"), n.Edges["hosta"].Name
			for range c.kills {
				n.Edges["hosta"].Kill()
				n.Once("the killed edge does not answer", func() error {
					if _, err := n.Ask("hosta").Status(n.Ctx); err == nil {
						return errors.New("it does")
					}
					return nil
				})
				n.GoOn(streams)
				n.Once("a new client resolves and pings", func() error {
					if _, err := n.Client.Output(n.Ctx, "ip", "neigh", "flush", "all"); err != nil {
						return err
					}
					return harness.Ping(n.Ctx, n.Client, topo.ServerV4)
				})
				n.Start(n.A, name, config)
				n.Fact("the next edge has taken over", func() error {
					status, err := n.Ask("hosta").Status(n.Ctx)
					if err == nil && !status.Adopted {
						err = errors.New("it has not")
					}
					return err
				})
				n.GoOn(streams)
			}
			n.LostNothing(streams)
			n.NoDrops()
		})
	}
}

// A TCP transfer does not notice it either.
func TestKilledEdgeTransfers(t *testing.T) {
	t.Parallel()
	n := harness.NewTwoHosts(t, topo.TwoHostsOptions{})
	n.BuildRecorded(n.SelvageHalf(), n.SelvageHalf())
	n.StopCaptures()
	config, name := n.Config("hosta"), n.Edges["hosta"].Name
	reached, restarted := make(chan struct{}), make(chan struct{})
	reach := sync.OnceFunc(func() { close(reached) })
	data := slices.Concat(harness.Content, harness.Content, harness.Content)
	transferred := make(chan error, 1)
	go func() {
		transferred <- harness.TransferBytes(n.Directions(4)[0], data, func(received int) {
			if received > len(data)/3 {
				reach()
			}
			if received > 2*len(data)/3 { // until then it goes on without an edge
				<-restarted
			}
		})
	}()
	<-reached
	n.Edges["hosta"].Kill()
	e := n.Start(n.A, name, config)
	close(restarted)
	n.Once("bytes intact over kill and restart of "+e.Name, func() error { return <-transferred })
}

// An edge that is stopped leaves a data path that forwards. The next one takes it over, and
// selvage remove takes it away.
func TestStoppedEdgeForwards(t *testing.T) {
	t.Parallel()
	n, streams := newStreams(t, 4, false)
	config, name := n.Config("hosta"), n.Edges["hosta"].Name
	n.Edges["hosta"].Kill()
	e, err := dut.StartEdge(n.Ctx, n.A, harness.Program, name, config, "SELVAGE_REMOVE_AT_EXIT=false")
	n.Must(err)
	n.Started(n.A, e)
	n.Once("an edge that runs is not removed", func() error {
		_, err := n.A.Output(n.Ctx, harness.Program, "remove", name)
		if err == nil || !strings.Contains(err.Error(), "already running as process "+strconv.Itoa(e.Command.PID())+": stop it first") {
			return fmt.Errorf("%w, want a refusal with the process", err)
		}
		return nil
	})
	n.Must(e.Stop(n.Ctx))
	n.GoOn(streams)
	n.Once("the programs are where they were", func() error { return programs(n.A, 1) })
	n.Start(n.A, name, config)
	n.GoOn(streams)
	n.LostNothing(streams)
	n.NoDrops()

	n.Edges["hosta"].Kill()
	delete(n.Edges, "hosta")
	n.Once("not from another network namespace", func() error {
		_, err := n.B.Output(n.Ctx, harness.Program, "remove", name)
		if err == nil || !strings.Contains(err.Error(), "of another network namespace") {
			return fmt.Errorf("%w, want a refusal", err)
		}
		return programs(n.A, 1)
	})
	n.Once("selvage remove says what it did", func() error {
		out, err := n.A.Output(n.Ctx, harness.Program, "remove", name)
		if err == nil && !strings.Contains(string(out), name+": detached 3 programs\n"+name+": removed the tables\n"+name+": undid the changes of the host\n") {
			err = errors.New(string(out))
		}
		return err
	})
	n.Once("no program sits on port or underlay", func() error { return programs(n.A, 0) })
	n.Once("no pin, socket, lock or record is left", func() error {
		return harness.Nothing("/sys/fs/bpf/selvage/"+name, "/run/selvage/"+name+"*")
	})
}

func TestStoppedEdgeLeavesNothing(t *testing.T) {
	for _, checksum := range []bool{false, true} {
		t.Run(fmt.Sprintf("checksums %t", checksum), func(t *testing.T) {
			if !checksum {
				tier.Long(t, "TestStoppedEdgeLeavesNothing/checksums_true")
			}
			t.Parallel()
			n := harness.NewTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: 6})
			before, err := interfaces(n, n.A)
			n.Must(err)
			half := n.SelvageHalf()
			half.UDPChecksum = checksum
			n.BuildRecorded(half, half)
			n.Once("programs sit on port and underlay", func() error { return programs(n.A, 1) })
			e := n.Edges["hosta"]
			delete(n.Edges, "hosta")
			n.Must(e.Stop(n.Ctx))
			n.Once("no program sits on port or underlay", func() error { return programs(n.A, 0) })
			n.Once("no pin, socket, lock or record is left", func() error {
				return harness.Nothing("/sys/fs/bpf/selvage/"+e.Name, "/run/selvage/"+e.Name+"*")
			})
			n.Once("interfaces are as they were", func() error {
				after, err := interfaces(n, n.A)
				if err == nil && before != after {
					err = fmt.Errorf("%s\nwere %s", after, before)
				}
				return err
			})
			n.Once("no neighbour is kept", func() error {
				out, err := n.A.Output(n.Ctx, "ip", "neigh")
				if err == nil && strings.Contains(string(out), "managed") {
					err = errors.New(string(out))
				}
				return err
			})
		})
	}
}

// programs wants so many programs at the edge's hooks, one each.
func programs(h *topo.Host, want int) error {
	for _, name := range []string{topo.AccessName, topo.UnderlayName} {
		index, err := h.Index(name)
		if err != nil {
			return err
		}
		err = h.Do(func() error {
			result, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: ebpf.AttachTCXIngress})
			if err == nil && len(result.Programs) != want {
				err = fmt.Errorf("%s has %d programs", name, len(result.Programs))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func interfaces(n *harness.TwoHosts, h *topo.Host) (string, error) {
	out, err := h.Output(n.Ctx, "ip", "-o", "link")
	return string(out), err
}

func TestReloadKeepsForwarding(t *testing.T) {
	t.Parallel()
	n, streams := newStreams(t, 4, false)
	secondOfTheSameName(n)
	n.GoOn(streams)
	config := n.Config("hosta")

	n.Must(n.Reload("hosta", strings.Replace(config, "vni: 100", "vni: one hundred", 1)))
	n.Fact("the edge names the mistake", func() error { return n.Problem("hosta", "vni") })
	n.GoOn(streams)

	extra, err := n.Topo.Host("extra")
	n.Must(err)
	extraAddr := netip.MustParsePrefix("10.0.0.3/24")
	n.Must(n.Topo.Link(n.Ctx,
		topo.LinkEnd{Host: extra, Name: topo.EndName, Addrs: []netip.Prefix{extraAddr}},
		topo.LinkEnd{Host: n.A, Name: "p1"}, n.TwoHosts.Options.InnerMTU))
	more := strings.Replace(config, `remotes: ["192.0.2.2"]`, `remotes: ["192.0.2.2", "192.0.2.77"]`, 1) +
		"    - name: extra\n      interface: p1\n      segment: lab\n"
	n.Must(n.Reload("hosta", more))
	n.Fact("the added port is up", func() error { return n.PortState("hosta", "extra", "up") })
	n.Fact("the added remote is there, and does not answer", func() error { return n.Problem("hosta", "192.0.2.77") })
	n.Fact("extra pings server", func() error { return harness.Ping(n.Ctx, extra, topo.ServerV4) })
	n.Fact("client pings extra, on the same edge", func() error { return harness.Ping(n.Ctx, n.Client, extraAddr.Addr()) })
	n.GoOn(streams)

	for _, change := range []string{"\n  flowCache: {size: 4096}", "\n  fdb: {size: 100, ageing: 60s}"} {
		n.Must(n.Reload("hosta", strings.Replace(strings.Replace(config, "\n  flowCache:\n    enabled: true", "", 1), "\nspec:", "\nspec:"+change, 1)))
		n.Fact("extra's port is gone with"+change, func() error {
			ports, err := n.Ask("hosta").Ports(n.Ctx)
			if err == nil && len(ports) != 1 {
				err = fmt.Errorf("ports %+v", ports)
			}
			return err
		})
		n.GoOn(streams)
	}
	n.Must(n.Reload("hosta", more))
	n.Fact("extra's port is back", func() error { return n.PortState("hosta", "extra", "up") })
	n.GoOn(streams)
	n.LostNothing(streams)
}

func TestPortComesAndGoes(t *testing.T) {
	t.Parallel()
	n := harness.NewTwoHosts(t, topo.TwoHostsOptions{})
	n.BuildRecorded(n.SelvageHalf(), n.SelvageHalf())
	for range 2 {
		n.Must(n.A.Delete(topo.AccessName))
		n.Fact("the port is absent", func() error { return n.PortState("hosta", "access", "absent") })
		n.Must(n.Topo.Link(n.Ctx,
			topo.LinkEnd{Host: n.Client, Name: topo.EndName, MAC: harness.EndMAC(1), Addrs: []netip.Prefix{
				netip.PrefixFrom(topo.ClientV4, 24), netip.PrefixFrom(topo.ClientV6, 64),
			}},
			topo.LinkEnd{Host: n.A, Name: topo.AccessName}, n.TwoHosts.Options.InnerMTU))
		n.Fact("the port is up", func() error { return n.PortState("hosta", "access", "up") })
		n.Fact("client pings server", func() error { return harness.Ping(n.Ctx, n.Client, topo.ServerV4) })
		n.Fact("server pings client", func() error { return harness.Ping(n.Ctx, n.Server, topo.ClientV6) })
	}
	n.NoProblems("hosta")
}

// secondOfTheSameName: it is refused, and the first one does not notice.
func secondOfTheSameName(n *harness.TwoHosts) {
	n.T.Helper()
	n.Once("a second edge of the same name is refused", func() error {
		_, err := n.A.Output(n.Ctx, harness.Program, "edge", "-c", n.Edges["hosta"].Config)
		if err == nil {
			return errors.New("it is not")
		}
		if !strings.Contains(err.Error(), "already running") {
			return err
		}
		return nil
	})
	n.Once("the first one answers", func() error {
		status, err := n.Ask("hosta").Status(n.Ctx)
		if err == nil && status.PID != n.Edges["hosta"].Command.PID() {
			err = fmt.Errorf("process %d does", status.PID)
		}
		return err
	})
}

// An edge works on whoever reads its log: nobody, so that its pipe is full, or one that is gone.
func TestLogThatNobodyReads(t *testing.T) {
	t.Parallel()
	n, streams := newStreams(t, 4, false)
	e, config := n.Edges["hosta"], n.Config("hosta")
	e.Kill()
	log := strings.TrimSuffix(e.Config, ".yaml") + ".log"
	n.Must(os.Remove(log))
	n.Must(unix.Mkfifo(log, 0o600))
	reader, err := unix.Open(log, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	n.Must(err)
	closeReader := sync.OnceFunc(func() { unix.Close(reader) })
	defer closeReader()
	for line := make([]byte, 4096); err == nil; {
		_, err = unix.Write(reader, line)
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatal(err)
	}
	n.Start(n.A, e.Name, config)
	n.Must(os.Remove(log)) // or who collects logs would wait for its end
	reload := func(was, cache string) {
		t.Helper()
		n.Rewrite("hosta", was, strings.TrimSuffix(was, "    size: 8192\n")+"    size: "+cache+"\n")
		n.Fact("the edge has reloaded its configuration", func() error {
			flows, err := n.Ask("hosta").FlowCache(n.Ctx)
			if err == nil && strconv.Itoa(flows.Caches[0].Size) != cache {
				err = fmt.Errorf("its flow cache has %d entries", flows.Caches[0].Size)
			}
			return err
		})
	}
	reload("  flowCache:\n", "8192")
	n.GoOn(streams)
	closeReader()
	reload("    size: 8192\n", "16384")
	n.GoOn(streams)
	n.LostNothing(streams)
}
