package datapath

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// aside is where a table of another size waits to be carried over. It is a
// pin, so that nothing is lost when this process ends before.
func (d *Datapath) aside(name string) string { return filepath.Join(d.mapDir(), "former_"+name) }

// setAside keeps m, which the attached programs use. One that is aside already is what
// they use; m is then of a process that ended before they were replaced.
func (d *Datapath) setAside(name string, m *ebpf.Map) error {
	previous, err := ebpf.LoadPinnedMap(d.aside(name), nil)
	if err == nil {
		return errors.Join(previous.Close(), m.Unpin())
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open the pinned map %s: %w", d.aside(name), err)
	}
	return m.Pin(d.aside(name))
}

// carriage is the way of connections and sessions from tables of other sizes into the present ones.
type carriage struct {
	previous map[string]*ebpf.Map // by the name of the map
	since    uint64               // what has had a packet since must be carried again
}

// carry copies connections and sessions while the attached programs still use the former tables.
func (d *Datapath) carry() (*carriage, error) {
	c := &carriage{previous: map[string]*ebpf.Map{}}
	for _, name := range []string{bpfMapCtEstablished, bpfMapCtHalfOpen, bpfMapNatSessions} {
		m, err := ebpf.LoadPinnedMap(d.aside(name), nil)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open the pinned map %s: %w", d.aside(name), err), c.close())
		}
		c.previous[name] = m
	}
	if len(c.previous) == 0 {
		return c, nil
	}
	now, err := monotonicNS()
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	const tick = 20e6 // of CLOCK_MONOTONIC_COARSE, at most
	c.since = ago(now, tick)
	for name, m := range c.previous {
		var err error
		if name == bpfMapNatSessions {
			err = d.copySessions(m, nil)
		} else {
			err = copyConnections(m, d.maps()[name], nil)
		}
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

// finish carries what changed until the programs were replaced, and forgets the former tables.
func (c *carriage) finish(d *Datapath) error {
	for name, m := range c.previous {
		if err := c.copyChanged(d, name); err != nil {
			return errors.Join(err, c.close())
		}
		if err := m.Unpin(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fmt.Errorf("remove the former map %s: %w", name, err), c.close())
		}
	}
	return c.close()
}

// copyChanged copies what of a former table had a packet meanwhile.
func (c *carriage) copyChanged(d *Datapath, name string) error {
	if name == bpfMapNatSessions {
		return d.copySessions(c.previous[name], func(k bpfCtKey, b bpfNatSession) bool {
			var there bpfNatSession
			return !isBefore(b.Ct.SeenNs, c.since) && (d.objs.NatSessions.Lookup(k, &there) != nil || isBefore(there.Ct.SeenNs, b.Ct.SeenNs))
		})
	}
	to := d.maps()[name]
	return copyConnections(c.previous[name], to, func(k bpfCtKey, ct bpfCtEntry) bool {
		var there bpfCtEntry
		return !isBefore(ct.SeenNs, c.since) && (to.Lookup(k, &there) != nil || isBefore(there.SeenNs, ct.SeenNs))
	})
}

func (c *carriage) close() error {
	var errs []error
	for name, m := range c.previous {
		errs = append(errs, m.Close())
		delete(c.previous, name)
	}
	return errors.Join(errs...)
}

// copyConnections copies those that match (nil: all), as far as there is room.
func copyConnections(from, to *ebpf.Map, match func(bpfCtKey, bpfCtEntry) bool) error {
	keys, values := make([]bpfCtKey, 0, batch), make([]bpfCtEntry, 0, batch)
	var failed error
	flush := func() {
		_, err := to.BatchUpdate(keys, values, nil)
		if err != nil && !errors.Is(err, unix.E2BIG) && failed == nil {
			failed = fmt.Errorf("carry connections over to the map %s: %w", to, err)
		}
		keys, values = keys[:0], values[:0]
	}
	err := walk(from, func(k bpfCtKey, c bpfCtEntry) {
		if match != nil && !match(k, c) {
			return
		}
		keys, values = append(keys, k), append(values, c)
		if len(keys) == batch {
			flush()
		}
	})
	if len(keys) > 0 {
		flush()
	}
	return errors.Join(err, failed)
}
