package experiment

import (
	"context"
	"errors"
	"sync"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/topo"
)

// Network is a target with hosts and links of its own. All of a round are up at once: so
// each slice finds its path complete, and the others only wait (the metric idle_busy of
// every sample shows it).
type Network struct {
	Net  *topo.TwoHosts
	Path *topo.Path
	// control is what feeds the path, nil where nothing does.
	Control *dut.Control
}

// Labs are all hosts and links that were made, also by builders side by side.
type Labs struct {
	mu  sync.Mutex
	all []*topo.Lab
}

// Make makes an empty lab.
func (l *Labs) Make(ctx context.Context, name string) (*topo.Lab, error) {
	lab, err := topo.New(ctx, name)
	if err == nil {
		l.mu.Lock()
		l.all = append(l.all, lab)
		l.mu.Unlock()
	}
	return lab, err
}

// Close removes everything, side by side.
func (l *Labs) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	errs := make([]error, len(l.all))
	var wait sync.WaitGroup
	for i, lab := range l.all {
		wait.Go(func() { errs[i] = lab.Close() })
	}
	wait.Wait()
	l.all = nil
	return errors.Join(errs...)
}

// Topology is the picture of the standard topology.
func Topology(n *topo.TwoHosts) result.Topology {
	return result.Topology{
		Nodes: []result.Node{
			{Name: "client", Role: "client", Addrs: []string{n.ClientAddr(4).String(), n.ClientAddr(6).String()}},
			{Name: "host A", Role: "host", Addrs: []string{n.TEPA.String()}},
			{Name: "host B", Role: "host", Addrs: []string{n.TEPB.String()}},
			{Name: "server", Role: "server", Addrs: []string{n.ServerAddr(4).String(), n.ServerAddr(6).String()}},
		},
		Links: []result.Link{
			{A: "client", B: "host A", Role: "access", MTU: n.Options.InnerMTU},
			{A: "host A", B: "host B", Role: "underlay", MTU: n.Options.UnderlayMTU},
			{A: "host B", B: "server", Role: "access", MTU: n.Options.InnerMTU},
		},
	}
}
