package host

import (
	"errors"
	"fmt"
	"slices"
)

// Offload is the state that one feature of an interface shall have, by ethtool's name.
type Offload struct {
	Interface string `json:"interface"`
	Feature   string `json:"feature"`
	On        bool   `json:"on"`
}

// heldOffload is a feature that was the other way round before.
type heldOffload struct {
	Offload
	Ifindex int `json:"ifindex"`
}

// ensureOffloads makes the features of want be as wanted. What an operator changed since
// then stays.
func (h *Host) ensureOffloads(want []Offload) error {
	var errs []error
	for _, held := range slices.Clone(h.held.Offloads) {
		if !slices.Contains(want, held.Offload) {
			errs = append(errs, h.releaseOffload(held))
		}
	}
	for _, o := range want {
		errs = append(errs, h.ensureOffload(o))
	}
	return errors.Join(errs...)
}

func (h *Host) ensureOffload(o Offload) error {
	if slices.ContainsFunc(h.held.Offloads, func(held heldOffload) bool { return held.Offload == o }) {
		return nil
	}
	link, err := h.handle.LinkByName(o.Interface)
	if gone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look up %s: %w", o.Interface, err)
	}
	features, err := h.tool.Features(o.Interface)
	if err != nil {
		return fmt.Errorf("read the offloads of %s: %w", o.Interface, err)
	}
	if on, known := features[o.Feature]; !known || on == o.On {
		return nil
	}
	held := heldOffload{Offload: o, Ifindex: link.Attrs().Index}
	if err := h.held.addOffload(held); err != nil {
		return err
	}
	if err := h.tool.Change(o.Interface, map[string]bool{o.Feature: o.On}); err != nil {
		err = fmt.Errorf("set %s of %s: %w", o.Feature, o.Interface, err)
		return errors.Join(err, h.held.dropOffload(held))
	}
	h.log.Info("offload set, and restored when it is no longer needed", "interface", o.Interface, "feature", o.Feature, "on", o.On)
	return nil
}

func (h *Host) releaseOffload(held heldOffload) error {
	link, err := h.handle.LinkByIndex(held.Ifindex)
	switch {
	case gone(err):
		return h.held.dropOffload(held)
	case err != nil:
		return fmt.Errorf("look up interface %d: %w", held.Ifindex, err)
	}
	name := link.Attrs().Name
	features, err := h.tool.Features(name)
	if err == nil && features[held.Feature] == held.On {
		err = h.tool.Change(name, map[string]bool{held.Feature: !held.On})
	}
	if err != nil && !gone(err) {
		return fmt.Errorf("restore %s of %s: %w", held.Feature, name, err)
	}
	return h.held.dropOffload(held)
}

func (r *record) addOffload(o heldOffload) error {
	r.Offloads = append(r.Offloads, o)
	return r.write()
}

func (r *record) dropOffload(o heldOffload) error {
	r.Offloads = slices.DeleteFunc(r.Offloads, func(other heldOffload) bool { return other == o })
	return r.write()
}
