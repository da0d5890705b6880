package experiments

import (
	"context"
	"errors"
	"fmt"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
)

// switchedBed is a contender with an encapsulation, with hosts and links of its own. It stays
// up from the first sample to the last, and only its offloads change.
type switchedBed struct {
	net        *topo.TwoHosts
	path       *topo.Path
	ledger     *topo.Ledger
	interfaces []switched
	state      string // of the offloads, "" as they came
	inForce    map[string]map[string]string
}

// switchedBeds are all that a run has built.
type switchedBeds struct {
	labs   []*topo.Lab
	byName map[string]*switchedBed
}

func streamBed(contender string, e overlay.Encapsulation) string { return contender + " " + string(e) }

// close sets all offloads as they were and removes everything.
func (all *switchedBeds) close() error {
	var errs []error
	for _, b := range all.byName {
		errs = append(errs, b.ledger.Close())
	}
	for _, lab := range all.labs {
		errs = append(errs, lab.Close())
	}
	return errors.Join(errs...)
}

// buildBed makes the network of a contender and starts its data path. The error is
// topo.ErrNoDevice where the kernel has no device of the encapsulation.
func (c *Offload) buildBed(ctx context.Context, all *switchedBeds, contender string, e overlay.Encapsulation) (b *switchedBed, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("contender %s, %s: %w", contender, e, err)
		}
	}()
	lab, err := topo.New(ctx, stats.Offload+" "+streamBed(contender, e))
	if err != nil {
		return nil, err
	}
	all.labs = append(all.labs, lab)
	b = &switchedBed{}
	b.net, err = topo.NewTwoHosts(ctx, lab, topo.TwoHostsOptions{
		UnderlayMTU: c.UnderlayMTU, InnerMTU: c.innerMTU(), UnderlayFamily: c.Family, BridgeNetfilter: topo.BridgeNetfilterOff, Pairs: c.Pairs,
	})
	if err != nil {
		return nil, err
	}
	var devices []string
	if contender == "kernel" {
		devices = []string{topo.TunnelName, "br0"}
		half := topo.KernelTunnel{Encapsulation: e}
		b.path, err = b.net.Build(ctx, half, half)
	} else {
		b.path, err = b.net.Selvage(ctx, topo.SelvageOptions{Binary: c.SelvageBinary, Encapsulation: e})
	}
	if err != nil {
		return nil, err
	}
	b.interfaces = switches(b.net, devices, c.Where)
	if b.ledger, err = topo.NewLedger(lab); err != nil {
		return nil, err
	}
	all.byName[streamBed(contender, e)] = b
	return b, nil
}

// enter puts the bed into a state of the offloads and waits until its guests reach each other
// again: some drivers start anew when one changes.
func (b *switchedBed) enter(ctx context.Context, state string) (err error) {
	if b.state != state {
		b.state = "" // until it is known to be the new one
		if b.inForce, err = enterState(b.ledger, b.interfaces, state); err != nil {
			return err
		}
		b.state = state
	}
	for _, p := range b.net.Pairs {
		if err := p.Client.Reach(ctx, p.ServerAddr(innerFamily)); err != nil {
			return err
		}
	}
	return nil
}
