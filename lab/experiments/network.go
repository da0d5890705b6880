package experiments

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/topo"
)

// network is a target with hosts and links of its own. All of a round are up at once: so
// each slice finds its path complete, and the others only wait (the metric idle_busy of
// every sample shows it).
type network struct {
	net  *topo.TwoHosts
	path *topo.Path
	// control is what feeds the path, nil where nothing does.
	control *topo.Control
}

// labs are all hosts and links that were made, also by builders side by side.
type labs struct {
	mu  sync.Mutex
	all []*topo.Lab
}

func (l *labs) make(ctx context.Context, name string) (*topo.Lab, error) {
	lab, err := topo.New(ctx, name)
	if err == nil {
		l.mu.Lock()
		l.all = append(l.all, lab)
		l.mu.Unlock()
	}
	return lab, err
}

// close removes everything, side by side.
func (l *labs) close() error {
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

// build makes the network of a target and starts its data path.
func (c *Ab) build(ctx context.Context, all *labs, name string) (*network, error) {
	n, err := c.hosts(ctx, all, name)
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", name, err)
	}
	path, control, err := c.startBy(ctx, n, name)
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", name, err)
	}
	return &network{net: n, path: path, control: control}, nil
}

// startBy starts a target's data path by the control plane that was asked for. Without
// a tunnel there is nothing to tell.
func (c *Ab) startBy(ctx context.Context, n *topo.TwoHosts, name string) (*topo.Path, *topo.Control, error) {
	if c.Control == evpn {
		switch c.path(name) {
		case "kernel":
			return n.KernelEVPN(ctx, kernelOptions())
		case "selvage":
			return n.SelvageEVPN(ctx, c.selvageOptions(name))
		}
	}
	path, err := c.start(ctx, n, name)
	return path, nil, err
}

func kernelOptions() topo.KernelOptions {
	return topo.KernelOptions{NoUDPCsum: true, UDP6ZeroCsumTx: true, UDP6ZeroCsumRx: true}
}

func (c *Ab) selvageOptions(name string) topo.SelvageOptions {
	return topo.SelvageOptions{Binary: c.programs.of(name, c.SelvageBinary), Encapsulation: c.encapsulation(name)}
}

// hosts makes hosts and links with their offloads, without a data path.
func (c *Ab) hosts(ctx context.Context, all *labs, name string) (*topo.TwoHosts, error) {
	lab, err := all.make(ctx, "ab "+name)
	if err != nil {
		return nil, err
	}
	n, err := topo.NewTwoHosts(ctx, lab, topo.TwoHostsOptions{
		UnderlayMTU: c.UnderlayMTU, InnerMTU: c.InnerMTU, UnderlayFamily: c.Family, BridgeNetfilter: c.BridgeNetfilter, Routed: c.Routed,
	})
	if err != nil {
		return nil, err
	}
	return n, setFeatures(n, c.Offload, roles()...)
}

// start brings a target's data path up and waits until it carries traffic. All
// tunnels send the same bytes: UDP checksum zero (RFC 7348 section 5, RFC 6935).
func (c *Ab) start(ctx context.Context, n *topo.TwoHosts, name string) (*topo.Path, error) {
	switch c.path(name) {
	case "wire":
		path, err := n.Wire(ctx, topo.EndOptions{MTU: c.PlainMTU})
		if err != nil {
			return nil, err
		}
		return path, setFeatures(n, c.Offload, "client", "server") // it has a link of its own
	case "plain":
		return n.Plain(ctx, topo.EndOptions{MTU: c.PlainMTU})
	case "limit":
		return n.Limit(ctx, topo.EndOptions{MTU: c.PlainMTU})
	case "kernel":
		return n.Kernel(ctx, kernelOptions())
	case "ovs":
		return n.OVS(ctx, topo.OVSOptions{Encapsulation: c.encapsulation(name)})
	case "selvage":
		return n.Selvage(ctx, c.selvageOptions(name))
	}
	return nil, fmt.Errorf("there is no target %q", name)
}

// environment records the machine with a network as every target gets one,
// before a data path changes anything in it.
func (c *Ab) environment(ctx context.Context, version string) (env result.Environment, err error) {
	var all labs
	defer func() { err = removed(ctx, err, all.close()) }()
	n, err := c.hosts(ctx, &all, "environment")
	if err != nil {
		return env, err
	}
	if env, err = measure.Environment(ctx, n, version); err == nil {
		env.MTU["plain"] = c.PlainMTU
	}
	return env, err
}
