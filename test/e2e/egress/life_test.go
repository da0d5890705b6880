package egress

import (
	"fmt"

	"github.com/selvage/selvage/test/e2e/harness"
)

// What becomes of gateways while guests talk, on purpose or not.

// The steps of TestEgressGateways that are about processes.

// killed: each edge's process is killed and started again. Its data path goes on meanwhile, but
// the others take a gateway for dead that no longer says it lives.
func killed(n *harness.EgressNet) {
	n.T.Helper()
	talks := talk(n)
	streams := []*harness.Stream{n.StartStream(n.Outward(n.Red1, 4)), n.StartStream(n.Outward(n.Red2, 6))}
	n.GoOn(streams)
	for _, number := range []int{1, 3} { // which serves nobody
		host := n.Hosts[number-1]
		text, name := n.Config(host.Name), n.Edges[host.Name].Name
		n.Edges[host.Name].Kill()
		n.GoOn(streams)
		talks.connect("without "+host.Name, 2)
		talks.goOn("without " + host.Name)
		n.Start(host, name, text)
		n.Adopted(host.Name)
		n.Serving(2, 3)
		n.GoOn(streams)
		talks.connect("with the next "+host.Name, 2)
		talks.goOn("with the next " + host.Name)
	}
	n.LostNothing(streams)
	talks.gap("of those that serve nobody")
	talks.kept("after that")

	text, name := n.Config("edge2"), n.Edges["edge2"].Name
	n.Edges["edge2"].Kill()
	talks.goOn("without edge2")
	translatedBy(n, 3, harness.Pool4...)
	translatedBy(n, 3, harness.Pool6...)
	talks.kept("without edge2")
	talks.connect("without edge2", 2)
	asksAgain(n, "without edge2")
	n.Start(n.Hosts[1], name, text)
	n.Adopted("edge2")
	n.Serving(2, 3)
	talks.goOn("with the next edge2")
	talks.kept("with the next edge2")
	talks.connect("with the next edge2", 2)
	asksAgain(n, "with the next edge2")
	talks.gap("of the gateway")
}

// asksAgain has the outside forget where addresses are: one gateway alone answers for them.
func asksAgain(n *harness.EgressNet, when string) {
	n.T.Helper()
	for range 3 {
		_, err := n.Out.Output(n.Ctx, "ip", "neigh", "flush", "dev", "lan0")
		n.Must(err)
		for _, family := range []int{4, 6} {
			n.SeenAs(n.Red1, "tcp", harness.OutsideAddr(family), harness.PoolOf(family))
			n.SeenAs(n.Red2, "udp", harness.OutsideAddr(family), harness.PoolOf(family))
		}
	}
	n.Once("one gateway alone answers for each address "+when, func() error {
		for _, addr := range harness.Pool4 {
			macs, err := whoHas(n, addr)
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

// fewLost is what of a stream may be on its way when addresses move at once: 100 ms of it, in
// which three processes have to run on however busy a machine. How fast it is, is the lab's to
// measure.
const fewLost = harness.StreamRate / 10

// drained: maintenance ends no connection. The gateway is drained, gives up its addresses, and
// returns.
func drained(n *harness.EgressNet) {
	n.T.Helper()
	talks := talk(n)
	streams := []*harness.Stream{n.StartStream(n.Outward(n.Red1, 4)), n.StartStream(n.Outward(n.Red2, 6))}
	n.GoOn(streams)
	drains(n, 2, "drain", "--timeout", "0s")
	n.Serving(3)
	translatedBy(n, 3, harness.Pool4...)
	translatedBy(n, 3, harness.Pool6...)
	talks.connect("while it is drained", 2)
	talks.goOn("while it is drained")
	n.GoOn(streams)
	drains(n, 2, "undrain")
	n.Serving(2, 3)
	talks.connect("when it is back", 2)
	talks.goOn("when it is back")
	n.GoOn(streams)
	talks.kept("at the end")
	talks.gap("of the drains")
	for _, s := range streams {
		n.Lost(s, fewLost)
	}
}

func drains(n *harness.EgressNet, number int, args ...string) {
	n.T.Helper()
	n.Once(fmt.Sprintf("edge%d does %v", number, args), func() error {
		_, err := n.Command(number, append([]string{"egress"}, args...)...)
		return err
	})
}
