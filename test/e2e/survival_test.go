package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/selvage/selvage/lab/topo"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//	                |p1
//	              extra
//
// The edge on hosta is killed, restarted, reconfigured and stopped while numbered
// datagrams cross it both ways; each that is lost is named.

// newStreams is two edges that work, with streams both ways through them.
func newStreams(t *testing.T, family int, checksum bool) (n *twoHosts, streams []*stream) {
	t.Helper()
	n = newTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: family})
	half := n.selvage()
	half.UDPChecksum = checksum
	n.build(half, half)
	for _, h := range []*topo.Host{n.A, n.B} {
		n.resolved(h.Name)
	}
	for _, d := range n.directions(4) {
		streams = append(streams, n.startStream(d))
	}
	n.goOn(streams)
	return n, streams
}

// goOn waits for a quarter of a second of each stream.
func (n *network) goOn(streams []*stream) {
	n.t.Helper()
	for _, s := range streams {
		n.more(s, streamRate/4)
	}
}

func (n *network) lostNothing(streams []*stream) {
	n.t.Helper()
	for _, s := range streams {
		n.lost(s, 0)
	}
}

// config is the text that the edge on a host was started with.
func (n *network) config(host string) string {
	n.t.Helper()
	text, err := os.ReadFile(n.edges[host].Config)
	n.must(err)
	return string(text)
}

func TestKilledEdgeForwards(t *testing.T) {
	for _, c := range []struct {
		name     string
		family   int
		checksum bool
	}{{"IPv4", 4, false}, {"IPv6", 6, false}, {"IPv6Checksums", 6, true}} {
		t.Run(c.name, func(t *testing.T) {
			n, streams := newStreams(t, c.family, c.checksum)
			config, name := n.config("hosta"), n.edges["hosta"].Name
			for range 2 {
				n.edges["hosta"].Kill()
				n.once("the killed edge does not answer", func() error {
					if _, err := n.ask("hosta").Status(n.ctx); err == nil {
						return errors.New("it does")
					}
					return nil
				})
				n.goOn(streams)
				n.once("a new client resolves and pings", func() error {
					if _, err := n.Client.Output(n.ctx, "ip", "neigh", "flush", "all"); err != nil {
						return err
					}
					return ping(n.ctx, n.Client, topo.ServerV4)
				})
				n.start(n.A, name, config)
				n.fact("the next edge has taken over", func() error {
					status, err := n.ask("hosta").Status(n.ctx)
					if err == nil && !status.Adopted {
						err = errors.New("it has not")
					}
					return err
				})
				n.goOn(streams)
			}
			n.lostNothing(streams)
			n.noDrops()
		})
	}
}

// A TCP transfer does not notice it either.
func TestKilledEdgeTransfers(t *testing.T) {
	n := newTwoHosts(t, topo.TwoHostsOptions{})
	n.build(n.selvage(), n.selvage())
	n.quiet()
	config, name := n.config("hosta"), n.edges["hosta"].Name
	reached, restarted := make(chan struct{}), make(chan struct{})
	reach := sync.OnceFunc(func() { close(reached) })
	data := make([]byte, 0, 10*len(content))
	for range 10 {
		data = append(data, content...)
	}
	transferred := make(chan error, 1)
	go func() {
		transferred <- transferBytes(n.directions(4)[0], data, func(received int) {
			if received > len(data)/3 {
				reach()
			}
			if received > 2*len(data)/3 { // until then it goes on without an edge
				<-restarted
			}
		})
	}()
	<-reached
	n.edges["hosta"].Kill()
	e := n.start(n.A, name, config)
	close(restarted)
	n.once("bytes intact over kill and restart of "+e.Name, func() error { return <-transferred })
}

func TestStoppedEdgeLeavesNothing(t *testing.T) {
	for _, checksum := range []bool{false, true} {
		t.Run(fmt.Sprintf("checksums %t", checksum), func(t *testing.T) {
			n := newTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: 6})
			before, err := n.interfaces(n.A)
			n.must(err)
			half := n.selvage()
			half.UDPChecksum = checksum
			n.build(half, half)
			n.once("programs sit on port and underlay", func() error { return n.programs(n.A, 1) })
			e := n.edges["hosta"]
			delete(n.edges, "hosta")
			n.must(e.Stop(n.ctx))
			n.once("no program sits on port or underlay", func() error { return n.programs(n.A, 0) })
			n.once("no pin, socket, lock or record is left", func() error {
				return nothing("/sys/fs/bpf/selvage/"+e.Name, "/run/selvage/"+e.Name+"*")
			})
			n.once("interfaces are as they were", func() error {
				after, err := n.interfaces(n.A)
				if err == nil && before != after {
					err = fmt.Errorf("%s\nwere %s", after, before)
				}
				return err
			})
			n.once("no neighbour is kept", func() error {
				out, err := n.A.Output(n.ctx, "ip", "neigh")
				if err == nil && strings.Contains(string(out), "managed") {
					err = errors.New(string(out))
				}
				return err
			})
		})
	}
}

