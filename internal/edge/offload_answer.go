package edge

import (
	"errors"
	"net/netip"

	"github.com/selvage/selvage/internal/offload"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
)

// answerOffloadProbes has each TEP answer the remotes, if the configuration asks for that.
func (e *edge) answerOffloadProbes() {
	e.mu.RLock()
	config := e.config
	e.mu.RUnlock()
	o, p := &e.offloads, config.Underlay.OffloadProbe
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
			errs = append(errs, e.answerOffloadsAt(local, config))
		}
	}
	e.reportProblem(answerOffloads, errors.Join(errs...))
}

func (e *edge) answerOffloadsAt(local netip.Addr, config overlay.Edge) error {
	o := &e.offloads
	if o.responders[local] == nil {
		r, err := offload.Listen(local, o.port, &o.turn, e.ns.enter, e.log)
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
