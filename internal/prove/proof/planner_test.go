package proof

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/prove"
)

var (
	own    = netip.MustParseAddr("192.0.2.1")
	remote = netip.MustParseAddr("192.0.2.2")
	hostA  = netip.MustParseAddr("10.0.0.7")
)

// someFacts are of an edge with one segment, one remote and a host behind it.
func someFacts() Facts {
	mac := overlay.MAC{2, 0, 0, 0, 0, 7}
	return Facts{
		Config: overlay.Edge{
			Underlay: overlay.Underlay{Interfaces: []string{"eth0"}, TEP: own},
			Segments: []overlay.Segment{{Name: "blue", VNI: 100, Tunnel: overlay.Tunnel{Encapsulation: overlay.VXLAN, UDPPort: 4789}, Remotes: []netip.Addr{remote}}},
		},
		Self: own,
		Paths: []Path{{
			TunnelPath: plan.TunnelPath{Pair: overlay.Pair{Local: own, Remote: remote}, Edge: remote, Ifindex: 2, MTU: 1500, NextMAC: overlay.MAC{2, 0, 0, 0, 0, 2}},
			Life:       bfd.Up, EndpointLife: bfd.Up, MTUState: "confirmed",
		}},
		Neighbours: []datapath.Neighbour{{Segment: "blue", Addr: hostA, MAC: mac, Remote: remote, Origin: datapath.OriginBGP}},
		FDB: []datapath.FDBEntry{
			{Segment: "blue", MAC: mac, Remote: remote, Origin: datapath.OriginBGP},
			{Segment: "blue", MAC: prove.MAC(remote), Remote: remote, Origin: datapath.OriginLearned},
		},
	}
}

// All hosts that BGP promises, and the remote itself, are asked by each path.
func TestProofOfASegment(t *testing.T) {
	for _, what := range []string{"", "blue", hostA.String()} {
		proofs, err := newPlanner(someFacts()).plan(what)
		if err != nil || len(proofs) != 1 {
			t.Fatalf("%q: %d proofs, %v", what, len(proofs), err)
		}
		p := proofs[0]
		var kinds []string
		for _, target := range p.targets {
			kinds = append(kinds, target.kind)
		}
		if want := []string{TargetHost, TargetEdge}; !slices.Equal(kinds, want) || p.tunnel.Targets[0].Addr != hostA {
			t.Errorf("%q: asks %q %v, want %q", what, kinds, p.tunnel.Targets, want)
		}
		if len(p.tunnel.Paths) != 1 || p.tunnel.Size != 1450 || p.known.NoWay != "" || !p.known.Alive || !p.known.Ours || p.known.Hosts != 1 {
			t.Errorf("%q: %+v, size %d", what, p.known, p.tunnel.Size)
		}
		if text := strings.Join(p.control, "\n"); !strings.Contains(text, "1500, confirmed") || !strings.Contains(text, "1 by BGP, 0 learned, 0 configured") {
			t.Errorf("%q: control says %s", what, text)
		}
	}
}

// What cannot be reached says why, and what is not known is the asker's mistake.
func TestNothingToProve(t *testing.T) {
	f := someFacts()
	f.Paths[0].NextMAC = overlay.MAC{}
	proofs, err := newPlanner(f).plan("blue")
	if err != nil || len(proofs) != 1 || len(proofs[0].tunnel.Paths) != 0 || !strings.Contains(proofs[0].known.NoWay, "does not answer") {
		t.Errorf("without an answer of the next hop: %+v, %v", proofs, err)
	}
	f.Paths = nil
	if proofs, err = newPlanner(f).plan("blue"); err != nil || !strings.Contains(proofs[0].known.NoWay, "no route to 192.0.2.2") {
		t.Errorf("without a route: %+v, %v", proofs, err)
	}
	for what, want := range map[string]string{"red": "segments: blue", "10.9.0.0/16": "no tunnel leads to 10.9.0.0/16"} {
		var wrong api.BadRequest
		if _, err := newPlanner(f).plan(what); !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
}
