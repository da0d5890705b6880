package datapath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// hook is a place where a program sits: one interface in one role.
type hook struct {
	role    string // rolePort, roleUnderlay or roleCoalescer
	ifindex int
}

func (h hook) String() string { return fmt.Sprintf("%s-%d", h.role, h.ifindex) }

const (
	rolePort     = "port"
	roleUnderlay = "underlay"
	// roleCoalescer is the far end of the pair of Tables.Coalescer.
	roleCoalescer = "coalescer"
)

// attachment is a pinned link. current is false while it runs the programs of a
// former process.
type attachment struct {
	link    link.Link
	current bool
}

// adopt takes over the pinned links of a former process. Those of interfaces
// that are gone are removed.
func (d *Datapath) adopt() error {
	d.links = make(map[hook]*attachment)
	entries, err := os.ReadDir(d.linkDir())
	if err != nil {
		return fmt.Errorf("list the pinned links: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(d.linkDir(), e.Name())
		h, ok := parseHook(e.Name())
		if !ok {
			return fmt.Errorf("%s is not a link of ours: remove it", path)
		}
		l, err := link.LoadPinnedLink(path, nil)
		if err != nil {
			return fmt.Errorf("open the pinned link %s: %w", path, err)
		}
		if !isAttached(l, h.ifindex) {
			if err := errors.Join(l.Unpin(), l.Close()); err != nil {
				return fmt.Errorf("remove the link %s of a vanished interface: %w", path, err)
			}
			continue
		}
		d.links[h] = &attachment{link: l}
	}
	d.adopted = len(d.links) > 0
	return d.restore()
}

func parseHook(name string) (hook, bool) {
	role, index, ok := strings.Cut(name, "-")
	if !ok || role != rolePort && role != roleUnderlay && role != roleCoalescer {
		return hook{}, false
	}
	var h hook
	if _, err := fmt.Sscanf(index, "%d", &h.ifindex); err != nil {
		return hook{}, false
	}
	h.role = role
	return h, true
}

// isAttached reports whether the link still sits on the interface; a link whose
// interface went away stays behind with index 0.
func isAttached(l link.Link, ifindex int) bool {
	info, err := l.Info()
	if err != nil || info.TCX() == nil {
		return false
	}
	return int(info.TCX().Ifindex) == ifindex
}

// attach brings the links to the wanted hooks: programs of a former process are
// swapped in place, without a packet in between that sees none.
func (d *Datapath) attach(want map[hook]bool) error {
	for h := range want {
		if err := d.attachOne(h); err != nil {
			return err
		}
	}
	return nil
}

func (d *Datapath) attachOne(h hook) error {
	prog := d.program(h.role)
	if a, ok := d.links[h]; ok && isAttached(a.link, h.ifindex) {
		if a.current {
			return nil
		}
		if err := a.link.Update(prog); err != nil {
			return fmt.Errorf("swap the program on %s: %w", h, err)
		}
		a.current = true
		return nil
	} else if ok {
		if err := d.detach(h); err != nil {
			return err
		}
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: h.ifindex, Program: prog, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		return fmt.Errorf("attach to %s (tcx needs Linux 6.6 or newer): %w", h, err)
	}
	if err := l.Pin(filepath.Join(d.linkDir(), h.String())); err != nil {
		return errors.Join(fmt.Errorf("pin the link of %s: %w", h, err), l.Close())
	}
	d.links[h] = &attachment{link: l, current: true}
	return nil
}

func (d *Datapath) program(role string) *ebpf.Program {
	switch role {
	case rolePort:
		return d.objs.FromPort
	case roleCoalescer:
		return d.objs.FromCoalescer
	}
	return d.objs.FromUnderlay
}

func (d *Datapath) detach(h hook) error {
	a := d.links[h]
	delete(d.links, h)
	if err := errors.Join(a.link.Unpin(), a.link.Close()); err != nil {
		return fmt.Errorf("detach from %s: %w", h, err)
	}
	return nil
}

// detachRest removes the links that are not wanted.
func (d *Datapath) detachRest(want map[hook]bool) error {
	var errs []error
	for h := range d.links {
		if !want[h] {
			errs = append(errs, d.detach(h))
		}
	}
	return errors.Join(errs...)
}
