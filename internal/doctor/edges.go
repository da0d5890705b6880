package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/host"
)

// EdgeAnswer is what one edge says of itself.
type EdgeAnswer struct {
	Status api.Status
	Ports  []api.PortInfo
	TEPs   []api.TEPInfo
	Drops  []api.DropInfo
}

// addEdges adds the edges of this network namespace with a tunnel for each segment.
func (inv *Inventory) addEdges(ctx context.Context, edges Edges, proc string) {
	own, err := netNS(proc)
	if err != nil {
		inv.unknown("edges", "%v", err)
		return
	}
	answers, err := edges.Edges(ctx)
	if err != nil {
		inv.unknown("edges", "%v", err)
	}
	for _, a := range answers {
		if !inv.here(a.Status, own) {
			continue
		}
		e := Edge{Name: a.Status.Name, Problems: a.Status.Problems, Drops: map[string]uint64{}}
		for _, d := range a.Drops {
			if d.Packets > 0 {
				e.Drops[d.Reason] = d.Packets
			}
		}
		inv.Edges = append(inv.Edges, e)
		for _, s := range a.Status.Segments {
			inv.Tunnels = append(inv.Tunnels, segmentTunnel(a, s))
		}
	}
}

// netNS is the inode of the network namespace of this process.
func netNS(proc string) (inode uint64, err error) {
	name, err := os.Readlink(filepath.Join(proc, "self/ns/net"))
	if err != nil {
		return 0, fmt.Errorf("network namespace: %w", err)
	}
	if _, err := fmt.Sscanf(name, "net:[%d]", &inode); err != nil {
		return 0, fmt.Errorf("network namespace %q: %w", name, err)
	}
	return inode, nil
}

// here reports whether an edge is in the network namespace: sockets are of the machine.
// Of an edge of an older build, which does not say, the TEP has to be an address of ours.
func (inv *Inventory) here(s api.Status, own uint64) bool {
	if s.NetNS != 0 {
		return s.NetNS == own
	}
	return slices.ContainsFunc(inv.Links, func(l Link) bool {
		return slices.ContainsFunc(l.Addrs, func(p netip.Prefix) bool { return p.Addr() == s.TEP })
	})
}

func segmentTunnel(a EdgeAnswer, s api.SegmentInfo) Tunnel {
	t := Tunnel{
		Name:   a.Status.Name + "/" + s.Name,
		Source: fromSelvage,
		Tunnel: host.Tunnel{Encapsulation: string(s.Encapsulation), VNI: uint32(s.VNI), Port: s.UDPPort, Local: a.Status.TEP},
		Up:     true,
		Ports:  []string{}, Answers: s.ClampMSS,
	}
	for _, p := range a.Ports {
		if p.Segment == s.Name && p.Ifindex != 0 {
			t.Ports = append(t.Ports, p.Interface)
		}
	}
	for _, tep := range a.TEPs {
		if slices.Contains(tep.Segments, s.Name) {
			t.Remotes = append(t.Remotes, tep.Address)
		}
	}
	return t
}

// sockets asks the edges that listen in a directory.
type sockets struct{ dir string }

// edgeTimeout bounds the answers of one edge.
const edgeTimeout = 5 * time.Second

// Edges asks every edge. One that does not answer is an error beside the
// answers of the others.
func (s sockets) Edges(ctx context.Context) ([]EdgeAnswer, error) {
	names, err := api.Running(s.dir)
	if err != nil {
		return nil, err
	}
	var answers []EdgeAnswer
	for _, name := range names {
		a, failed := askEdge(ctx, api.Dial(s.dir, name))
		if failed != nil {
			err = failed
			continue
		}
		answers = append(answers, a)
	}
	return answers, err
}

func askEdge(ctx context.Context, c *api.Client) (a EdgeAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, edgeTimeout)
	defer cancel()
	if a.Status, err = c.Status(ctx); err != nil {
		return a, err
	}
	if a.Ports, err = c.Ports(ctx); err != nil {
		return a, err
	}
	if a.TEPs, err = c.TEPs(ctx); err != nil {
		return a, err
	}
	a.Drops, err = c.Drops(ctx)
	return a, err
}
