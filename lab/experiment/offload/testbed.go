package offload

import (
	"context"
	"errors"
	"fmt"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/topo"
)

// switchedTestbed is a target with an encapsulation, with hosts and links of its own. It stays
// up from the first sample to the last, and only its offloads change.
type switchedTestbed struct {
	net        *topo.TwoHosts
	path       *topo.Path
	ledger     *topo.Ledger
	interfaces []switched
	state      string // of the offloads, "" as they came
	inForce    map[string]map[string]string
}

// switchedTestbeds are all that a run has built.
type switchedTestbeds struct {
	labs   []*topo.Lab
	byName map[string]*switchedTestbed
}

func streamTestbed(target string, e overlay.Encapsulation) string { return target + " " + string(e) }

// close sets all offloads as they were and removes everything.
func (all *switchedTestbeds) close() error {
	var errs []error
	for _, b := range all.byName {
		errs = append(errs, b.ledger.Close())
	}
	for _, lab := range all.labs {
		errs = append(errs, lab.Close())
	}
	return errors.Join(errs...)
}

// buildTestbed makes the network of a target and starts its data path. The error is
// dut.ErrNoDevice where the kernel has no device of the encapsulation.
func (c *Command) buildTestbed(ctx context.Context, all *switchedTestbeds, target string, e overlay.Encapsulation) (b *switchedTestbed, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("target %s, %s: %w", target, e, err)
		}
	}()
	lab, err := topo.New(ctx, Name+" "+streamTestbed(target, e))
	if err != nil {
		return nil, err
	}
	all.labs = append(all.labs, lab)
	b = &switchedTestbed{}
	b.net, err = topo.NewTwoHosts(ctx, lab, topo.TwoHostsOptions{
		UnderlayMTU: c.UnderlayMTU, InnerMTU: c.innerMTU(), UnderlayFamily: c.Family, BridgeNetfilter: topo.BridgeNetfilterOff, Pairs: c.Pairs,
	})
	if err != nil {
		return nil, err
	}
	var devices []string
	if target == "kernel" {
		devices = []string{dut.TunnelName, "br0"}
		half := dut.KernelTunnel{Encapsulation: e}
		b.path, err = b.net.Build(ctx, half, half)
	} else {
		b.path, err = dut.Selvage(ctx, b.net, dut.SelvageOptions{Binary: c.SelvageBinary, Encapsulation: e})
	}
	if err != nil {
		return nil, err
	}
	b.interfaces = switches(b.net, devices, c.Where)
	if b.ledger, err = topo.NewLedger(lab); err != nil {
		return nil, err
	}
	all.byName[streamTestbed(target, e)] = b
	return b, nil
}

// enter puts the bed into a state of the offloads and waits until its guests reach each other
// again: some drivers start anew when one changes.
func (b *switchedTestbed) enter(ctx context.Context, state string) (err error) {
	if b.state != state {
		b.state = "" // until it is known to be the new one
		if b.inForce, err = enterState(b.ledger, b.interfaces, state); err != nil {
			return err
		}
		b.state = state
	}
	for _, p := range b.net.Pairs {
		if err := p.Client.Reach(ctx, p.ServerAddr(experiment.InnerFamily)); err != nil {
			return err
		}
	}
	return nil
}
