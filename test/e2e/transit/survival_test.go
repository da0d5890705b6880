package transit

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// The edges of a passage are killed, started again, reconfigured and stopped while
// numbered datagrams cross both of them both ways.

// TestTransitSurvives has one thing after the other happen to the same edges.
func TestTransitSurvives(t *testing.T) {
	t.Parallel()
	all := newPassage(t, passageOptions{mode: "native", finished: true})
	before, err := all.Hosts[0].Output(all.Ctx, "ip", "-o", "link")
	all.Must(err)
	all.up()
	hooks(all.Hub, "xdp")
	for _, step := range []struct {
		name string
		do   func(*passage)
	}{
		{"Killed", killed},
		{"ModeChanges", modeChanges},
		{"Stopped", func(n *passage) { stopped(n, string(before)) }},
		{"UplinkComesAndGoes", uplinkComesAndGoes},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.do(all.sub(t)) }) {
			return
		}
	}
}

// streams go both ways, one on each family.
func (n *passage) streams() (streams []*harness.Stream) {
	n.T.Helper()
	for _, d := range []harness.Direction{harness.Way(n.client, n.server, 4), harness.Way(n.server, n.client, 6)} {
		streams = append(streams, n.StartStream(d))
	}
	n.GoOn(streams)
	return streams
}

// killed: what is pinned carries on without the edge, and the next one takes it over.
func killed(n *passage) {
	streams, noDrops := n.streams(), n.WatchDrops("no-neighbour")
	for _, host := range n.Hosts {
		config, name := n.Config(host.Name), n.Edges[host.Name].Name
		count, err := transits(n.Hub.Network, host.Name)
		n.Must(err)
		n.Edges[host.Name].Kill()
		n.GoOn(streams)
		n.Start(host, name, config)
		n.Adopted(host.Name)
		n.Once("its predecessor's programs went on to carry", func() error {
			after, err := transits(n.Hub.Network, host.Name)
			if err == nil && after-count < harness.StreamRate/2 {
				err = fmt.Errorf("the count was %d and is %d", count, after)
			}
			return err
		})
		n.GoOn(streams)
		hooks(n.Hub, "xdp")
	}
	n.LostNothing(streams)
	noDrops()
}

// modeChanges: an edge of another mode takes over the links and the traffic of the one before.
func modeChanges(n *passage) {
	streams, now := n.streams(), "native"
	for _, step := range []struct{ mode, hook string }{{"tc", "tcx"}, {"native", "xdp"}, {"generic", "xdpgeneric"}, {"native", "xdp"}} {
		n.Rewrite("edge1", "mode: "+now, "mode: "+step.mode)
		now = step.mode
		n.Fact("edge1 takes what passes by "+step.hook, func() error {
			interfaces, err := n.Ask("edge1").Interfaces(n.Ctx)
			for _, i := range interfaces {
				mode, more := xdpMode(n.Network, n.Hosts[0], i.Name)
				if i.Hook != step.hook || mode != strings.TrimPrefix(step.hook, "tcx") {
					err = errors.Join(err, more, fmt.Errorf("%+v, and the kernel says %q", i, mode))
				}
			}
			return err
		})
		n.GoOn(streams)
		before, err := transits(n.Hub.Network, "edge1")
		n.Must(err)
		n.GoOn(streams)
		n.Once("they go by "+step.hook, func() error {
			after, err := transits(n.Hub.Network, "edge1")
			if byXDP := after-before > harness.StreamRate/4; err == nil && byXDP != (step.hook != "tcx") {
				err = fmt.Errorf("the transit programs carried %d packets", after-before)
			}
			return err
		})
	}
	n.NoProblems("edge1")
	for _, s := range streams {
		n.Lost(s, changeLoss)
	}
}

// changeLoss is how many datagrams may be under way in a veth's ring when an XDP
// program comes or goes: the driver frees the ring. The streams send 2 a ms.
const changeLoss = 20

// stopped: a stopped edge leaves no program and nothing of its own anywhere.
func stopped(n *passage, before string) {
	e, config := n.Edges["edge1"], n.Config("edge1")
	n.Must(e.Stop(n.Ctx))
	n.Once("no XDP program sits anywhere", func() error {
		for _, name := range []string{"lo", topo.UnderlayName, "up0"} {
			if mode, err := xdpMode(n.Network, n.Hosts[0], name); err != nil || mode != "" {
				return errors.Join(fmt.Errorf("%s has %q", name, mode), err)
			}
		}
		return nil
	})
	n.Once("no pin, socket, lock or record is left", func() error {
		return harness.Nothing("/sys/fs/bpf/selvage/"+e.Name, "/run/selvage/"+e.Name+"*")
	})
	n.Once("interfaces are as they were", func() error {
		after, err := n.Hosts[0].Output(n.Ctx, "ip", "-o", "link")
		if err == nil && before != string(after) {
			err = fmt.Errorf("%s\nwere %s", after, before)
		}
		return err
	})
	n.Start(n.Hosts[0], e.Name, config)
}

// uplinkComesAndGoes: an uplink that does gets its program back.
func uplinkComesAndGoes(n *passage) {
	n.Must(n.Hosts[0].Delete("up0"))
	n.Fact("the uplink is absent", func() error { return n.PortState("edge1", "wan", "absent") })
	n.Must(n.Topo.Link(n.Ctx, n.client.End(true), topo.LinkEnd{Host: n.Hosts[0], Name: "up0"}, n.o.uplink))
	receives(n.Hub, n.client)
	finish(n.Hub, n.client)
	n.Fact("the uplink is up", func() error { return n.PortState("edge1", "wan", "up") })
	hooks(n.Hub, "xdp")
	n.Pings(harness.Ways(n.client, n.server)...)
	n.Transfers(len(harness.Content)/4, harness.Ways(n.client, n.server)...)
	n.NoProblems("edge1")
}
