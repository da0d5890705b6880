package datapath

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// aside is where a table of another size waits to be carried over. It is a
// pin, so that nothing is lost when this process ends before.
func (ca *carrier) aside(name string) string { return filepath.Join(ca.pins.mapDir(), "former_"+name) }

// setAside keeps m, which the attached programs use. One that is aside already is what
// they use; m is then of a process that ended before they were replaced.
func (ca *carrier) setAside(name string, m kernel.PinnedMap) error {
	previous, err := ca.prog.kernel.Loader.PinnedMap(ca.aside(name))
	if err == nil {
		return errors.Join(previous.Close(), m.Unpin())
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open the pinned map %s: %w", ca.aside(name), err)
	}
	return m.Pin(ca.aside(name))
}

// carriage is the way of connections and sessions from tables of other sizes into the present ones.
type carriage struct {
	previous map[string]kernel.PinnedMap // by the name of the map
	since    uint64                      // what has had a packet since must be carried again
}

// carry copies connections and sessions while the attached programs still use the former tables.
func (ca *carrier) carry() (*carriage, error) {
	c := &carriage{previous: map[string]kernel.PinnedMap{}}
	for _, name := range []string{bpfMapCtEstablished, bpfMapCtHalfOpen, bpfMapNatSessions} {
		m, err := ca.prog.kernel.Loader.PinnedMap(ca.aside(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open the pinned map %s: %w", ca.aside(name), err), c.close())
		}
		c.previous[name] = m
	}
	if len(c.previous) == 0 {
		return c, nil
	}
	now, err := ca.prog.kernel.Clock.Monotonic()
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	const tick = 20e6 // of CLOCK_MONOTONIC_COARSE, at most
	c.since = ago(now, tick)
	for name, m := range c.previous {
		if err := ca.carryMap(name, m, 0); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

// carryMap copies a former map, or what of it had a packet since then.
func (ca *carrier) carryMap(name string, from kernel.Map, since uint64) error {
	if name == bpfMapNatSessions {
		return ca.sessions.table.carry(from, ca.sessions.maps.NatSessions, since)
	}
	return ca.firewall.connections.carry(from, ca.prog.maps()[name], since)
}

// finish carries what changed until the programs were replaced, and forgets the former tables.
func (c *carriage) finish(ca *carrier) error {
	for name, m := range c.previous {
		if err := ca.carryMap(name, m, c.since); err != nil {
			return errors.Join(err, c.close())
		}
		if err := m.Unpin(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fmt.Errorf("remove the former map %s: %w", name, err), c.close())
		}
	}
	return c.close()
}

func (c *carriage) close() error {
	var errs []error
	for name, m := range c.previous {
		errs = append(errs, m.Close())
		delete(c.previous, name)
	}
	return errors.Join(errs...)
}

// putConnections puts conntrack entries into a map, as far as there is room.
func putConnections(to kernel.Map, keys []bpfCtKey, values []bpfCtEntry) error {
	_, err := to.BatchUpdate(keys, values, nil)
	if errors.Is(err, unix.E2BIG) {
		return nil
	}
	return err
}

// putSessions puts NAT sessions with their reverse entries. One that finds no room takes its
// reverse entry with it.
func (se *NATSessions) putSessions(to kernel.Map, keys []bpfCtKey, values []bpfNatSession) error {
	now, err := se.prog.kernel.Clock.Monotonic()
	if err != nil {
		return err
	}
	backs, origins := make([]bpfCtKey, len(keys)), make([]bpfNatOrig, len(keys))
	for i := range keys {
		backs[i], origins[i] = returnKey(&keys[i], &values[i]), returnOf(&keys[i], now)
	}
	returns, err := se.maps.NatReverse.BatchUpdate(backs, origins, nil)
	if err != nil && !isFull(err) {
		return fmt.Errorf("the returns of sessions: %w", err)
	}
	if returns == 0 {
		return nil
	}
	sessions, err := to.BatchUpdate(keys[:returns], values[:returns], nil)
	if err != nil && !errors.Is(err, unix.E2BIG) {
		return err
	}
	for _, back := range backs[sessions:returns] {
		if err := se.deleteReturn(&back); err != nil {
			return err
		}
	}
	return nil
}
