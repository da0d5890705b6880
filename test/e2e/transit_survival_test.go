package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
)

// The edges of a passage are killed, started again, reconfigured and stopped while
// numbered datagrams cross both of them both ways.

// passageStreams is a passage that works, with streams both ways on both families.
func passageStreams(t *testing.T) (n *passage, streams []*stream) {
	t.Helper()
	n = newPassage(t, passageOptions{mode: "native", finished: true})
	n.up()
	n.hooks("xdp")
	for _, d := range []direction{way(n.client, n.server, 4), way(n.server, n.client, 6)} {
		streams = append(streams, n.startStream(d))
	}
	n.flow(streams)
	return n, streams
}

// flow waits for a quarter of a second of each stream.
func (n *passage) flow(streams []*stream) {
	n.t.Helper()
	for _, s := range streams {
		n.more(s, streamRate/4)
	}
}

// What is pinned carries on without the edge, and the next one takes it over.
func TestTransitKilled(t *testing.T) {
	n, streams := passageStreams(t)
	for _, host := range n.hosts {
		config, name := n.config(host.Name), n.edges[host.Name].Name
		count, err := n.transits(host.Name)
		n.must(err)
		n.edges[host.Name].Kill()
		n.once("the killed edge does not answer", func() error {
			if _, err := n.ask(host.Name).Status(n.ctx); err == nil {
				return errors.New("it does")
			}
			return nil
		})
		n.flow(streams)
		n.start(host, name, config)
		n.fact("the next edge has taken over", func() error {
			status, err := n.ask(host.Name).Status(n.ctx)
			if err == nil && !status.Adopted {
				err = errors.New("it has not")
			}
			return err
		})
		n.once("its predecessor's programs went on to carry", func() error {
			after, err := n.transits(host.Name)
			if err == nil && after-count < streamRate/2 {
				err = fmt.Errorf("the count was %d and is %d", count, after)
			}
			return err
		})
		n.flow(streams)
		n.hooks("xdp")
	}
	for _, s := range streams {
		n.lost(s, 0)
	}
	n.noDrops("no-neighbour")
}

// An edge of another mode takes over the links and the traffic of the one before.
func TestTransitModeChanges(t *testing.T) {
	n, streams := passageStreams(t)
	now := "native"
	for _, step := range []struct{ mode, hook string }{{"tc", "tcx"}, {"native", "xdp"}, {"generic", "xdpgeneric"}, {"native", "xdp"}} {
		n.must(n.reload("edge1", strings.Replace(n.config("edge1"), "mode: "+now, "mode: "+step.mode, 1)))
		now = step.mode
		n.fact("edge1 takes what passes by "+step.hook, func() error {
			interfaces, err := n.ask("edge1").Interfaces(n.ctx)
			for _, i := range interfaces {
				mode, more := xdpMode(n.network, n.hosts[0], i.Name)
				if i.Hook != step.hook || mode != strings.TrimPrefix(step.hook, "tcx") {
					err = errors.Join(err, more, fmt.Errorf("%+v, and the kernel says %q", i, mode))
				}
			}
			return err
		})
		n.flow(streams)
		before, err := n.transits("edge1")
		n.must(err)
		n.flow(streams)
		n.once("they go by "+step.hook, func() error {
			after, err := n.transits("edge1")
			if byXDP := after-before > streamRate/4; err == nil && byXDP != (step.hook != "tcx") {
				err = fmt.Errorf("the transit programs carried %d packets", after-before)
			}
			return err
		})
	}
	n.noProblems("edge1")
	for _, s := range streams {
		n.lost(s, changeLoss)
	}
}

// changeLoss is how many datagrams may be under way in a veth's ring when an XDP
// program comes or goes: the driver frees the ring. The streams send 2 a ms.
const changeLoss = 20

// A stopped edge leaves no program and nothing of its own anywhere.
func TestTransitStopped(t *testing.T) {
	for _, mode := range []string{"native", "generic"} {
		t.Run(mode, func(t *testing.T) {
			n := newPassage(t, passageOptions{mode: mode, finished: true})
			before, err := n.hosts[0].Output(n.ctx, "ip", "-o", "link")
			n.must(err)
			n.up()
			n.hooks(map[string]string{"native": "xdp", "generic": "xdpgeneric"}[mode])
			e := n.edges["edge1"]
			delete(n.edges, "edge1")
			n.must(e.Stop(n.ctx))
			n.once("no XDP program sits anywhere", func() error {
				for _, name := range []string{"lo", topo.UnderlayName, "up0"} {
					if mode, err := xdpMode(n.network, n.hosts[0], name); err != nil || mode != "" {
						return errors.Join(fmt.Errorf("%s has %q", name, mode), err)
					}
				}
				return nil
			})
			n.once("no pin, socket, lock or record is left", func() error {
				return nothing("/sys/fs/bpf/selvage/"+e.Name, "/run/selvage/"+e.Name+"*")
			})
			n.once("interfaces are as they were", func() error {
				after, err := n.hosts[0].Output(n.ctx, "ip", "-o", "link")
				if err == nil && string(before) != string(after) {
					err = fmt.Errorf("%s\nwere %s", after, before)
				}
				return err
			})
		})
	}
}

// An uplink that goes and comes gets its program back.
func TestTransitUplinkComesAndGoes(t *testing.T) {
	n := newPassage(t, passageOptions{mode: "native", finished: true})
	n.up()
	n.must(n.hosts[0].Delete("up0"))
	n.fact("the uplink is absent", func() error { return n.portState("edge1", "wan", "absent") })
	n.must(n.lab.Link(n.ctx, n.client.end(true), topo.LinkEnd{Host: n.hosts[0], Name: "up0"}, n.o.uplink))
	n.receives(n.client)
	n.finish(n.client)
	n.fact("the uplink is up", func() error { return n.portState("edge1", "wan", "up") })
	n.hooks("xdp")
	n.pings(ways(n.client, n.server)...)
	n.transfers(len(content)/4, ways(n.client, n.server)...)
	n.noProblems("edge1")
}
