package fabric

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/dut/evpn"
	"github.com/selvage/selvage/lab/topo"
)

// selvage is edges of Selvage.
type selvage struct {
	*Fabric
}

// Name is "selvage".
func (*selvage) Name() string { return "selvage" }

// Describe is one line for reports.
func (s *selvage) Describe() string {
	return fmt.Sprintf("Selvage edges; %s, and between edges every %s × 3", s.plane(), s.Fabric.Options.Liveness)
}

func (s *selvage) inner() evpn.Selvage {
	return evpn.Selvage{Binary: s.Fabric.Options.Binary, Liveness: s.Fabric.Options.Liveness.String(), Change: s.change}
}

// Up starts an edge.
func (s *selvage) Up(ctx context.Context, e *evpn.Edge) error { return s.inner().Up(ctx, e) }

// Down stops an edge.
func (s *selvage) Down(ctx context.Context, e *evpn.Edge) error { return s.inner().Down(ctx, e) }

// change adds to a configuration what of this fabric is not of each: MAC addresses may move
// as often as they like, the service's route, and the second link.
func (s *selvage) change(e *evpn.Edge, config string) string {
	config = strings.Replace(config, "  bgp:\n", "  bgp:\n    duplicates: {moves: 0}\n", 1)
	if s.Fabric.Options.Uplinks > 1 {
		config = strings.Replace(config, "interfaces: ["+topo.UnderlayName+"]", "interfaces: ["+topo.UnderlayName+", "+secondUplink+"]", 1)
	}
	if e.Index > edgeB {
		return config
	}
	by := evpn.Addr(1, e.Index+1, 4)
	route := fmt.Sprintf("    routes: [{prefix: %s/32, via: [{address: %q}]}]\n", serviceAddr, by)
	return strings.Replace(config, "  - name: "+dut.RouterName+"\n", "  - name: "+dut.RouterName+"\n"+route, 1)
}

// serve has nothing to do: the route is configured.
func (*selvage) serve(context.Context, *evpn.Edge, netip.Addr) error { return nil }

// kill ends an edge with its programs and maps.
func (*selvage) kill(e *evpn.Edge) error {
	if err := e.Edge.RemovePins(); err != nil {
		return err
	}
	if err := syscall.Kill(-e.Edge.Command.PID(), syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill edge %s: %w", e.Name, err)
	}
	return nil
}

func (s *selvage) again(ctx context.Context, e *evpn.Edge) error {
	<-e.Edge.Command.Done()
	return s.inner().Up(ctx, e)
}

// paths are the routes that an edge uses.
func (*selvage) paths(ctx context.Context, e *evpn.Edge) (int, error) {
	var routes []struct {
		Prefix netip.Prefix `json:"prefix"`
		Used   bool         `json:"used"`
	}
	if err := e.Edge.Document(ctx, "/v1/bgp/routes?type=prefix&ip="+serviceAddr.String()+"/32", &routes); err != nil {
		return 0, err
	}
	found := 0
	for _, r := range routes {
		if r.Used && r.Prefix == netip.PrefixFrom(serviceAddr, 32) {
			found++
		}
	}
	return found, nil
}

// noticed is when an edge found another one dead, by its log: of a path that is gone, since
// BGP says so by now, nothing else tells.
func (*selvage) noticed(_ context.Context, e *evpn.Edge, since time.Time) (time.Time, error) {
	log, err := os.ReadFile(e.Edge.Command.Log)
	if err != nil {
		return time.Time{}, err
	}
	for line := range strings.Lines(string(log)) {
		if !strings.Contains(line, `msg="liveness of a remote"`) || !strings.Contains(line, " state=down ") {
			continue
		}
		stamp, _, _ := strings.Cut(strings.TrimPrefix(line, "time="), " ")
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil {
			return time.Time{}, fmt.Errorf("log of edge %s: %w", e.Name, err)
		}
		if !at.Before(since.Truncate(time.Millisecond)) { // that is what logs have
			return at, nil
		}
	}
	return time.Time{}, nil
}

// whole wants every path to another edge up, by each of its links, and every neighbour to have said all.
func (s *selvage) whole(ctx context.Context, e *evpn.Edge) error {
	var bgp struct {
		Neighbours []struct {
			Name     string `json:"name"`
			State    string `json:"state"`
			Complete bool   `json:"complete"`
			Why      string `json:"why"`
		} `json:"neighbours"`
		Routes struct {
			Stale int `json:"stale"`
		} `json:"routes"`
		Adopted int `json:"adopted"`
	}
	if err := e.Edge.Document(ctx, "/v1/bgp", &bgp); err != nil {
		return err
	}
	for _, n := range bgp.Neighbours {
		if n.State != "established" || !n.Complete {
			return fmt.Errorf("neighbour %s is %s, complete %t: %s", n.Name, n.State, n.Complete, n.Why)
		}
	}
	if bgp.Routes.Stale+bgp.Adopted > 0 {
		return fmt.Errorf("%d routes are stale and %d of a former process", bgp.Routes.Stale, bgp.Adopted)
	}
	return errors.Join(e.Edge.PathsUp(ctx, (edges-1)*max(1, s.Fabric.Options.Uplinks)))
}
