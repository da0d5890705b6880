package evpn

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
	"github.com/selvage/selvage/lab/dut/evpn"
	"github.com/selvage/selvage/test/e2e/harness"
)

const mobilityPicture = `
          rr1 (FRR)
           |
         switch
        /  |   \
   edge1 edge2  edge3    Selvage, Selvage with another gateway MAC, Linux and FRR
   red1  red2   red3     10.0.0.0/24, VNI 100, gateway
   restless: behind edge1 at first, then anywhere
   printer:  behind edge1, by its configuration, and an impostor elsewhere`

// What moves too often, what may not move, and what two edges do not agree on.
func TestEVPNMobility(t *testing.T) {
	t.Parallel()
	n := newFabric(t, mobilityPicture, fabricOptions{
		edges: "ssk",
		Options: evpn.Options{
			Segments: []evpn.Segment{{Name: "red", Gateway: true}},
			Guests: []evpn.GuestOptions{
				{Name: "red1", Number: 1, Edges: []int{0}}, {Name: "red2", Number: 2, Edges: []int{1}}, {Name: "red3", Number: 3, Edges: []int{2}},
				{Name: "restless", Number: 9, Edges: []int{0, 1, 2}}, {Name: "printer", Number: 8, Edges: []int{0, 1}},
			},
		},
		change: func(number int, config string) string {
			switch number {
			case 2:
				return strings.Replace(config, "gateway: {", "gateway: {mac: \""+otherGatewayMAC+"\", ", 1)
			case 3:
				return config
			}
			return strings.Replace(config, "    evpn: {}\n", "    evpn: {}\n    fdb: [{mac: \"02:00:00:00:00:08\", port: printer}]\n", 1)
		},
	})
	defer n.dumpOnFailure()
	n.up()
	n.speak(n.all()...)
	t.Run("GatewayDiffers", func(t *testing.T) { n.sub(t).gatewayDiffers() })
	t.Run("Sticky", func(t *testing.T) { n.sub(t).sticky() })
	t.Run("Duplicate", func(t *testing.T) { n.sub(t).duplicate() })
}

// otherGatewayMAC is what the gateway of edge2 has, by mistake.
const otherGatewayMAC = "02:00:5e:00:09:09"

// gatewayDiffers: edges warn of another edge whose gateway has another MAC address, and each
// guest goes by its own edge's.
func (n *fabric) gatewayDiffers() {
	n.T.Helper()
	for number, mac := range map[int]string{1: otherGatewayMAC, 2: harness.GatewayMAC} {
		n.Fact(n.edge(number).Name+" warns of the other's gateway", func() error {
			bgp, err := n.api(number).BGP().Info(n.Ctx)
			if all := strings.Join(problem.Texts(bgp.Problems), "\n"); err == nil && (!strings.Contains(all, mac) || !strings.Contains(all, n.edge(3-number).TEP.String())) {
				err = fmt.Errorf("problems: %q", all)
			}
			return err
		})
	}
	for _, family := range []int{4, 6} {
		for name, mac := range map[string]string{"red1": harness.GatewayMAC, "red2": otherGatewayMAC} {
			g := n.guests[name]
			n.Fact(g.Name+" reaches its own gateway", func() error { return harness.Ping(n.Ctx, g.Host, harness.GatewayAddr(0, family)) })
			n.LearnedMAC(g.Host, harness.GatewayAddr(0, family), mac)
		}
	}
}

// sticky: who is configured at a port stays there, whoever else says to be it.
func (n *fabric) sticky() {
	n.T.Helper()
	printer := n.guests["printer"]
	n.knows(2, printer, 1)
	n.Fact("edge2 and FRR know that it stays", func() error {
		_, err := n.used(2, api.BGPRouteQuery{MAC: overlay.MAC(printer.Ether())}, func(r api.BGPRouteInfo) bool { return r.Sticky })
		if err != nil {
			return err
		}
		out, err := n.edge(3).FRR.Do(n.Ctx, "show bgp l2vpn evpn route type macip")
		if err == nil && !strings.Contains(out, "sticky MAC") {
			err = errors.New(out)
		}
		return err
	})
	n.moves("printer", 2)
	n.Fact("edge2 drops what it says there, and counts that", func() error {
		n.speak(printer)
		drops, err := n.Drops("edge2")
		if err == nil && drops["static-mac-move"] == 0 {
			err = fmt.Errorf("%v", drops)
		}
		return err
	})
	n.knows(2, printer, 1)
	n.knows(3, printer, 1)
	n.moves("printer", 1)
	n.Pings(harness.Ways(n.guests["red2"], printer)...)
}

// duplicate: what moves five times within three minutes is frozen where it was, and thawed
// by command.
func (n *fabric) duplicate() {
	n.T.Helper()
	restless := n.guests["restless"]
	n.knows(2, restless, 1)
	frozen := func(number int) error {
		moves, err := n.api(number).BGP().Moves(n.Ctx)
		for _, f := range moves.Frozen {
			if f.MAC == overlay.MAC(restless.Ether()) {
				return err
			}
		}
		return errors.Join(fmt.Errorf("%+v", moves), err)
	}
	to := []int{2, 1}
	for i := range 12 {
		if frozen(1) == nil && frozen(2) == nil {
			break
		}
		n.moves("restless", to[i%2])
		n.Fact("edge1 or edge2 has noticed", func() error {
			if frozen(1) == nil || frozen(2) == nil {
				return nil
			}
			at := n.edge(to[i%2])
			return n.fdbHas(3, restless.Ether().String(), at.TEP)
		})
		n.speak(restless)
	}
	var number int
	n.Fact("an edge has frozen it", func() error {
		for _, number = range []int{1, 2} {
			if frozen(number) == nil {
				return nil
			}
		}
		return frozen(1)
	})
	n.Once("and says so in words", func() error {
		out, err := n.edge(number).Output(n.Ctx, harness.Program, "bgp", "moves", "--edge", n.edge(number).Edge.Name)
		if err == nil && (!strings.Contains(string(out), restless.Ether().String()) || !strings.Contains(string(out), "frozen")) {
			err = errors.New(string(out))
		}
		return err
	})
	for _, number := range []int{1, 2} {
		if frozen(number) == nil {
			n.Once("it is thawed on "+n.edge(number).Name, func() error {
				_, err := n.edge(number).Output(n.Ctx, harness.Program, "bgp", "thaw", "red", restless.Ether().String(), "--edge", n.edge(number).Edge.Name)
				return err
			})
		}
	}
	n.moves("restless", 3)
	n.moves("restless", 2)
	n.Fact("it is where it is", func() error {
		n.speak(restless)
		return errors.Join(harness.Ping(n.Ctx, n.guests["red1"].Host, restless.Addr(4)), harness.Ping(n.Ctx, n.guests["red3"].Host, restless.Addr(4)))
	})
	n.knows(1, restless, 2)
}
