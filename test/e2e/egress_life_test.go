package e2e

import (
	"errors"
	"fmt"
	"testing"
)

// What becomes of gateways while guests talk, on purpose or not.

// adopted is a fact: the process that runs now has taken over its predecessor's data path.
func (n *network) adopted(host string) {
	n.t.Helper()
	n.fact("the next "+host+" has taken over", func() error {
		status, err := n.ask(host).Status(n.ctx)
		if err == nil && !status.Adopted {
			err = errors.New("it has not")
		}
		return err
	})
}

// Each edge's process is killed and started again. Its data path goes on meanwhile, but the
// others take a gateway for dead that no longer says it lives.
func TestEgressKilled(t *testing.T) {
	n := newEgressNet(t, egressOptions{replication: true})
	defer n.confess()
	n.up()
	n.serving(2, 3)
	talks := n.talk()
	streams := []*stream{n.startStream(n.outward(n.red1, 4)), n.startStream(n.outward(n.red2, 6))}
	n.goOn(streams)
	for _, number := range []int{1, 3} { // which serves nobody
		host := n.hosts[number-1]
		text, name := n.config(host.Name), n.edges[host.Name].Name
		n.edges[host.Name].Kill()
		n.goOn(streams)
		talks.connect("without "+host.Name, 2)
		talks.goOn("without " + host.Name)
		n.start(host, name, text)
		n.adopted(host.Name)
		n.serving(2, 3)
		n.goOn(streams)
		talks.connect("with the next "+host.Name, 2)
		talks.goOn("with the next " + host.Name)
	}
	n.lostNothing(streams)
	talks.gap("of those that serve nobody")
	talks.kept("after that")

	text, name := n.config("edge2"), n.edges["edge2"].Name
	n.edges["edge2"].Kill()
	talks.goOn("without edge2")
	n.translatedBy(3, pool4...)
	n.translatedBy(3, pool6...)
	talks.kept("without edge2")
	talks.connect("without edge2", 2)
	n.asksAgain("without edge2")
	n.start(n.hosts[1], name, text)
	n.adopted("edge2")
	n.serving(2, 3)
	talks.goOn("with the next edge2")
	talks.kept("with the next edge2")
	talks.connect("with the next edge2", 2)
	n.asksAgain("with the next edge2")
	talks.gap("of the gateway")
	n.heldTogether()
}

// asksAgain has the outside forget where addresses are: one gateway alone answers for them.
func (n *egressNet) asksAgain(when string) {
	n.t.Helper()
	for range 3 {
		_, err := n.out.Output(n.ctx, "ip", "neigh", "flush", "dev", "lan0")
		n.must(err)
		for _, family := range []int{4, 6} {
			n.seenAs(n.red1, "tcp", outsideAddr(family), poolOf(family))
			n.seenAs(n.red2, "udp", outsideAddr(family), poolOf(family))
		}
	}
	n.once("one gateway alone answers for each address "+when, func() error {
		for _, addr := range pool4 {
			macs, err := n.whoHas(addr)
			if err == nil && len(macs) != 1 {
				err = fmt.Errorf("%s is at %v", addr, macs)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// A gateway that is stopped takes leave.
func TestEgressStopped(t *testing.T) {
	n := newEgressNet(t, egressOptions{replication: true})
	defer n.confess()
	n.up()
	n.serving(2, 3)
	talks := n.talk()
	text, name := n.config("edge2"), n.edges["edge2"].Name
	n.must(n.edges["edge2"].Stop(n.ctx))
	talks.goOn("without edge2")
	talks.gap("when edge2 stopped")
	talks.kept("without edge2")
	n.translatedBy(3, pool4...)
	talks.connect("without edge2", 2)
	n.start(n.hosts[1], name, text)
	n.serving(2, 3)
	talks.goOn("with the next edge2")
	talks.gap("when edge2 started")
	talks.kept("with the next edge2")
	n.heldTogether()
}

// fewLost is what of a stream may be on its way when addresses move at once: 10 ms of it.
const fewLost = streamRate / 100

// Maintenance ends no connection: the gateway is drained, gives up its addresses, and returns.
func TestEgressDrain(t *testing.T) {
	for mode, rounds := range map[string][]string{"active-standby": {"first", "second"}, "active-active": {"first"}} {
		t.Run(mode, func(t *testing.T) {
			n := newEgressNet(t, egressOptions{mode: mode, replication: true})
			defer n.confess()
			n.up()
			n.serving(2, 3)
			talks := n.talk()
			streams := []*stream{n.startStream(n.outward(n.red1, 4)), n.startStream(n.outward(n.red2, 6))}
			n.goOn(streams)
			for _, round := range rounds {
				n.drains(2, "drain", "--timeout", "0s")
				n.serving(3)
				n.translatedBy(3, pool4...)
				n.translatedBy(3, pool6...)
				talks.connect("while it is drained, "+round, 2)
				talks.goOn("while it is drained, " + round)
				n.goOn(streams)
				n.drains(2, "undrain")
				n.serving(2, 3)
				talks.connect("when it is back, "+round, 2)
				talks.goOn("when it is back, " + round)
				n.goOn(streams)
			}
			talks.kept("at the end")
			talks.gap("of the drains")
			for _, s := range streams {
				n.lost(s, fewLost)
			}
			n.heldTogether()
		})
	}
}

func (n *egressNet) drains(number int, args ...string) {
	n.t.Helper()
	n.once(fmt.Sprintf("edge%d does %v", number, args), func() error {
		_, err := n.command(number, append([]string{"egress"}, args...)...)
		return err
	})
}

// Policies come, change and go under traffic: what no policy is for goes nowhere.
func TestEgressReload(t *testing.T) {
	n := newEgressNet(t, egressOptions{replication: true})
	defer n.confess()
	n.up()
	n.serving(2, 3)
	n.mirror(n.out)
	stop := n.meanwhile(asksOn, n.outward(n.red1, 4), n.outward(n.red2, 6), n.outward(n.red2, 4))
	change := func(policies []string, numbers ...int) {
		n.o.policies = policies
		for _, number := range numbers {
			n.must(n.reload(n.hosts[number-1].Name, n.text(number)))
		}
	}
	with := []string{"name: web, vni: 9001"}
	for _, order := range [][]int{{1, 2, 3}, {3, 2, 1}} {
		change([]string{}, order...)
		n.fact("nobody is reached without a policy", func() error {
			if ping(n.ctx, n.red1.Host, outside4) == nil {
				return errors.New("the outside is")
			}
			return nil
		})
		change(with, order...)
		n.reached(n.red1, n.red2)
		change([]string{"name: web, vni: 9001, limit: 100000"}, order...)
		n.reached(n.red1, n.red2)
		change(with, order...)
		n.reached(n.red1, n.red2)
	}
	n.once("questions were asked all the time", stop)
	n.heldTogether()
}

// asksOn asks a mirror by new and old sockets, whatever comes of it.
func asksOn(d direction, done <-chan struct{}) error {
	for port := uint16(46000); ; port++ {
		select {
		case <-done:
			return nil
		default:
		}
		for _, local := range []uint16{45500, 46000 + port%1000} {
			if err := asksOnce(d, local); err != nil {
				return err
			}
		}
	}
}
