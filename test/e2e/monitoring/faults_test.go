package monitoring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/dut/evpn"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// Faults of the edges with gateways, and the alerts that they raise, by instance.

// guestsMisbehave: they flood, pretend to be others, use what the policy forbids, and open more connections than
// there are ports.
func guestsMisbehave(n *harness.EgressNet) []string {
	n.T.Helper()
	flood, err := harness.OpenFrames(n.Red1.Host, topo.EndName, false)
	n.Must(err)
	n.T.Cleanup(flood.Close)
	spoof, err := harness.OpenFrames(n.Red2.Host, topo.EndName, false)
	n.Must(err)
	n.T.Cleanup(spoof.Close)
	discard := datagrams(n.Network, n.Red1.Host, "203.0.113.1:9")
	goesOn(n.Network, func(round int) {
		_ = flood.Send(frame(harness.BroadcastMAC, byte(round%60)))
		_ = flood.Send(frame([]byte{2, 0, 0, 0, 9, 9}, byte(round%60)))
		_ = spoof.Send(frame(harness.BroadcastMAC, 200))
		for range 3 {
			_, _ = discard.Write([]byte("discard"))
		}
	})
	for _, to := range []string{"203.0.113.1:7100", "203.0.113.1:7101", "203.0.113.9:7100", "192.168.9.2:7100"} {
		for range 14 {
			conn := datagrams(n.Network, n.Red1.Host, to)
			goesOn(n.Network, func(round int) {
				if round%20 == 0 {
					_, _ = conn.Write([]byte("who am I"))
				}
			})
		}
	}
	return []string{
		"SelvageLoop edge1", "SelvageLimitExceeded edge1", "SelvageTableFull edge1", "SelvageSpoofing edge1", "SelvagePolicyDrops edge1", "SelvageDrops edge1",
		"SelvageNATPortsLow edge2", "SelvageNATRefuses edge2", "SelvageNATLogLost edge2",
	}
}

// frame is one of a protocol that nobody speaks, from the address with that number.
func frame(to []byte, from byte) []byte {
	f := append(append([]byte{}, to...), 2, 0, 0, 0, 7, from, 0x88, 0xb5)
	return append(f, make([]byte, 46)...)
}

// gatewayIsLost: the second gateway is drained and taken back several times, then it is killed, and its host sends what no edge does.
func gatewayIsLost(n *harness.EgressNet) []string {
	n.T.Helper()
	for range 3 {
		_, err := n.Command(3, "egress", "drain")
		n.Must(err)
		n.Serving(2)
		_, err = n.Command(3, "egress", "undrain")
		n.Must(err)
		n.Serving(2, 3)
	}
	n.Edges["edge3"].Kill()
	strange, large := datagrams(n.Network, n.Hosts[2], "192.0.2.1:4789"), make([]byte, 3000)
	vxlan := binary.BigEndian.AppendUint64(nil, 0x08<<56|7777<<8)
	goesOn(n.Network, func(int) {
		_, _ = strange.Write(append(vxlan, frame(harness.BroadcastMAC, 1)...))
		_, _ = strange.Write(append(vxlan, large...))
	})
	return []string{
		"SelvageEdgeUnreachable edge3", "SelvagePathDown edge1", "SelvageReplicationDown edge2", "SelvageLastGateway edge1", "SelvageFailover edge1",
		"SelvageGatewayFlaps edge1", "SelvageTunnelsRefused edge1", "SelvagePacketsTooBig edge1",
	}
}

// configurationsAreWrong: edge1 has a remote and a port that are not there, a group without a gateway, and no flow cache; edge2 cannot
// read its own.
func configurationsAreWrong(n *harness.EgressNet) []string {
	n.T.Helper()
	n.Rewrite("edge1",
		"  remotes:\n", "  flowCache: {enabled: false}\n  remotes:\n  - {name: nowhere, addresses: [203.0.113.77]}\n",
		"    - {name: gws, ", "    - {name: lonely, members: [nowhere]}\n    - {name: gws, ",
		"  ports:\n", "  ports:\n  - {name: gone, interface: gone0, segment: red}\n",
	)
	n.Must(n.Reload("edge2", "spec: nonsense\n"))
	return []string{
		"SelvageRemoteUnreachable edge1", "SelvageNoGateway edge1", "SelvagePortDown edge1", "SelvageFlowCacheOff edge1",
		"SelvageEdgeBroken edge1", "SelvageEdgeDegraded edge1", "SelvageConfigurationRefused edge2",
	}
}

// Faults of the edges with BGP.

// hostIsRestless: a MAC address moves too often.
func hostIsRestless(n *harness.Network, f *evpn.Fabric) []string {
	n.T.Helper()
	restless := f.Guests[2]
	n.Fact("a MAC address is frozen", func() error {
		for _, to := range []*evpn.Edge{f.Edges[1], f.Edges[0]} {
			if err := restless.Move(n.Ctx, to); err != nil {
				return err
			}
			err := await.Within(n.Ctx, time.Second, "the edges to agree", func() error { return behind(n, restless, to) })
			if err != nil {
				break // frozen
			}
		}
		for _, e := range f.Edges {
			if moves, err := n.Ask(e.Name).BGP().Moves(n.Ctx); err != nil || len(moves.Frozen) > 0 {
				return err
			}
		}
		return errors.New("it is not")
	})
	return []string{"SelvageMACFrozen"}
}

// behind: the other edge has a guest at this one.
func behind(n *harness.Network, g *evpn.Guest, at *evpn.Edge) error {
	for _, e := range g.At().Fabric.Edges {
		if e == at {
			continue
		}
		fdb, err := n.Ask(e.Name).FDB(n.Ctx, api.EntryQuery{})
		if err != nil {
			return err
		}
		for _, entry := range fdb.List {
			if entry.MAC.String() == g.MAC.String() && entry.Remote == at.TEP {
				return nil
			}
		}
	}
	return errors.New("not yet")
}

// reflectorIsLost, and the second edge's underlay.
func reflectorIsLost(n *harness.Network, f *evpn.Fabric) []string {
	n.T.Helper()
	n.Must(f.Edges[1].Down(topo.UnderlayName))
	f.Reflectors[0].FRR.Kill()
	return []string{"SelvageBGPIsolated leaf2", "SelvageBGPSessionDown leaf2", "SelvageBGPStale leaf2", "SelvageIsolated leaf2"}
}

// edgeRestarts again and again, each time seen by Prometheus.
func edgeRestarts(n *harness.Network, f *evpn.Fabric, s *server) []string {
	n.T.Helper()
	e, seen := f.Edges[0], 0.0
	for range 4 {
		n.Fact("Prometheus sees the edge started anew", func() error {
			started, err := s.ask(`selvage_start_time_seconds{instance="leaf1"}`)
			if err != nil || len(started) != 1 || started[0].value == seen || started[0].value >= float64(time.Now().Unix()) { // it is in seconds
				return errors.Join(fmt.Errorf("%v", started), err)
			}
			seen = started[0].value
			return nil
		})
		e.Edge.Kill()
		<-e.Edge.Command.Done()
		n.Must(e.Path.Up(n.Ctx, e))
	}
	return []string{"SelvageEdgeRestarts leaf1", "SelvageEdgeNotReady leaf2"}
}
