package failover

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
	"github.com/selvage/selvage/internal/writer"
)

// tables are those of a data path, which cannot be steered while failing.
type tables struct {
	failing error
	down    []int // of each Steer: the interfaces of paths that are down, 0 where the link is
}

func (t *tables) ApplyIn(next fib.Tables, steps datapath.Steps) error { steps.Latest(next); return nil }
func (t *tables) Steer(teps []fib.TEP, _ []fib.PathPolicy) error {
	for _, one := range teps {
		if one.Down {
			t.down = append(t.down, one.Ifindex)
		}
	}
	return t.failing
}

// unwatched is liveness where nothing is watched.
type unwatched struct{}

func (unwatched) Results() map[overlay.Pair]bfd.Result { return nil }
func (unwatched) Since() time.Time                     { return time.Time{} }
func (unwatched) Dead() map[netip.Addr]string          { return nil }
func (unwatched) SetService(bfd.Service)               {}

// A link that is lost is left, one that carries nothing changes nothing, and what cannot be steered is a fault until it can.
func TestLinkLost(t *testing.T) {
	tep, far := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	config := overlay.Edge{
		Underlay: overlay.Underlay{Interfaces: []string{"eth0", "eth1"}, TEP: tep},
		Segments: []overlay.Segment{{Name: "blue", VNI: 100, Tunnel: overlay.Tunnel{Encapsulation: overlay.VXLAN, UDPPort: 4789}, Remotes: []netip.Addr{far}}},
	}
	state := host.State{
		TEPs:   map[netip.Addr]bool{tep: true},
		Links:  map[string]host.Link{"eth0": {Name: "eth0", Index: 2, Up: true}, "eth1": {Name: "eth1", Index: 3, Up: true}, "veth0": {Name: "veth0", Index: 4, Up: true}},
		Routes: map[overlay.Pair]host.Path{}, Vias: map[overlay.Pair][]overlay.Via{},
	}
	pair := overlay.Pair{Local: tep, Remote: far}
	for name, link := range map[string]int{"eth0": 2, "eth1": 3} {
		one := pair
		one.Via = overlay.Via{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(link)}), Interface: name}
		state.Vias[pair] = append(state.Vias[pair], one.Via)
		state.Routes[one] = host.Path{NextHop: host.NextHop{Ifindex: link, Addr: one.Via.Addr}, Interface: name, MTU: 1550, NextMAC: overlay.MAC{2}, Weight: 1}
	}
	log, faults := slog.New(slog.DiscardHandler), map[string]error{}
	report := func(what string, err error) { faults[what] = err }
	replication := gateway.NewReplication(gateway.ReplicationOptions{Log: log, Report: report})
	role := gateway.NewRole(log, replication)
	w := writer.New(writer.Options{Edge: config, Role: role, Liveness: unwatched{}})
	ctx, end := context.WithCancel(t.Context())
	defer end()
	go w.Run(ctx, func(err error) { t.Error(err) })
	dp := &tables{}
	p, err := w.Plan(writer.Change{
		DataPath: &writer.DataPath{Tables: dp, Paths: dp}, Snapshot: writer.Snapshot{Edge: config, HostState: state},
		Plan: func(writer.Selection) (fib.Tables, []problem.Problem) { return fib.Tables{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Apply(p); err != nil {
		t.Fatal(err)
	}
	f := New(Options{Writer: w, Role: role, Replication: replication, Log: log, Report: report})
	f.LinkLost(4)
	if len(dp.down) != 0 {
		t.Errorf("down are %v after the loss of a port's link", dp.down)
	}
	dp.failing = errors.New("so the test wants it")
	f.LinkLost(3)
	if !slices.Equal(dp.down, []int{0}) || faults[steerProblem] == nil {
		t.Errorf("down are %v, faults %v, want the path by the lost link", dp.down, faults)
	}
	dp.failing = nil
	f.Steer()
	if !slices.Equal(dp.down, []int{0, 0}) || faults[steerProblem] != nil {
		t.Errorf("down are %v, faults %v, want the fault over", dp.down, faults)
	}
}
