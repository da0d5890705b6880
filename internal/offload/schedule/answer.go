package schedule

import (
	"errors"
	"net/netip"

	"github.com/selvage/selvage/internal/offload"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
)

// answer has each TEP answer the remotes, if the configuration asks for that.
func (o *Probes) answer() {
	config := o.options.Edge.Snapshot().Config
	p := config.Underlay.OffloadProbe
	var errs []error
	wanted := make(map[netip.Addr]bool)
	for _, t := range config.Underlay.Local() {
		wanted[t.Addr] = p != nil
	}
	for local, r := range o.responders {
		if !wanted[local] || p.Port != o.port {
			errs = append(errs, r.Close())
			delete(o.responders, local)
		}
	}
	if p != nil {
		o.port = p.Port
		for local := range wanted {
			errs = append(errs, o.answerAt(local, config))
		}
	}
	o.options.Report(answerProbes, errors.Join(errs...))
}

func (o *Probes) answerAt(local netip.Addr, config overlay.Edge) error {
	if o.responders[local] == nil {
		r, err := offload.Listen(local, o.port, &o.turn, o.options.Edge.Enter, o.options.Log)
		if err != nil {
			return err
		}
		o.responders[local] = r
	}
	var remotes []netip.Addr
	for _, pair := range plan.Pairs(config) {
		remotes = append(remotes, pair.Remote)
	}
	o.responders[local].Set(remotes)
	return nil
}
