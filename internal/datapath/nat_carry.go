package datapath

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// sessionBatch is sessions on their way into the present tables, each with its return.
type sessionBatch struct {
	keys, backs []bpfCtKey
	values      []bpfNatSession
	origins     []bpfNatOrig
}

// copySessions copies those that match (nil: all), as far as there is room.
func (d *Datapath) copySessions(from *ebpf.Map, match func(bpfCtKey, bpfNatSession) bool) error {
	var b sessionBatch
	var errs []error
	err := walk(from, func(k bpfCtKey, v bpfNatSession) {
		if match != nil && !match(k, v) {
			return
		}
		b.keys, b.values = append(b.keys, k), append(b.values, v)
		b.backs, b.origins = append(b.backs, returnKey(&k, &v)), append(b.origins, returnOf(&k))
		if len(b.keys) == batch {
			errs = append(errs, d.putSessionBatch(&b))
		}
	})
	return errors.Join(append(errs, err, d.putSessionBatch(&b))...)
}

// putSessionBatch empties b. A session that finds no room takes its return with it.
func (d *Datapath) putSessionBatch(b *sessionBatch) error {
	n := len(b.keys)
	if n > 0 {
		returns, err := d.objs.NatReverse.BatchUpdate(b.backs, b.origins, nil)
		if err != nil && !isFull(err) {
			return fmt.Errorf("carry over the returns of sessions: %w", err)
		}
		natSessions, err := d.objs.NatSessions.BatchUpdate(b.keys[:returns], b.values[:returns], nil)
		if err != nil && !errors.Is(err, unix.E2BIG) {
			return fmt.Errorf("carry over sessions: %w", err)
		}
		for _, back := range b.backs[natSessions:returns] {
			if err := d.deleteReturn(&back); err != nil {
				return err
			}
		}
	}
	*b = sessionBatch{b.keys[:0], b.backs[:0], b.values[:0], b.origins[:0]}
	return nil
}
