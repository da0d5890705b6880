package router

import (
	"context"
	"errors"

	"github.com/selvage/selvage/lab/limit"
)

// Limit hands frames from uplink to underlay link and back as they are, by
// XDP: the machine's limit.
type Limit struct{}

// Describe is one line for reports.
func (Limit) Describe() string { return "XDP redirect without any work, no tunnel" }

// Up joins each uplink with the underlay link of its number.
func (Limit) Up(_ context.Context, t *Transit) (*Forwarding, error) {
	var wires []*limit.Wire
	f := &Forwarding{stop: func(context.Context) error {
		var errs []error
		for _, w := range wires {
			errs = append(errs, w.Close())
		}
		return errors.Join(errs...)
	}}
	for i := range t.Uplinks {
		up, err := t.Device.Index(t.Uplinks[i].Device)
		if err != nil {
			return f, err
		}
		under, err := t.Device.Index(t.Underlays[i].Device)
		if err != nil {
			return f, err
		}
		err = t.Device.Do(func() error {
			w, err := limit.Join(up, under)
			if err == nil {
				wires = append(wires, w)
			}
			return err
		})
		if err != nil {
			return f, err
		}
	}
	return f, nil
}

// AcceptBack has the device's underlay links take back what the tester sends by XDP_TX,
// until stop. Links that have an XDP program do so by themselves.
func (t *Transit) AcceptBack() (stop func() error, err error) {
	var wires []*limit.Wire
	stop = func() error {
		var errs []error
		for _, w := range wires {
			errs = append(errs, w.Close())
		}
		return errors.Join(errs...)
	}
	for _, k := range t.Underlays {
		index, err := t.Device.Index(k.Device)
		if err == nil {
			err = t.Device.Do(func() error {
				w, err := limit.Accept(index)
				if err == nil {
					wires = append(wires, w)
				}
				return err
			})
		}
		if err != nil {
			return nil, errors.Join(err, stop())
		}
	}
	return stop, nil
}