// programs wants so many programs at the edge's hooks, one each.
func (n *twoHosts) programs(h *topo.Host, want int) error {
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

func (n *twoHosts) interfaces(h *topo.Host) (string, error) {
	out, err := h.Output(n.ctx, "ip", "-o", "link")
	return string(out), err
}

func nothing(patterns ...string) error {
	var errs []error
	for _, p := range patterns {
		found, err := filepath.Glob(p)
		if len(found) > 0 {
			err = fmt.Errorf("there is %v", found)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func TestReloadKeepsForwarding(t *testing.T) {
	n, streams := newStreams(t, 4, false)
	config := n.config("hosta")

	n.must(n.reload("hosta", strings.Replace(config, "vni: 100", "vni: one hundred", 1)))
	n.fact("the edge names the mistake", func() error { return n.problem("hosta", "vni") })
	n.goOn(streams)

	extra, err := n.lab.Host("extra")
	n.must(err)
	extraAddr := netip.MustParsePrefix("10.0.0.3/24")
	n.must(n.lab.Link(n.ctx,
		topo.LinkEnd{Host: extra, Name: topo.EndName, Addrs: []netip.Prefix{extraAddr}},
		topo.LinkEnd{Host: n.A, Name: "p1"}, n.TwoHosts.Options.InnerMTU))
	more := strings.Replace(config, `remotes: ["192.0.2.2"]`, `remotes: ["192.0.2.2", "192.0.2.77"]`, 1) +
		"    - name: extra\n      interface: p1\n      segment: lab\n"
	n.must(n.reload("hosta", more))
	n.fact("the added port is up", func() error { return n.portState("hosta", "extra", "up") })
	n.fact("the added remote is there, and does not answer", func() error { return n.problem("hosta", "192.0.2.77") })
	n.fact("extra pings server", func() error { return ping(n.ctx, extra, topo.ServerV4) })
	n.fact("client pings extra, on the same edge", func() error { return ping(n.ctx, n.Client, extraAddr.Addr()) })
	n.goOn(streams)

	for _, change := range []string{"\n  flowCache: {size: 4096}", "\n  fdb: {size: 100, ageing: 60s}"} {
		n.must(n.reload("hosta", strings.Replace(strings.Replace(config, "\n  flowCache:\n    enabled: true", "", 1), "\nspec:", "\nspec:"+change, 1)))
		n.fact("extra's port is gone with"+change, func() error {
			ports, err := n.ask("hosta").Ports(n.ctx)
			if err == nil && len(ports) != 1 {
				err = fmt.Errorf("ports %+v", ports)
			}
			return err
		})
		n.goOn(streams)
		n.must(n.reload("hosta", more))
		n.fact("and back", func() error { return n.portState("hosta", "extra", "up") })
		n.goOn(streams)
	}
	n.lostNothing(streams)
}

func (n *network) problem(host, words string) error {
	status, err := n.ask(host).Status(n.ctx)
	if err == nil && !strings.Contains(strings.Join(status.Problems, "\n"), words) {
		err = fmt.Errorf("problems %q", status.Problems)
	}
	return err
}

func TestPortComesAndGoes(t *testing.T) {
	n := newTwoHosts(t, topo.TwoHostsOptions{})
	n.build(n.selvage(), n.selvage())
	for range 2 {
		n.must(n.A.Delete(topo.AccessName))
		n.fact("the port is absent", func() error { return n.portState("hosta", "access", "absent") })
		n.must(n.lab.Link(n.ctx,
			topo.LinkEnd{Host: n.Client, Name: topo.EndName, MAC: endMAC(1), Addrs: []netip.Prefix{
				netip.PrefixFrom(topo.ClientV4, 24), netip.PrefixFrom(topo.ClientV6, 64),
			}},
			topo.LinkEnd{Host: n.A, Name: topo.AccessName}, n.TwoHosts.Options.InnerMTU))
		n.fact("the port is up", func() error { return n.portState("hosta", "access", "up") })
		n.fact("client pings server", func() error { return ping(n.ctx, n.Client, topo.ServerV4) })
		n.fact("server pings client", func() error { return ping(n.ctx, n.Server, topo.ClientV6) })
	}
	n.noProblems("hosta")
}

func TestSecondEdgeOfTheSameName(t *testing.T) {
	n, streams := newStreams(t, 4, false)
	n.once("a second edge of the same name is refused", func() error {
		_, err := n.A.Output(n.ctx, program, "edge", "-c", n.edges["hosta"].Config)
		if err == nil {
			return errors.New("it is not")
		}
		if !strings.Contains(err.Error(), "runs already") {
			return err
		}
		return nil
	})
	n.goOn(streams)
	n.lostNothing(streams)
	n.once("the first one answers", func() error {
		status, err := n.ask("hosta").Status(n.ctx)
		if err == nil && status.PID != n.edges["hosta"].Command.PID() {
			err = fmt.Errorf("process %d does", status.PID)
		}
		return err
	})
}
